// GlobalDraft: a global program while it is generated, with the value of each name on one device.
// Each line is lowered and run on one device before it is accepted. So the language itself decides
// what is legal, and the generator can choose lines by the values that exist.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/draw_values.h"
#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

struct DraftValue {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  Tensor value;                           // on one device
  std::optional<std::string> placements;  // of every axis, "dp:S(0) tp:R"; none: not known
  double largest = 0;                     // absolute value of the largest finite element
  bool is_finite = true;
};

class GlobalDraft {
 public:
  GlobalDraft(std::string mesh, DType dtype, Conditioning conditioning, const OpRegistry& ops);

  // Adds a tensor and draws its elements. Requires placements that name every axis.
  void add_tensor(Draw& draw, TensorText tensor, Conditioning elements);
  // Appends lines that bind new names or bind names again. Returns false and changes nothing if the
  // lines are not legal or fail on their data. Also returns false if values have too many elements,
  // or are too large for the conditioning.
  bool add(Draw& draw, const std::vector<std::string>& lines);
  // Sets the placements of the value that `name` has now.
  void set_placements(const std::string& name, const std::string& placements);
  std::string fresh_name() { return fmt::format("v{}", ++names_); }

  const ProgramText& text() const { return text_; }
  const Mesh& mesh() const { return mesh_; }
  DType dtype() const { return text_.dtype; }
  Conditioning conditioning() const { return conditioning_; }
  const std::vector<DraftValue>& values() const { return values_; }  // in order of last binding
  const DraftValue* find(const std::string& name) const;             // null: not bound
  int64_t line_count() const { return std::ssize(text_.program); }

 private:
  bool is_acceptable(Draw& draw, const DraftValue& value) const;
  void bind(DraftValue value);

  ProgramText text_;
  Mesh mesh_;
  Conditioning conditioning_;
  const OpRegistry& ops_;
  std::vector<DraftValue> values_;
  int names_ = 0;
};

}  // namespace shardproof
