// Implements the lists of line_forms.h. Each list is built once, from the tables in
// line_forms_*.cpp.
#include "shardproof/engine/generate/forms/line_forms.h"

namespace shardproof {

const std::vector<LineForm>& well_conditioned_forms() {
  static const std::vector<LineForm> kForms = [] {
    std::vector<LineForm> forms;
    add_elementwise_forms(forms);
    add_move_forms(forms);
    add_reduction_forms(forms);
    add_contraction_forms(forms);
    add_choice_forms(forms);
    add_cast_forms(forms);
    add_loop_forms(forms);
    return forms;
  }();
  return kForms;
}

const std::vector<LineForm>& all_forms() {
  static const std::vector<LineForm> kForms = [] {
    std::vector<LineForm> forms = well_conditioned_forms();
    add_ill_conditioned_forms(forms);
    return forms;
  }();
  return kForms;
}

}  // namespace shardproof
