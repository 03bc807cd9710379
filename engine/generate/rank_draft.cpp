// Implements rank_draft.h. The truth is a GlobalDraft, which refuses lines that are not legal or
// not well-conditioned; the ranks' lines are appended only if it accepts.
#include "shardproof/engine/generate/rank_draft.h"

#include <algorithm>

#include "shardproof/engine/generate/forms/draw_placements.h"

namespace shardproof {
namespace {

constexpr double kCheckShare = 0.12;  // share of the values that also get a check at their line
constexpr double kSummedShare = 0.4;  // of tensors whose gradient the end of the program adds

// Returns "tp", or "[dp, tp]" for more than one axis.
std::string group_text(const std::string& axes) {
  return axes.find(',') == std::string::npos ? axes : "[" + axes + "]";
}

}  // namespace

RankDraft::RankDraft(Draw& draw, std::string mesh, DType dtype, Conditioning conditioning,
                     bool has_gradients, const OpRegistry& ops)
    : draw_(draw),
      has_gradients_(has_gradients),
      truth_(std::move(mesh), dtype, conditioning, ops) {}

std::string RankDraft::add_tensor(const Dims& shape, DType dtype,
                                  const std::vector<Placement>& placements) {
  return add(shape, dtype, placements, truth_.conditioning());
}

std::string RankDraft::add_finite_tensor(const Dims& shape,
                                         const std::vector<Placement>& placements) {
  return add(shape, dtype(), placements, std::min(truth_.conditioning(), Conditioning::ill));
}

std::string RankDraft::add(const Dims& shape, DType dtype, const std::vector<Placement>& placements,
                           Conditioning elements) {
  const std::string name = "t" + fresh();
  truth_.add_tensor(draw_, {name, dtype, shape, all_axes_text(mesh(), placements), {}}, elements);
  values_.push_back({name, dtype, shape, placements, truth_.find(name)->is_finite});
  return name;
}

std::string RankDraft::backward(const std::string& word) const {
  return has_gradients_ ? ", backward=" + word : "";
}

std::string RankDraft::axes_to_add(const RankValue& value,
                                   const std::vector<Placement>& results) const {
  std::string axes;
  for (size_t axis = 0; has_gradients_ && axis < results.size(); ++axis)
    if (results[axis].is_shard() && !value.placements[axis].is_shard())
      axes += (axes.empty() ? "" : ", ") + axis_name(static_cast<int>(axis));
  return axes;
}

std::string RankDraft::entered(const RankValue& value,
                               const std::vector<Placement>& results) const {
  const std::string axes = axes_to_add(value, results);
  if (axes.empty()) return value.name;
  return fmt::format("enter({}, group={})", value.name, group_text(axes));
}

std::string RankDraft::entered_tensor(const std::string& name,
                                      const std::vector<Placement>& results) {
  const auto tensor = std::find_if(values_.begin(), values_.end(),
                                   [&](const RankValue& value) { return value.name == name; });
  const std::string axes = axes_to_add(*tensor, results);
  if (axes.empty() || !draw_.chance(kSummedShare)) return entered(*tensor, results);
  tensor->summed_over = group_text(axes);
  return name;
}

std::string RankDraft::summed_for_parts(const std::string& x, const std::string& group) {
  if (has_gradients_ && draw_.chance(0.4))
    return fmt::format("enter(all_reduce({}, sum, group={}, backward=identity), group={})", x,
                       group, group);
  return fmt::format("all_reduce({}, sum, group={}{})", x, group, backward("all_reduce"));
}

bool RankDraft::add(RankStep step) {
  if (has_gradients_ && !step.has_backward) stop_after(step);
  if (step.truth.empty() || !truth_.add(draw_, step.truth)) return false;
  ranks_.insert(ranks_.end(), step.ranks.begin(), step.ranks.end());
  for (const auto& [name, placements] : step.results) {
    const DraftValue& value = *truth_.find(name);
    values_.push_back({name, value.dtype, value.shape, placements, value.is_finite});
    results_.push_back(name);
    if (draw_.chance(kCheckShare)) add_check(values_.back());
  }
  return true;
}

void RankDraft::stop_after(RankStep& step) {
  for (auto& [name, placements] : step.results) {
    const std::string stopped = fresh();
    for (Lines* lines : {&step.truth, &step.ranks})
      lines->push_back(fmt::format("{} = stop({})", stopped, name));
    name = stopped;
  }
}

void RankDraft::add_check(const RankValue& value) {
  checked_.insert(value.name);
  ranks_.push_back(
      fmt::format("check({0}, '{0}', {1})", value.name, all_axes_text(mesh(), value.placements)));
}

const RankValue* RankDraft::any_of(const std::function<bool(const RankValue&)>& fits) {
  std::vector<const RankValue*> fitting;
  for (const RankValue& value : values_)
    if (value.summed_over.empty() && fits(value)) fitting.push_back(&value);
  if (fitting.empty()) return nullptr;
  const int64_t count = std::ssize(fitting);
  const int64_t from = draw_.chance(0.6) ? std::max<int64_t>(0, count - 4) : 0;
  return fitting[static_cast<size_t>(draw_.between(from, count - 1))];
}

const RankValue* RankDraft::any_float(int64_t dims, bool has_to_be_finite) {
  return any_of([&](const RankValue& value) {
    return value.dtype == dtype() && static_cast<int64_t>(value.shape.size()) == dims &&
           (value.is_finite || !has_to_be_finite);
  });
}

bool RankDraft::is_uncut(const RankValue& value, int dim, int but) const {
  for (int axis = 0; axis < mesh().axis_count(); ++axis)
    if (axis != but && value.placements[static_cast<size_t>(axis)].is_shard(dim)) return false;
  return true;
}

const RankValue& RankDraft::at(const std::string& name) const {
  return *std::find_if(values_.begin(), values_.end(),
                       [&](const RankValue& value) { return value.name == name; });
}

bool RankDraft::is_result(const std::string& name) const {
  return std::find(results_.begin(), results_.end(), name) != results_.end();
}

std::string RankDraft::cutting_axes(const RankValue& value) const {
  std::string axes;
  for (int axis = 0; axis < mesh().axis_count(); ++axis)
    if (value.placements[static_cast<size_t>(axis)].is_shard())
      axes += (axes.empty() ? "" : ", ") + axis_name(axis);
  return axes;
}

void RankDraft::add_site(RandomProgram& program, const RankValue& value) const {
  if (checked_.contains(value.name)) return;
  const std::string start = value.name + " = ";
  for (size_t i = 0; i < ranks_.size(); ++i)
    if (ranks_[i].starts_with(start))
      program.sites.push_back({static_cast<int>(i) + 1, value.name, ranks_[i].substr(start.size()),
                               all_axes_text(mesh(), value.placements)});
}

void RankDraft::finish(RandomProgram& program) {
  ProgramText text = truth_.text();
  text.truth = std::move(text.program);
  text.program.clear();
  text.ranks = ranks_;
  for (size_t i = 0; i < results_.size(); ++i) {
    if (i + 1 < results_.size() && !draw_.chance(0.5)) continue;
    const RankValue& value = at(results_[i]);
    text.outputs.emplace_back(value.name, all_axes_text(mesh(), value.placements));
    if (is_plain_float(value.dtype)) add_site(program, value);
  }
  program.text = std::move(text);
}

}  // namespace shardproof
