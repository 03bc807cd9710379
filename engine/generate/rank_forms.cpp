// Implements the list of rank_forms.h. It is built once, from the tables in rank_forms_*.cpp.
#include "shardproof/engine/generate/rank_forms.h"

namespace shardproof {

const std::vector<RankForm>& all_rank_forms() {
  static const std::vector<RankForm> kForms = [] {
    std::vector<RankForm> forms;
    add_rank_move_forms(forms);
    add_rank_product_forms(forms);
    add_rank_norm_forms(forms);
    add_rank_training_forms(forms);
    return forms;
  }();
  return kForms;
}

}  // namespace shardproof
