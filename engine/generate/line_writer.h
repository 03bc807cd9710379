// LineWriter gives the forms of lines what they are written with: operands that fit, names, sizes.
// A form gives candidate lines; GlobalDraft::add decides whether they are legal.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/global_draft.h"

namespace shardproof {

using Lines = std::vector<std::string>;

class LineWriter {
 public:
  LineWriter(GlobalDraft& draft, Draw& draw) : draft_(draft), draw_(draw) {}

  // Operands; null if no value fits. Values of the program's dtype and recent ones are preferred.
  const DraftValue* any_float(int64_t least_dims = 0);
  const DraftValue* any_of(const std::function<bool(const DraftValue&)>& fits);
  const DraftValue* like(const DraftValue& value);  // same shape and dtype
  const DraftValue* broadcast_with(const DraftValue& value);
  const DraftValue* any_bool_like(const DraftValue& value);

  int64_t dim_of(const DraftValue& value);  // requires dims
  // A dim as written: counted from the start or from the end.
  std::string dim_text(const DraftValue& value, int64_t dim);
  std::string number();  // a constant of moderate size, not representable exactly as a rule
  std::string target();  // a fresh name; seldom one that is bound again
  std::string fresh() { return draft_.fresh_name(); }

  GlobalDraft& draft() { return draft_; }
  Draw& draw() { return draw_; }
  bool is_whole() const { return draft_.conditioning() == Conditioning::whole_numbers; }
  bool is_tame() const { return draft_.conditioning() == Conditioning::tame; }

 private:
  GlobalDraft& draft_;
  Draw& draw_;
};

// One form of a line, or of a few lines that belong together.
struct LineForm {
  std::string name;
  bool whole = false;  // keeps small whole numbers exact in any order of addition
  double weight = 1;
  std::function<Lines(LineWriter&)> write;  // empty: nothing fits
};

// Tables by aspect.
void add_elementwise_forms(std::vector<LineForm>& forms);
void add_move_forms(std::vector<LineForm>& forms);
void add_reduction_forms(std::vector<LineForm>& forms);
void add_contraction_forms(std::vector<LineForm>& forms);
void add_choice_forms(std::vector<LineForm>& forms);  // integers, masks, orders, indices
void add_cast_forms(std::vector<LineForm>& forms);
void add_loop_forms(std::vector<LineForm>& forms);
void add_ill_conditioned_forms(std::vector<LineForm>& forms);  // not for tame programs

const std::vector<LineForm>& tame_forms();
const std::vector<LineForm>& all_forms();

bool is_plain_float(DType dtype);  // f64, f32, f16, bf16: floats that programs compute in

}  // namespace shardproof
