// Implements candidates.h. A round judges draws of one computation together; the first round has
// one draw, which refutes most candidates. Steps of a round:
//
// 1. For each input, the local contents that some candidate still needs lie in pools, one for each
//    local shape, draw after draw (InputPool). Ranks of equal contents share them.
// 2. Each choice of placements of the inputs that has candidates left gives each rank a lane in the
//    bucket of its local shapes; ranks of equal contents share a lane. A bucket is one kernel call.
// 3. For each draw and choice, the placements of a result whose local shapes are those of the lanes
//    are judged. Shapes are compared by one number (signature).
#include "shardproof/engine/check_ops/candidates.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "shardproof/engine/check_ops/check_rules.h"
#include "shardproof/engine/check_ops/enumerate.h"
#include "shardproof/engine/check_ops/shard_run.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr size_t kMostChoices = 1 << 20;
constexpr size_t kMostChoicesOfRound = 1 << 14;  // choices with candidates, times draws
constexpr uint32_t kOrderReductions =
    reduction_bit(ReduceOp::min) | reduction_bit(ReduceOp::max) | reduction_bit(ReduceOp::prod);

// True if a draw applies to placements with these reductions. `allowed`: those of the dtype.
bool kind_applies(DrawKind kind, uint32_t reductions, uint32_t allowed, bool is_input) {
  if ((reductions & ~allowed) != 0) return false;
  if (kind == DrawKind::words) return (reductions & kOrderReductions) == 0;
  return kind != DrawKind::special || !is_input || reductions == 0;
}

// Local contents of one input in a round.
struct InputPool {
  std::vector<std::byte> contents;  // shape after shape, draw after draw, place after place
  std::vector<int64_t> first;       // by shape: where its contents begin
};

// A draw in a round.
struct RoundDraw {
  const RuleDraw* draw = nullptr;
  double largest_part = 0;  // of all inputs
};

// One result of a bucket.
struct BucketResult {
  int64_t bytes = 0;   // of a lane
  int32_t shape = -1;  // in the table of the output; -1: in none
};

// Lanes of equal local input shapes.
struct Bucket {
  size_t shapes = 0;           // the number of their combination
  std::vector<int32_t> slots;  // by lane and input
  int32_t lanes = 0;
  bool runs = false;
  std::vector<BucketResult> results;             // by output
  std::vector<std::vector<std::byte>> contents;  // by output
  std::vector<bool> lane_runs;                   // empty: all
};

class CandidateSearch {
 public:
  CandidateSearch(const std::vector<RuleDraw>& draws, std::vector<const PlacementTable*> inputs,
                  std::vector<const PlacementTable*> outputs)
      : draws_(draws),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        ranks_(inputs_.front()->ranks) {
    gathered_.resize(inputs_.size());
    pools_.resize(inputs_.size());
    used_.resize(inputs_.size());
    allowed_in_.resize(inputs_.size());
    allowed_out_.resize(outputs_.size());
    for (const PlacementTable* input : inputs_) {
      choices_ *= input->size();
      combinations_of_shapes_ *= input->shapes.size();
      if (choices_ > kMostChoices)
        throw_bad_input("more than {} choices of placements", kMostChoices);
    }
    for (const PlacementTable* output : outputs_) {
      offsets_.push_back(per_choice_);
      per_choice_ += output->size();
      signatures_.push_back(signatures_of(*output));
    }
    left_.assign(choices_ * per_choice_, 1);
    agreed_.assign(choices_ * per_choice_, 0);
    open_.resize(choices_);
    std::iota(open_.begin(), open_.end(), 0);
  }

  CandidateResult run() {
    for (size_t first = 0; first < draws_.size();) {
      std::erase_if(open_, [&](int32_t c) { return !has_left(static_cast<size_t>(c)); });
      first = run_round(first);
    }
    CandidateResult result;
    result.combinations = static_cast<int64_t>(left_.size());
    for (const int32_t c : open_)
      for (size_t o = 0; o < outputs_.size(); ++o)
        for (size_t p = 0; p < outputs_[o]->size(); ++p) {
          const size_t at = static_cast<size_t>(c) * per_choice_ + offsets_[o] + p;
          if (left_[at] && agreed_[at])
            result.right.push_back({picks_of(static_cast<size_t>(c)), static_cast<int32_t>(o),
                                    static_cast<int32_t>(p)});
        }
    return result;
  }

 private:
  struct LanePlace {
    int32_t bucket = -1, lane = 0;
  };

  // Returns by placement the number of its local shapes.
  static std::vector<uint64_t> signatures_of(const PlacementTable& table) {
    std::vector<uint64_t> signatures;
    signatures.reserve(table.size());
    for (size_t p = 0; p < table.size(); ++p) {
      uint64_t number = 0;
      for (int rank = 0; rank < table.ranks; ++rank)
        number = with_shape(number, table.shape_of[table.at(p, rank)]);
      signatures.push_back(number);
    }
    return signatures;
  }
  static uint64_t with_shape(uint64_t signature, int32_t shape) {
    return signature * 251 + static_cast<uint64_t>(shape) + 1;
  }

  // Returns the placements of a choice, by input.
  std::vector<int32_t> picks_of(size_t choice) const {
    std::vector<int32_t> picks;
    for (const PlacementTable* input : inputs_) {
      picks.push_back(static_cast<int32_t>(choice % input->size()));
      choice /= input->size();
    }
    return picks;
  }

  bool has_left(size_t choice) const {
    return std::memchr(&left_[choice * per_choice_], 1, per_choice_) != nullptr;
  }

  // Runs a round that begins with a draw, and returns the first draw of the next one.
  size_t run_round(size_t first) {
    size_t end = first + 1;
    while (first > 0 && end < draws_.size() &&
           draws_[end].computation == draws_[first].computation &&
           (end + 1 - first) * open_.size() <= kMostChoicesOfRound)
      ++end;
    round_.clear();
    for (size_t d = first; d < end; ++d) round_.push_back({&draws_[d]});
    for (size_t i = 0; i < inputs_.size(); ++i)
      allowed_in_[i] = allowed_reductions(draws_[first].instance.inputs[i].dtype);
    for (size_t o = 0; o < outputs_.size(); ++o)
      allowed_out_[o] = allowed_reductions(draws_[first].outputs[o].dtype);
    for (size_t i = 0; i < inputs_.size(); ++i) used_[i].assign(inputs_[i]->size(), 0);
    for (const int32_t c : open_) {
      auto choice = static_cast<size_t>(c);
      for (size_t i = 0; i < inputs_.size(); ++i) {
        used_[i][choice % inputs_[i]->size()] = 1;
        choice /= inputs_[i]->size();
      }
    }
    for (size_t i = 0; i < inputs_.size(); ++i) fill_pool(i);
    assign_lanes();
    for (Bucket& bucket : buckets_) run_bucket(draws_[first], bucket);
    for (size_t d = 0; d < round_.size(); ++d) judge_draw(d);
    return end;
  }

  bool applies_to_input(const RoundDraw& of, size_t input, size_t placement) const {
    return kind_applies(of.draw->kind, inputs_[input]->reductions[placement], allowed_in_[input],
                        true);
  }

  // Lays out the contents of an input under the placements that are used.
  void fill_pool(size_t input) {
    InputPool& pool = pools_[input];
    const PlacementTable& table = *inputs_[input];
    const TensorMeta& meta = round_[0].draw->instance.inputs[input];
    lane_bytes_.clear();
    pool.first.clear();
    int64_t end = 0;
    for (size_t shape = 0; shape < table.shapes.size(); ++shape) {
      lane_bytes_.push_back(meta.absent ? 0
                                        : element_count(table.shapes[shape]) * size_of(meta.dtype));
      pool.first.push_back(end);
      end += lane_bytes_.back() * table.places[shape] * static_cast<int64_t>(round_.size());
    }
    pool.contents.resize(static_cast<size_t>(end + 1));
    if (meta.absent) return;
    for (size_t d = 0; d < round_.size(); ++d)
      for (size_t p = 0; p < table.size(); ++p) {
        if (!used_[input][p] || !applies_to_input(round_[d], input, p)) continue;
        const Slices& slices = table.placements[p];
        PlacedInput& placed = slices.is_partial ? partial_ : whole_;
        placed = place_input(*round_[d].draw, input, slices, std::move(placed));
        round_[d].largest_part = std::max(round_[d].largest_part, placed.largest_part);
        for (int rank = 0; rank < ranks_; ++rank) {
          const auto shape = static_cast<size_t>(table.shape_of[table.at(p, rank)]);
          copy_local(placed, slices, rank,
                     pool.contents.data() + pool.first[shape] +
                         lane_bytes_[shape] * slot_of(input, p, rank, d));
        }
      }
  }

  // Returns the place of a rank's contents in the pool of its shape.
  int64_t slot_of(size_t input, size_t placement, int rank, size_t draw) const {
    const PlacementTable& table = *inputs_[input];
    const size_t at = table.at(placement, rank);
    return table.place_of[at] +
           static_cast<int64_t>(draw) * table.places[static_cast<size_t>(table.shape_of[at])];
  }

  void assign_lanes() {
    bucket_of_.assign(combinations_of_shapes_, -1);
    buckets_.clear();
    lanes_.assign(round_.size() * open_.size() * static_cast<size_t>(ranks_), {});
    picks_.resize(inputs_.size());
    size_t at = 0;
    for (size_t d = 0; d < round_.size(); ++d)
      for (const int32_t c : open_) {
        auto choice = static_cast<size_t>(c);
        bool applies = true;
        for (size_t i = 0; i < inputs_.size(); ++i) {
          picks_[i] = choice % inputs_[i]->size();
          choice /= inputs_[i]->size();
          applies = applies && applies_to_input(round_[d], i, picks_[i]);
        }
        for (int rank = 0; rank < ranks_ && applies; ++rank)
          lanes_[at + static_cast<size_t>(rank)] = lane_of(picks_, rank, d, &lanes_[at]);
        at += static_cast<size_t>(ranks_);
      }
  }

  // Returns a new lane, or that of an earlier rank that has the same contents.
  LanePlace lane_of(const std::vector<size_t>& picks, int rank, size_t draw,
                    const LanePlace* of_ranks) {
    for (int other = 0; other < rank; ++other)
      if (have_same_inputs(picks, other, rank)) return of_ranks[other];
    size_t shapes = 0;
    for (size_t i = 0; i < picks.size(); ++i)
      shapes = shapes * inputs_[i]->shapes.size() +
               static_cast<size_t>(inputs_[i]->shape_of[inputs_[i]->at(picks[i], rank)]);
    int32_t& number = bucket_of_[shapes];
    if (number < 0) {
      number = static_cast<int32_t>(buckets_.size());
      buckets_.emplace_back().shapes = shapes;
    }
    Bucket& bucket = buckets_[static_cast<size_t>(number)];
    for (size_t i = 0; i < picks.size(); ++i)
      bucket.slots.push_back(static_cast<int32_t>(slot_of(i, picks[i], rank, draw)));
    return {number, bucket.lanes++};
  }

  bool have_same_inputs(const std::vector<size_t>& picks, int a, int b) const {
    for (size_t i = 0; i < picks.size(); ++i) {
      const PlacementTable& table = *inputs_[i];
      const size_t x = table.at(picks[i], a), y = table.at(picks[i], b);
      if (table.shape_of[x] != table.shape_of[y] || table.place_of[x] != table.place_of[y])
        return false;
    }
    return true;
  }

  void run_bucket(const RuleDraw& draw, Bucket& bucket) {
    metas_ = draw.instance.inputs;
    shapes_.resize(metas_.size());
    size_t shapes = bucket.shapes;
    for (size_t i = metas_.size(); i-- > 0; shapes /= inputs_[i]->shapes.size()) {
      shapes_[i] = shapes % inputs_[i]->shapes.size();
      if (!metas_[i].absent) metas_[i].shape = inputs_[i]->shapes[shapes_[i]];
    }
    const LocalProgram* const program = draw.computation->program(metas_);
    if (!program) return;  // no candidate of these choices is right
    bucket.results.resize(outputs_.size());
    for (size_t o = 0; o < program->outputs().size(); ++o) {
      const TensorMeta& meta = program->outputs()[o];
      const std::vector<Dims>& known = outputs_[o]->shapes;
      const auto found = std::find(known.begin(), known.end(), meta.shape);
      bucket.results[o].bytes = element_count(meta.shape) * size_of(meta.dtype);
      if (found != known.end())
        bucket.results[o].shape = static_cast<int32_t>(found - known.begin());
      if (meta.dtype != draw.outputs[o].dtype) return;
    }
    views_.clear();
    for (size_t i = 0; i < metas_.size(); ++i)
      views_.push_back(metas_[i].absent ? LaneView{} : gathered(i, metas_[i], bucket));
    run_lanes(*program, bucket);
  }

  // Returns an input of all lanes of a bucket, lane after lane. Kernels run such lanes as one flat
  // loop.
  LaneView gathered(size_t input, const TensorMeta& meta, const Bucket& bucket) {
    const InputPool& of = pools_[input];
    const std::byte* const pool = of.contents.data() + of.first[shapes_[input]];
    const auto bytes = static_cast<size_t>(element_count(meta.shape) * size_of(meta.dtype));
    std::vector<std::byte>& lanes = gathered_[input];
    lanes.resize(std::max(lanes.size(), bytes * static_cast<size_t>(bucket.lanes) + 1));
    std::byte* to = lanes.data();
    for (size_t at = input; at < bucket.slots.size(); at += inputs_.size()) {
      std::memcpy(to, pool + static_cast<size_t>(bucket.slots[at]) * bytes, bytes);
      to += bytes;
    }
    return {lanes.data(), static_cast<int64_t>(bytes),   nullptr, meta.dtype,
            meta.shape,   contiguous_strides(meta.shape)};
  }

  // If a kernel fails on its data, each lane runs alone, so that the others still have results.
  void run_lanes(const LocalProgram& program, Bucket& bucket) {
    bucket.runs = true;
    try {
      bucket.contents = program.run(bucket.lanes, views_, memory_);
      return;
    } catch (const Error&) {
      bucket.lane_runs.assign(static_cast<size_t>(bucket.lanes), false);
      for (const BucketResult& result : bucket.results)
        bucket.contents.emplace_back(static_cast<size_t>(result.bytes * bucket.lanes + 1));
    }
    for (int32_t lane = 0; lane < bucket.lanes; ++lane) {
      std::vector<LaneView> alone = views_;
      for (LaneView& view : alone)
        if (view.base) view.base += lane * view.lane_stride;
      try {
        const std::vector<std::vector<std::byte>> one = program.run(1, alone, memory_);
        for (size_t o = 0; o < one.size(); ++o)
          std::copy_n(one[o].begin(), bucket.results[o].bytes,
                      bucket.contents[o].begin() + lane * bucket.results[o].bytes);
        bucket.lane_runs[static_cast<size_t>(lane)] = true;
      } catch (const Error&) {
        // Stays false.
      }
    }
  }

  void judge_draw(size_t d) {
    const RoundDraw& of = round_[d];
    limits_.clear();
    for (size_t o = 0; o < outputs_.size(); ++o)
      limits_.push_back(limits_of(*of.draw, o, of.largest_part));
    const size_t ranks = static_cast<size_t>(ranks_), first = d * open_.size() * ranks;
    for (size_t k = 0; k < open_.size(); ++k)
      if (lanes_[first + k * ranks].bucket >= 0)
        judge_choice(of, static_cast<size_t>(open_[k]), &lanes_[first + k * ranks]);
  }

  void judge_choice(const RoundDraw& of, size_t c, const LanePlace* lanes) {
    for (size_t o = 0; o < outputs_.size(); ++o) {
      bool runs = true;
      uint64_t number = 0;
      results_.dtype = of.draw->outputs[o].dtype;
      results_.data.resize(static_cast<size_t>(ranks_));
      for (int rank = 0; rank < ranks_ && runs; ++rank) {
        const Bucket& bucket = buckets_[static_cast<size_t>(lanes[rank].bucket)];
        runs =
            bucket.runs && bucket.results[o].shape >= 0 &&
            (bucket.lane_runs.empty() || bucket.lane_runs[static_cast<size_t>(lanes[rank].lane)]);
        if (!runs) break;
        results_.data[static_cast<size_t>(rank)] =
            bucket.contents[o].data() + lanes[rank].lane * bucket.results[o].bytes;
        number = with_shape(number, bucket.results[o].shape);
      }
      judge_placements(of, c, o, runs ? number : 0);
    }
  }

  // `number` is the signature of the local results; 0: a rank has none, and nothing is right.
  void judge_placements(const RoundDraw& of, size_t c, size_t o, uint64_t number) {
    const PlacementTable& table = *outputs_[o];
    uint8_t* const left = &left_[c * per_choice_ + offsets_[o]];
    uint8_t* const agreed = &agreed_[c * per_choice_ + offsets_[o]];
    for (size_t p = 0; p < table.size(); ++p) {
      if (!left[p] || !kind_applies(of.draw->kind, table.reductions[p], allowed_out_[o], false))
        continue;
      if (signatures_[o][p] != number) {
        left[p] = 0;
        continue;
      }
      const Agreement answer =
          judge(table.placements[p], results_, of.draw->outputs[o], limits_[o]);
      if (answer == Agreement::differs) left[p] = 0;
      if (answer == Agreement::agrees) agreed[p] = 1;
    }
  }

  const std::vector<RuleDraw>& draws_;
  const std::vector<const PlacementTable*> inputs_, outputs_;
  const int ranks_;
  size_t choices_ = 1, combinations_of_shapes_ = 1, per_choice_ = 0;
  std::vector<size_t> offsets_;  // by output: its first placement among `per_choice_`
  std::vector<std::vector<uint64_t>> signatures_;  // by output and placement
  std::vector<uint8_t> left_, agreed_;             // by choice, output and placement
  std::vector<int32_t> open_;                      // choices with candidates that are left
  // Set for each round:
  std::vector<RoundDraw> round_;
  std::vector<uint32_t> allowed_in_, allowed_out_;  // by tensor: reductions that its dtype allows
  std::vector<std::vector<uint8_t>> used_;  // by input and placement: a choice of `open_` has it
  std::vector<InputPool> pools_;            // by input
  std::vector<int32_t> bucket_of_;          // by combination of local shapes; -1: none
  std::vector<Bucket> buckets_;
  std::vector<LanePlace> lanes_;                  // by draw, open choice and rank
  std::vector<std::vector<std::byte>> gathered_;  // by input: lanes of a bucket
  // Memory that rounds and buckets reuse:
  PlacedInput partial_, whole_;
  std::vector<int64_t> lane_bytes_;  // by shape of an input
  std::vector<size_t> picks_;        // by input: its placement in a choice
  std::vector<size_t> shapes_;       // by input: its local shape in a bucket
  std::vector<TensorMeta> metas_;    // by input of a bucket
  std::vector<LaneView> views_;      // by input of a bucket
  RunMemory memory_;
  std::vector<Limits> limits_;  // by output
  RankResults results_;         // of a choice
};

std::string key_of(const std::vector<Spec>& inputs, size_t output, const Spec& placed) {
  std::string key;
  for (const Spec& spec : inputs) key += placements_text(spec) + "|";
  return key + fmt::format("{}:{}", output, placements_text(placed));
}

}  // namespace

CandidateResult search_candidates(const std::vector<RuleDraw>& draws,
                                  const std::vector<std::vector<Spec>>& inputs,
                                  const std::vector<std::vector<Spec>>& outputs,
                                  PlacementTables& tables) {
  std::vector<const PlacementTable*> of_inputs, of_outputs;
  for (const std::vector<Spec>& specs : inputs) of_inputs.push_back(&tables.table(specs));
  for (const std::vector<Spec>& specs : outputs) of_outputs.push_back(&tables.table(specs));
  return CandidateSearch(draws, std::move(of_inputs), std::move(of_outputs)).run();
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
  PlacementTables tables;
  const CandidateResult found = search_candidates(draws, inputs, outputs, tables);
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
