// Implements candidates.h, one draw at a time:
//
// 1. For each input and placement, the local contents of all ranks lie in pools, one for each local
//    shape (InputPool). A rank's content has a slot in a pool.
// 2. Each choice of inputs gives each rank a lane in the bucket of its local shapes. A bucket is
//    one kernel call.
// 3. For each choice, the placements of a result whose local shapes are those of the lanes are
//    judged. Shapes are compared by one number (signature). Later draws judge what is left.
#include "shardproof/engine/check_ops/candidates.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/engine/check_ops/shard_run.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr size_t kMostChoices = 1 << 20;

struct PlacementFlags {
  bool is_legal = true;  // for the dtype of the draw
  bool is_partial = false, orders = false;
};

PlacementFlags flags_of(const Spec& spec, DType dtype) {
  PlacementFlags flags;
  for (const Placement& p : spec.placements()) {
    if (!p.is_partial()) continue;
    const ReduceOp op = p.partial().reduction.op;
    flags.is_partial = true;
    flags.is_legal = flags.is_legal && is_reduction_allowed(op, dtype);
    flags.orders =
        flags.orders || op == ReduceOp::min || op == ReduceOp::max || op == ReduceOp::prod;
  }
  return flags;
}

bool kind_applies(DrawKind kind, PlacementFlags flags, bool is_input) {
  if (!flags.is_legal) return false;
  if (kind == DrawKind::words) return !flags.orders;
  return kind != DrawKind::special || !is_input || !flags.is_partial;
}

// Local contents of one input under all its placements.
struct InputPool {
  std::vector<Dims> shapes;
  std::vector<std::vector<std::byte>> contents;         // by shape
  std::vector<std::vector<int32_t>> shape_of, slot_of;  // by placement and rank
  std::vector<bool> applies;
  double largest_part = 0;
};

int32_t index_of(std::vector<Dims>& shapes, const Dims& shape) {
  const auto found = std::find(shapes.begin(), shapes.end(), shape);
  if (found != shapes.end()) return static_cast<int32_t>(found - shapes.begin());
  shapes.push_back(shape);
  return static_cast<int32_t>(shapes.size()) - 1;
}

InputPool pool_of(const RuleDraw& draw, size_t input, const std::vector<Slices>& placements) {
  InputPool pool;
  const TensorMeta& meta = draw.instance.inputs[input];
  std::vector<int32_t> used;
  for (const Slices& slices : placements) {
    const PlacementFlags flags = flags_of(slices.spec, meta.dtype);
    pool.applies.push_back(kind_applies(draw.kind, flags, true));
    std::vector<int32_t>& shape_of = pool.shape_of.emplace_back();
    std::vector<int32_t>& slot_of = pool.slot_of.emplace_back();
    const bool is_placed = pool.applies.back() && !meta.absent;
    const PlacedInput placed = is_placed ? place_input(draw, input, slices) : PlacedInput{};
    pool.largest_part = std::max(pool.largest_part, placed.largest_part);
    for (int rank = 0; rank < slices.ranks(); ++rank) {
      const Dims& shape = slices.shapes[static_cast<size_t>(rank)];
      const int32_t at = index_of(pool.shapes, shape);
      pool.contents.resize(pool.shapes.size());
      used.resize(pool.shapes.size(), 0);
      int32_t& slot = used[static_cast<size_t>(at)];
      shape_of.push_back(at);
      slot_of.push_back(slot);
      if (!is_placed) continue;
      const int64_t bytes = element_count(shape) * size_of(meta.dtype);
      std::vector<std::byte>& contents = pool.contents[static_cast<size_t>(at)];
      contents.resize(static_cast<size_t>((slot + 1) * bytes));
      copy_local(placed, slices, rank, contents.data() + slot * bytes);
      ++slot;
    }
  }
  for (std::vector<std::byte>& contents : pool.contents) contents.emplace_back();
  return pool;
}

// Lanes of equal local input shapes.
struct Bucket {
  std::vector<std::vector<int32_t>> slots;  // by input, then by lane
  int32_t lanes = 0;
  bool runs = false;
  std::vector<std::vector<std::byte>> results;  // by output
  std::vector<bool> lane_runs;                  // empty: all
  std::vector<int64_t> result_bytes;            // of a lane, by output
  std::vector<int32_t> shape_of;                // by output
};

class CandidateSearch {
 public:
  CandidateSearch(const std::vector<RuleDraw>& draws, const std::vector<std::vector<Spec>>& inputs,
                  const std::vector<std::vector<Spec>>& outputs)
      : draws_(draws), outputs_(outputs.size()) {
    for (const std::vector<Spec>& list : inputs) inputs_.push_back(prepared(list));
    for (size_t o = 0; o < outputs.size(); ++o) outputs_[o] = prepared(outputs[o]);
    ranks_ = inputs_.front().front().ranks();
    list_choices();
    for (const std::vector<Slices>& of_output : outputs_) {
      per_choice_ += of_output.size();
      offsets_.push_back(per_choice_ - of_output.size());
    }
    left_.assign(choices_.size() * per_choice_, 1);
    agreed_.assign(choices_.size() * per_choice_, 0);
  }

  CandidateResult run() {
    for (const RuleDraw& draw : draws_) run_draw(draw);
    CandidateResult result;
    result.combinations = static_cast<int64_t>(left_.size());
    for (size_t c = 0; c < choices_.size(); ++c)
      for (size_t o = 0; o < outputs_.size(); ++o)
        for (size_t p = 0; p < outputs_[o].size(); ++p) {
          const size_t at = c * per_choice_ + offsets_[o] + p;
          if (left_[at] && agreed_[at])
            result.right.push_back({choices_[c], static_cast<int32_t>(o), static_cast<int32_t>(p)});
        }
    return result;
  }

 private:
  struct LanePlace {
    int32_t bucket = -1, lane = 0;
  };

  static std::vector<Slices> prepared(const std::vector<Spec>& specs) {
    std::vector<Slices> list;
    for (const Spec& spec : specs) list.push_back(slices_of(spec));
    return list;
  }

  void list_choices() {
    std::vector<int32_t> pick(inputs_.size(), 0);
    while (true) {
      choices_.push_back(pick);
      if (choices_.size() > kMostChoices)
        throw_bad_input("more than {} choices of placements", kMostChoices);
      size_t i = 0;
      for (; i < pick.size(); ++i) {
        if (++pick[i] < static_cast<int32_t>(inputs_[i].size())) break;
        pick[i] = 0;
      }
      if (i == pick.size()) return;
    }
  }

  void run_draw(const RuleDraw& draw) {
    std::vector<InputPool> pools;
    for (size_t i = 0; i < inputs_.size(); ++i) pools.push_back(pool_of(draw, i, inputs_[i]));
    assign_lanes(pools);
    for (auto& [shapes, at] : bucket_of_)
      run_bucket(draw, pools, shapes, buckets_[static_cast<size_t>(at)]);
    prepare_outputs(draw, pools);
    for (size_t c = 0; c < choices_.size(); ++c)
      if (places_[c * static_cast<size_t>(ranks_)].bucket >= 0) judge_choice(draw, c);
  }

  bool has_left(size_t choice) const {
    const auto first = left_.begin() + static_cast<std::ptrdiff_t>(choice * per_choice_);
    return std::find(first, first + static_cast<std::ptrdiff_t>(per_choice_), 1) !=
           first + static_cast<std::ptrdiff_t>(per_choice_);
  }

  void assign_lanes(const std::vector<InputPool>& pools) {
    bucket_of_.clear();
    buckets_.clear();
    places_.assign(choices_.size() * static_cast<size_t>(ranks_), {});
    std::vector<int32_t> shapes(inputs_.size());
    for (size_t c = 0; c < choices_.size(); ++c) {
      bool applies = has_left(c);
      for (size_t i = 0; i < pools.size() && applies; ++i)
        applies = pools[i].applies[static_cast<size_t>(choices_[c][i])];
      if (!applies) continue;
      for (int rank = 0; rank < ranks_; ++rank) {
        for (size_t i = 0; i < pools.size(); ++i)
          shapes[i] =
              pools[i].shape_of[static_cast<size_t>(choices_[c][i])][static_cast<size_t>(rank)];
        const auto [found, added] =
            bucket_of_.try_emplace(shapes, static_cast<int32_t>(buckets_.size()));
        if (added) buckets_.emplace_back().slots.resize(pools.size());
        Bucket& bucket = buckets_[static_cast<size_t>(found->second)];
        for (size_t i = 0; i < pools.size(); ++i)
          bucket.slots[i].push_back(
              pools[i].slot_of[static_cast<size_t>(choices_[c][i])][static_cast<size_t>(rank)]);
        places_[c * static_cast<size_t>(ranks_) + static_cast<size_t>(rank)] = {found->second,
                                                                                bucket.lanes++};
      }
    }
  }

  void run_bucket(const RuleDraw& draw, const std::vector<InputPool>& pools,
                  const std::vector<int32_t>& shapes, Bucket& bucket) {
    std::vector<TensorMeta> metas = draw.instance.inputs;
    std::vector<LaneView> views(metas.size());
    for (size_t i = 0; i < metas.size(); ++i) {
      if (metas[i].absent) continue;
      const auto at = static_cast<size_t>(shapes[i]);
      metas[i].shape = pools[i].shapes[at];
      views[i] = {const_cast<std::byte*>(pools[i].contents[at].data()),
                  element_count(metas[i].shape) * size_of(metas[i].dtype),
                  bucket.slots[i].data(),
                  metas[i].dtype,
                  metas[i].shape,
                  contiguous_strides(metas[i].shape)};
    }
    const std::optional<LocalProgram>& program = program_for(draw, shapes, metas);
    if (!program) return;  // no candidate of these choices is right
    for (size_t o = 0; o < program->outputs().size(); ++o) {
      const TensorMeta& meta = program->outputs()[o];
      bucket.result_bytes.push_back(element_count(meta.shape) * size_of(meta.dtype));
      bucket.shape_of.push_back(index_of(output_shapes_, meta.shape));
      if (meta.dtype != draw.outputs[o].dtype) return;
    }
    run_lanes(*program, views, bucket);
  }

  // Returns nullopt if the op does not accept these shapes. Draws of the same dtypes share a
  // computation, and each lists the shapes of an input in the same order.
  const std::optional<LocalProgram>& program_for(const RuleDraw& draw,
                                                 const std::vector<int32_t>& shapes,
                                                 const std::vector<TensorMeta>& metas) {
    const auto [found, added] = programs_.try_emplace({draw.computation.get(), shapes});
    if (!added) return found->second;
    try {
      found->second = draw.computation->compile(metas);
    } catch (const Error&) {
      // Stays nullopt.
    }
    return found->second;
  }

  // If a kernel fails on its data, each lane runs alone, so that the others still have results.
  static void run_lanes(const LocalProgram& program, const std::vector<LaneView>& views,
                        Bucket& bucket) {
    bucket.runs = true;
    try {
      bucket.results = program.run(bucket.lanes, views);
      return;
    } catch (const Error&) {
      bucket.lane_runs.assign(static_cast<size_t>(bucket.lanes), false);
      for (const int64_t bytes : bucket.result_bytes)
        bucket.results.emplace_back(static_cast<size_t>(bytes * bucket.lanes + 1));
    }
    for (int32_t lane = 0; lane < bucket.lanes; ++lane) {
      std::vector<LaneView> alone = views;
      for (LaneView& view : alone)
        if (view.slots) view.slots += lane;
      try {
        const std::vector<std::vector<std::byte>> one = program.run(1, alone);
        for (size_t o = 0; o < one.size(); ++o)
          std::copy_n(one[o].begin(), bucket.result_bytes[o],
                      bucket.results[o].begin() + lane * bucket.result_bytes[o]);
        bucket.lane_runs[static_cast<size_t>(lane)] = true;
      } catch (const Error&) {
        // Stays false.
      }
    }
  }

  uint64_t signature(const std::vector<int32_t>& shapes) const {
    uint64_t number = 0;
    for (const int32_t shape : shapes) number = number * 251 + static_cast<uint64_t>(shape) + 1;
    return number;
  }

  // Lists the placements of each result by the signature of their local shapes.
  void prepare_outputs(const RuleDraw& draw, const std::vector<InputPool>& pools) {
    double parts = 0;
    for (const InputPool& pool : pools) parts = std::max(parts, pool.largest_part);
    limits_.clear();
    by_signature_.assign(outputs_.size(), {});
    for (size_t o = 0; o < outputs_.size(); ++o) {
      limits_.push_back(limits_of(draw, o, parts));
      for (size_t p = 0; p < outputs_[o].size(); ++p) {
        const Slices& slices = outputs_[o][p];
        if (!kind_applies(draw.kind, flags_of(slices.spec, draw.outputs[o].dtype), false)) continue;
        std::vector<int32_t> shapes;
        for (const Dims& shape : slices.shapes) shapes.push_back(index_of(output_shapes_, shape));
        by_signature_[o][signature(shapes)].push_back(static_cast<int32_t>(p));
      }
    }
  }

  void judge_choice(const RuleDraw& draw, size_t c) {
    const LanePlace* const places = &places_[c * static_cast<size_t>(ranks_)];
    for (size_t o = 0; o < outputs_.size(); ++o) {
      bool runs = true;
      uint64_t number = 0;
      results_.dtype = draw.outputs[o].dtype;
      results_.data.resize(static_cast<size_t>(ranks_));
      for (int rank = 0; rank < ranks_ && runs; ++rank) {
        const Bucket& bucket = buckets_[static_cast<size_t>(places[rank].bucket)];
        runs = bucket.runs && (bucket.lane_runs.empty() ||
                               bucket.lane_runs[static_cast<size_t>(places[rank].lane)]);
        if (!runs) break;
        results_.data[static_cast<size_t>(rank)] =
            bucket.results[o].data() + places[rank].lane * bucket.result_bytes[o];
        number = number * 251 + static_cast<uint64_t>(bucket.shape_of[o]) + 1;
      }
      judge_placements(draw, c, o, runs ? number : 0);
    }
  }

  // `number` is the signature of the local results; 0: a rank has none, and nothing is right.
  void judge_placements(const RuleDraw& draw, size_t c, size_t o, uint64_t number) {
    uint8_t* const left = &left_[c * per_choice_ + offsets_[o]];
    for (auto& [signature, placements] : by_signature_[o])
      for (const int32_t p : placements) {
        if (!left[p]) continue;
        if (signature != number) {
          left[p] = 0;
          continue;
        }
        const Agreement answer =
            judge(outputs_[o][static_cast<size_t>(p)], results_, draw.outputs[o], limits_[o]);
        if (answer == Agreement::differs) left[p] = 0;
        if (answer == Agreement::agrees)
          agreed_[c * per_choice_ + offsets_[o] + static_cast<size_t>(p)] = 1;
      }
  }

  const std::vector<RuleDraw>& draws_;
  std::vector<std::vector<Slices>> inputs_, outputs_;
  int ranks_ = 0;
  std::vector<std::vector<int32_t>> choices_;
  size_t per_choice_ = 0;
  std::vector<size_t> offsets_;         // by output: its first placement among `per_choice_`
  std::vector<uint8_t> left_, agreed_;  // by choice, output and placement
  // Set for each draw:
  std::map<std::vector<int32_t>, int32_t> bucket_of_;  // by local shapes
  std::vector<Bucket> buckets_;
  std::vector<LanePlace> places_;  // by choice and rank
  std::vector<Dims> output_shapes_;
  std::vector<Limits> limits_;
  std::vector<std::map<uint64_t, std::vector<int32_t>>> by_signature_;
  RankResults results_;
  std::map<std::pair<const Computation*, std::vector<int32_t>>, std::optional<LocalProgram>>
      programs_;  // by computation and local shapes
};

std::string key_of(const std::vector<Spec>& inputs, size_t output, const Spec& placed) {
  std::string key;
  for (const Spec& spec : inputs) key += placements_text(spec) + "|";
  return key + fmt::format("{}:{}", output, placements_text(placed));
}

}  // namespace

CandidateResult search_candidates(const std::vector<RuleDraw>& draws,
                                  const std::vector<std::vector<Spec>>& inputs,
                                  const std::vector<std::vector<Spec>>& outputs) {
  return CandidateSearch(draws, inputs, outputs).run();
}

std::vector<MissingRule> missing_rules(const OpInstance& instance,
                                       const std::vector<RuleDraw>& draws, int64_t& combinations) {
  if (draws.empty() || instance.inputs.empty()) return {};
  const Mesh mesh = Mesh::parse("a=2");
  std::vector<std::vector<Spec>> inputs, outputs;
  size_t choices = 1;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    EnumerateOptions options;
    options.partials = !instance.fills[i].starts_with("ints(");
    inputs.push_back(all_placements(instance.inputs[i], mesh, options));
    choices *= inputs.back().size();
  }
  if (choices > kMostChoices) return {};
  const std::vector<TensorMeta> metas = instance.record->infer(instance.call());
  for (const TensorMeta& meta : metas) outputs.push_back(all_placements(meta, mesh, {}));
  std::set<std::string> claimed;
  for (const int64_t split : {1, 2})
    for (const RuleClaim& claim : claims_of(instance, {mesh, {{split, {}}}}))
      for (size_t o = 0; o < metas.size(); ++o)
        claimed.insert(key_of(claim.inputs, o, claim.placed.outputs[o]));
  const CandidateResult found = search_candidates(draws, inputs, outputs);
  combinations += found.combinations;
  std::vector<MissingRule> missing;
  for (const RightRule& rule : found.right) {
    std::vector<Spec> placed;
    bool is_replicated = true;
    for (size_t i = 0; i < inputs.size(); ++i) {
      placed.push_back(inputs[i][static_cast<size_t>(rule.inputs[i])]);
      is_replicated = is_replicated && placed.back().is_replicated();
    }
    const auto o = static_cast<size_t>(rule.output);
    const Spec& out = outputs[o][static_cast<size_t>(rule.placement)];
    // Results computed on replicas are R; that they are partial too is of no use.
    if (is_replicated || claimed.contains(key_of(placed, o, out))) continue;
    missing.push_back({{}, rule.output, out.placement(0)});
    for (const Spec& spec : placed) missing.back().inputs.push_back(spec.placement(0));
  }
  return missing;
}

}  // namespace shardproof
