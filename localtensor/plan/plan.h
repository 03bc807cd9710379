// Plan: the steps of a redistribution from one Spec to another. A value that prints, parses, and
// can be replayed.
//
// Each step changes placements from `from` to `to`; its work follows from the two specs. A step
// over axes A that ends partials is legal. An exchange is legal if the ranks of A together own
// before what each of them owns after. Any other step is legal if, at every coordinate of the other
// axes, the ranks of A together own the same indices before and after.
//
// Laws: replay(plan(a, b), split(x, a)) == split(x, b) if b has no P; else the assembled values are
// equal. plan(a, a) is empty. price(plan) <= price(gather everything, then slice).
//
// Example on "dp=2, tp=4", from "dp:S(0) tp:P(sum)" to "dp:S(0) tp:S(1)":
//   1  reduce_scatter over tp  dp:S(0) tp:P(sum) -> dp:S(0) tp:S(1)
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
  local,  // relabels, slices, or makes partials; no communication
  all_gather,
  all_to_all,
  reduce_scatter,
  all_reduce,
  exchange,  // each rank sends each other rank the box that it holds before and the other after
  transfer,  // to another mesh, by grouped send and recv
};
std::string_view name(StepKind kind);  // "all_gather"

struct PlanStep {
  StepKind kind = StepKind::local;
  std::vector<int> axes;  // axes of from.mesh(), ascending; empty for transfers and relabels
  Spec from, to;
  // Calls of the step, each of a part of every message (step_pieces.h), so that less is packed at a
  // time. 1 for local steps.
  int64_t pieces = 1;
  bool operator==(const PlanStep&) const = default;
};
// The largest number of pieces of one step.
inline constexpr int64_t kMaxPieces = 1024;
// Returns the number of pieces beyond which no message gets smaller; 1 if the step cannot be cut.
int64_t most_pieces(const PlanStep& step);
// Returns the bytes that a rank holds at most: source, target, and the packed copies of the fullest
// piece with their padding. If a call reads the source or writes the target in place, no copy is
// counted.
int64_t peak_bytes(const PlanStep& step);

struct Plan {
  Spec from, to;
  std::vector<PlanStep> steps;
  bool operator==(const Plan&) const = default;
};

// Returns the bytes that count in the price of a step. They are the bytes that a rank of its source
// mesh sends without padding, averaged over these ranks. Exception: an all_to_all whose messages
// would differ on even shards too, such as a permutation of shards. There each message counts as
// the largest one, to which all are padded.
Fraction priced_bytes(const PlanStep& step);

// Bytes that each of these ranks sends.
struct SentBytes {
  Lanes ranks;
  Fraction bytes;
  bool operator==(const SentBytes&) const = default;
};
// Returns the bytes that the ranks of the step's source mesh send, with the padding of each group;
// by first rank. A local step sends 0.
std::vector<SentBytes> bytes_sent(const PlanStep& step);
// Returns the average over all these ranks.
Fraction average_of(const std::vector<SentBytes>& sent);

struct StepCost {
  Fraction bytes;          // priced_bytes
  int64_t calls = 0;       // pieces, or 0; transfer: the most calls that any rank issues
  int64_t peak_bytes = 0;  // estimate for the largest part: all calls pack, and nothing is padded
};
// Returns the cost; a local step costs memory only.
StepCost cost_of(const PlanStep& step);

// The price of steps, compared lexicographically. `primary` is bytes, or time if there is a
// topology. `calls` is 0 where `primary` includes the calls.
struct Price {
  double primary = 0;
  int64_t calls = 0;
  int64_t peak = 0;
  auto operator<=>(const Price&) const = default;
};
Price operator+(const Price& a, const Price& b);  // adds primary and calls; takes the larger peak
using PriceFunction = std::function<Price(const PlanStep&)>;
// A call costs as much as this many bytes, so that small tensors take few calls.
inline constexpr int64_t kBytesOfCall = 64 << 10;
// Returns the price of a step if no topology is given: bytes + kBytesOfCall for a call, then the
// peak (docs/language.md, section 7). Bytes are an average over the mesh, so all calls that send
// the missing elements and nothing else have one price.
Price price_without_topology(const PlanStep& step);
// Returns bytes, then calls, then the peak: the price by which the partitioner compares placements
// if no topology is given.
Price price_by_bytes(const PlanStep& step);
// Returns the sum over the steps; zero for an empty plan.
Price price_of(const Plan& plan, const PriceFunction& price = price_without_topology);

// Returns the most bytes that a rank holds at a time during the plan. The source counts in every
// step, because it keeps its name. 0 for an empty plan.
int64_t peak_of(const Plan& plan);

// Returns one line for each step: "1  all_to_all over tp  tp:S(0) -> tp:S(1)". A step in pieces has
// "in 4 pieces" after its axes.
std::string to_string(const Plan& plan);
// Returns the inverse of to_string. Throws Error(bad_input) with the line.
Plan parse_plan(std::string_view text, const Spec& from, const Spec& to);

// True if an exchange over these axes may be planned. The limit is 2^20 counts on the whole mesh;
// each rank has one for each member of its group.
bool can_exchange(const Mesh& mesh, const std::vector<int>& axes);
// An execution context runs a step so: pack locally, call, unpack locally. Packing pads uneven
// shards to equal counts inside each group, as NCCL requires; unpacking drops the padding.
//
// The call of a step on the groups that pad to the same count.
struct StepCall {
  Lanes lanes;
  Collective call;
};
// Returns the calls of a piece of a step on disjoint lanes, by first lane; none for local steps and
// transfers. An exchange is one call, with counts for each rank of the mesh in ascending order.
std::vector<StepCall> lower(const PlanStep& step, int64_t piece = 0);
// Returns the call with the largest count, or that of an exchange; nullopt for local steps and
// transfers. Looks at no single rank: for many pairs of ranks in an all_to_all, the count is an
// upper bound.
std::optional<Collective> largest_call(const PlanStep& step, int64_t piece = 0);
// Returns the input of the call; a view of `input` if no element has to move. Requires no transfer.
LocalTensor pack(const PlanStep& step, const LocalTensor& input, int64_t piece = 0);
// Returns the output of the step's calls by reference collectives; `packed` if it makes none.
LocalTensor reference(const PlanStep& step, const LocalTensor& packed, int64_t piece = 0);
// Returns the result of the step from the output of its call, or of its first piece: other elements
// are undefined then. A view if no element has to move. For a local step, only unpack is called.
// Requires no transfer.
LocalTensor unpack(const PlanStep& step, const LocalTensor& received);
// Writes the elements of another piece into the result.
void unpack_more(const PlanStep& step, int64_t piece, const LocalTensor& received,
                 LocalTensor& result);

// One message of a transfer. Each rank receives every element that it owns once. The source is the
// rank itself if it has the element, else one of the ranks that hold it, in turn.
struct TransferPiece {
  int32_t from_rank = 0, to_rank = 0;  // equal: a local copy
  std::vector<Runs> runs;              // global indices, per dim
  int64_t elements = 0;
};
// Returns the messages of a piece of the step, in order of receiver. Requires specs without P, or
// partials that stay on their ranks (transfer.h).
std::vector<TransferPiece> transfer_pieces(const PlanStep& step, int64_t piece = 0);
// Returns the elements of a message as a flat tensor of the sender.
Tensor pack_piece(const PlanStep& step, const TransferPiece& piece, const LocalTensor& input);
// Returns a value with undefined contents on some ranks of the spec's mesh, for unpack_piece to
// fill.
LocalTensor empty_locals(const Spec& spec, const Lanes& lanes);
// Writes the elements of a message into the receiver's part of `output`.
void unpack_piece(const PlanStep& step, const TransferPiece& piece, const Tensor& flat,
                  LocalTensor& output);

// Runs a plan with reference collectives. The executor calls pack, its execution context and
// unpack.
LocalTensor replay(const Plan& plan, const LocalTensor& input);

}  // namespace shardproof
