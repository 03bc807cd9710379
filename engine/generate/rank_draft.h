// RankDraft: a rank program while it is generated, with its truth and the placements of each value.
// A value has the same name in both listings. The truth is lowered and run before a step is
// accepted; the ranks' lines are correct by construction.
//
// If the program ends with gradients, collectives state their backward, and the gradient of a value
// is placed as the value. Over an axis that cuts the value each rank holds its shard of the
// gradient; over any other axis it holds the whole. So `sum(y)` of the ranks' y is differentiated
// as the truth's sum(y) is.
//
// Example: x is R and w is tp:S(1). Each rank reads the whole x for its columns of x @ w, so its
// gradient by x is a part of a sum. enter(x, group=tp) adds the parts.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/generate/forms/global_draft.h"
#include "shardproof/engine/generate/forms/line_writer.h"
#include "shardproof/engine/generate/random_program.h"
#include "shardproof/localtensor/placement/placement.h"

namespace shardproof {

struct RankValue {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;                         // global
  std::vector<Placement> placements;  // R or S by the chunk rule, one for each axis
  bool is_finite = true;
  // Axes over which the gradient by a tensor is the sum of the ranks' parts: "dp, tp". No later
  // step reads such a tensor.
  std::string summed_over = {};
};

// Lines that make one or more values. An error can be planted on a line of the ranks if it begins
// with "name = " and makes an output that has no check.
struct RankStep {
  Lines truth, ranks;
  std::vector<std::pair<std::string, std::vector<Placement>>> results;
  // False: the ranks' gradient ends inside the step, so both listings stop it after the step.
  bool has_backward = true;
};

class RankDraft {
 public:
  RankDraft(Draw& draw, std::string mesh, DType dtype, Conditioning conditioning,
            bool has_gradients, const OpRegistry& ops);

  // Adds a tensor with drawn elements and returns its name.
  std::string add_tensor(const Dims& shape, DType dtype, const std::vector<Placement>& placements);
  // Adds a tensor with drawn elements that are finite, and returns its name.
  std::string add_finite_tensor(const Dims& shape, const std::vector<Placement>& placements);
  // True if the program ends with gradients.
  bool has_gradients() const { return has_gradients_; }
  // Returns ", backward=word" if the program ends with gradients; else "".
  std::string backward(const std::string& word) const;
  // Returns the text of a value that the ranks read for results with these placements. It is the
  // name, or `enter` over the axes that cut the results and not the value.
  std::string entered(const RankValue& value, const std::vector<Placement>& results) const;
  // Returns the text of a tensor that no other step reads, as entered() does for a value. Its
  // gradient may also be left in parts, which the end of the program adds.
  std::string entered_tensor(const std::string& name, const std::vector<Placement>& results);
  // Returns an all_reduce by sum over "tp" or "[dp, tp]". Each rank reads its result for a part of
  // the next values, so its backward adds the gradients of the ranks.
  std::string summed_for_parts(const std::string& x, const std::string& group);

  // Adds a step. Returns false and changes nothing if the truth's lines are not accepted.
  bool add(RankStep step);
  // Declares outputs among the results of steps and fills in the program.
  void finish(RandomProgram& program);

  // Returns a value that fits, preferably a recent one; null if none does.
  const RankValue* any_of(const std::function<bool(const RankValue&)>& fits);
  // Returns a value of the program's dtype with this many dims; null if there is none.
  const RankValue* any_float(int64_t dims, bool has_to_be_finite);

  int draw_axis() { return static_cast<int>(draw_.below(mesh().axis_count())); }
  const Mesh& mesh() const { return truth_.mesh(); }
  std::string axis_name(int axis) const { return mesh().axes()[static_cast<size_t>(axis)].name; }
  int64_t axis_size(int axis) const { return mesh().axis_size(axis); }
  // True if no axis cuts the dim, apart from axis `but` (-1: none).
  bool is_uncut(const RankValue& value, int dim, int but = -1) const;
  bool is_even(const RankValue& value, int dim, int axis) const {
    return value.shape[static_cast<size_t>(dim)] % axis_size(axis) == 0;
  }
  // True if the chunk rule gives each rank of the axis a part of the dim.
  bool has_no_empty_part(const RankValue& value, int dim, int axis) const {
    const int64_t size = value.shape[static_cast<size_t>(dim)], ranks = axis_size(axis);
    return (size + ranks - 1) / ranks * (ranks - 1) < size;
  }
  std::vector<Placement> replicated() const {
    return std::vector<Placement>(mesh().axes().size(), R());
  }
  // Returns what one device computes.
  const DraftValue& truth_of(const RankValue& value) const { return *truth_.find(value.name); }
  const RankValue& at(const std::string& name) const;
  bool is_result(const std::string& name) const;  // of a step
  // Returns the axes that cut a value: "dp, tp"; "" if none does.
  std::string cutting_axes(const RankValue& value) const;

  std::string fresh() { return truth_.fresh_name(); }
  Draw& draw() { return draw_; }
  DType dtype() const { return truth_.dtype(); }
  bool is_whole() const { return truth_.conditioning() == Conditioning::whole_numbers; }
  int64_t line_count() const { return truth_.line_count(); }

 private:
  std::string add(const Dims& shape, DType dtype, const std::vector<Placement>& placements,
                  Conditioning elements);
  std::string axes_to_add(const RankValue& value, const std::vector<Placement>& results) const;
  void stop_after(RankStep& step);
  void add_check(const RankValue& value);
  void add_site(RandomProgram& program, const RankValue& value) const;

  Draw& draw_;
  bool has_gradients_;
  GlobalDraft truth_;
  Lines ranks_;
  std::vector<RankValue> values_;
  std::vector<std::string> results_;
  std::set<std::string> checked_;  // names with a check(..)
};

}  // namespace shardproof
