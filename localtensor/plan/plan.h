// Plan: the steps that take a tensor from one Spec to another. A value: prints, parses, replays.
//
// Each step changes placements from `from` to `to`; what it does follows from the two specs. A step
// over axes A is legal when, at every coordinate of the other axes, the ranks of A together own the
// same indices before and after (or it ends partials). Laws: replay(plan(a, b), split(x, a)) ==
// split(x, b) when b has no P, else the assembled values are equal; plan(a, a) is empty;
// price(plan) <= price(gather everything, then slice).
#pragma once

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/placement/spec.h"

namespace shardproof {

enum class StepKind {
  local,  // relabel, slice, or make partials: no communication
  all_gather,
  all_to_all,
  reduce_scatter,
  all_reduce,
  transfer,  // to another mesh: grouped send/recv
};
std::string_view name(StepKind kind);

struct PlanStep {
  StepKind kind = StepKind::local;
  std::vector<int> axes;  // of from.mesh(), ascending; empty for transfer and for relabels
  Spec from, to;
  bool operator==(const PlanStep&) const = default;
};

struct Plan {
  Spec from, to;
  std::vector<PlanStep> steps;
  bool operator==(const Plan&) const = default;
};

// Of one step, per rank (the fullest): what prices and reports need.
struct StepCost {
  // Sent by a rank. Padding of uneven shards is not counted; that of an all_to_all in which ranks
  // do not send to each other alike (a mere permutation of what they have) is.
  Fraction bytes;
  int64_t calls = 0;       // 0 or 1 (transfer: the most any rank issues)
  int64_t peak_bytes = 0;  // input + output + staging of the fullest rank
};
StepCost cost_of(const PlanStep& step);

// What a step is worth, compared lexicographically; a topology's price puts time first.
struct Price {
  double primary = 0;
  int64_t calls = 0;
  int64_t peak = 0;
  auto operator<=>(const Price&) const = default;
};
Price operator+(const Price& a, const Price& b);  // peak: the larger
using PriceFunction = std::function<Price(const PlanStep&)>;
// Fewest bytes, then fewest calls, then least peak (scenario language, section 7).
Price price_by_bytes(const PlanStep& step);
Price price_of(const Plan& plan, const PriceFunction& price = price_by_bytes);

std::string to_string(
    const Plan& plan);  // one line a step: "1  all_to_all over tp  tp:S(0) -> tp:S(1)"
Plan parse_plan(std::string_view text, const Spec& from, const Spec& to);

// How a step runs on a door: pack locally, call, unpack locally. `call` is absent for local steps
// and transfers. Packing pads uneven shards to equal counts, since NCCL wants them equal; unpacking
// drops the padding. Where nothing needs to move, pack and unpack give views of what they get.
struct LoweredStep {
  std::optional<Collective> call;  // count as in Collective, padded
  int64_t whole_bytes = 0;  // S for bytes_sent: unpadded bytes of the largest sibling's tensor
};
LoweredStep lower(const PlanStep& step);
LocalTensor pack(const PlanStep& step, const LocalTensor& input);
LocalTensor unpack(const PlanStep& step, const LocalTensor& received);  // a local step: does it all

// A transfer: who sends what to whom. Every element reaches every rank that owns it once: from
// itself when it has it, else from one of the replicas, which take turns.
struct TransferPiece {
  int32_t from_rank = 0, to_rank = 0;  // equal: a local copy
  std::vector<Runs> runs;              // global indices, per dim
  int64_t elements = 0;
};
std::vector<TransferPiece> transfer_pieces(const PlanStep& step);
Tensor pack_piece(const PlanStep& step, const TransferPiece& piece,
                  const LocalTensor& input);  // flat
// Undefined contents on all ranks of the target mesh, then filled piece by piece.
LocalTensor empty_locals(const Spec& spec);
void unpack_piece(const PlanStep& step, const TransferPiece& piece, const Tensor& flat,
                  LocalTensor& output);

// Runs a plan with reference collectives. The executor calls pack / the door / unpack itself.
LocalTensor replay(const Plan& plan, const LocalTensor& input);

}  // namespace shardproof
