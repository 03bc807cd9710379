// LineWriter: draws operands, names and sizes for the forms of lines. A form returns candidate
// lines; GlobalDraft::add decides if they are legal.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/global_draft.h"

namespace shardproof {

using Lines = std::vector<std::string>;

class LineWriter {
 public:
  LineWriter(GlobalDraft& draft, Draw& draw) : draft_(draft), draw_(draw) {}

  // Return an operand; null if no value fits. Values of the program's dtype and recent ones are
  // preferred.
  const DraftValue* any_float(int64_t least_dims = 0);
  const DraftValue* any_of(const std::function<bool(const DraftValue&)>& fits);
  const DraftValue* like(const DraftValue& value);  // of the same shape and dtype
  const DraftValue* broadcast_with(const DraftValue& value);
  const DraftValue* any_bool_like(const DraftValue& value);

  int64_t dim_of(const DraftValue& value);  // requires a value with dims
  // Returns the text of a dim, counted from the start or from the end.
  std::string dim_text(const DraftValue& value, int64_t dim);
  // Returns a constant of moderate size, often one without an exact representation.
  std::string number();
  // Returns a new name; seldom one that is already bound.
  std::string target();
  std::string fresh() { return draft_.fresh_name(); }

  GlobalDraft& draft() { return draft_; }
  Draw& draw() { return draw_; }
  bool is_whole() const { return draft_.conditioning() == Conditioning::whole_numbers; }
  bool is_well_conditioned() const { return draft_.conditioning() == Conditioning::well; }

 private:
  GlobalDraft& draft_;
  Draw& draw_;
};

// True for f64, f32, f16 and bf16, the floats that programs compute in.
bool is_plain_float(DType dtype);

}  // namespace shardproof
