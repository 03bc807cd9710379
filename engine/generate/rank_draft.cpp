// Implements rank_draft.h. The truth is a GlobalDraft, which refuses lines that are not legal or
// not well-conditioned; the ranks' lines are appended only if it accepts.
#include "shardproof/engine/generate/rank_draft.h"

#include <algorithm>

#include "shardproof/engine/generate/forms/draw_placements.h"

namespace shardproof {
namespace {

constexpr double kCheckShare = 0.12;  // share of the values that also get a check at their line

}  // namespace

RankDraft::RankDraft(Draw& draw, std::string mesh, DType dtype, Conditioning conditioning,
                     const OpRegistry& ops)
    : draw_(draw), truth_(std::move(mesh), dtype, conditioning, ops) {}

std::string RankDraft::add_tensor(const Dims& shape, DType dtype,
                                  const std::vector<Placement>& placements) {
  return add(shape, dtype, placements, truth_.conditioning());
}

std::string RankDraft::add_finite_tensor(const Dims& shape,
                                         const std::vector<Placement>& placements) {
  return add(shape, dtype(), placements, std::min(truth_.conditioning(), Conditioning::rough));
}

std::string RankDraft::add(const Dims& shape, DType dtype, const std::vector<Placement>& placements,
                           Conditioning elements) {
  const std::string name = "t" + fresh();
  truth_.add_tensor(draw_, {name, dtype, shape, all_axes_text(mesh(), placements), {}}, elements);
  values_.push_back({name, dtype, shape, placements, truth_.find(name)->is_finite});
  return name;
}

bool RankDraft::add(const RankStep& step) {
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

void RankDraft::add_check(const RankValue& value) {
  checked_.insert(value.name);
  ranks_.push_back(
      fmt::format("check({0}, '{0}', {1})", value.name, all_axes_text(mesh(), value.placements)));
}

const RankValue* RankDraft::any_of(const std::function<bool(const RankValue&)>& fits) {
  std::vector<const RankValue*> fitting;
  for (const RankValue& value : values_)
    if (fits(value)) fitting.push_back(&value);
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
    const auto value = std::find_if(values_.begin(), values_.end(), [&](const RankValue& other) {
      return other.name == results_[i];
    });
    text.outputs.emplace_back(value->name, all_axes_text(mesh(), value->placements));
    if (is_plain_float(value->dtype)) add_site(program, *value);
  }
  program.text = std::move(text);
}

}  // namespace shardproof
