// Implements the costs and the text form of plan.h, and packs the messages of a transfer.
#include "shardproof/localtensor/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/placement/owned_box.h"
#include "shardproof/localtensor/plan/dim_layout.h"
#include "shardproof/localtensor/plan/exchange_schedule.h"
#include "shardproof/localtensor/plan/exchange_volume.h"
#include "shardproof/localtensor/plan/step_groups.h"
#include "shardproof/localtensor/plan/step_pieces.h"

namespace shardproof {

namespace {

constexpr std::array<std::string_view, 7> kStepNames = {
    "local", "all_gather", "all_to_all", "reduce_scatter", "all_reduce", "exchange", "transfer"};

constexpr int64_t kMaxExchangeCounts = int64_t{1} << 20;

StepCost cost_of_transfer(const PlanStep& step) {
  std::map<int32_t, int64_t> calls;
  for (int64_t number = 0; number < step.pieces; ++number)
    for (const TransferPiece& piece : transfer_pieces(step, number)) {
      if (piece.from_rank == piece.to_rank) continue;
      ++calls[piece.from_rank];
      ++calls[piece.to_rank];
    }
  StepCost cost;
  cost.bytes = priced_bytes(step);
  for (const auto& [rank, count] : calls) cost.calls = std::max(cost.calls, count);
  cost.peak_bytes = (step.from.max_local_elements() + step.to.max_local_elements()) * 2 *
                    size_of(step.from.dtype());
  return cost;
}

// Returns the elements of the part that ranks along `axes` hold together, on average.
Fraction elements_together(const Spec& spec, const std::vector<int>& axes) {
  Fraction elements = element_count(spec.shape());
  for (int axis = 0; axis < spec.mesh().axis_count(); ++axis)
    if (spec.placement(axis).is_shard() && std::find(axes.begin(), axes.end(), axis) == axes.end())
      elements = elements / spec.mesh().axis_size(axis);
  return elements;
}

Fraction elements_transferred(const PlanStep& step) {
  int64_t elements = 0;
  PlanStep whole = step;
  whole.pieces = 1;
  for (const TransferPiece& piece : transfer_pieces(whole))
    if (piece.from_rank != piece.to_rank) elements += piece.elements;
  return Fraction(elements, step.from.mesh().size());
}

bool is_balanced(const PlanStep& step) {
  const Mesh& mesh = step.from.mesh();
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : mesh.axes()) sizes.push_back(axis.size);
  for (int dim = 0; dim < step.from.shape().size(); ++dim) {
    DimLayouts layouts(dim, step.from.shape()[dim], sizes);
    const int from = layouts.of_spec(step.from);
    if (!layouts.is_balanced(from, layouts.of_spec(step.to), mask_of(step.axes))) return false;
  }
  return true;
}

// Returns the elements that count in the price; see priced_bytes.
Fraction priced_elements(const PlanStep& step) {
  if (step.kind == StepKind::transfer) return elements_transferred(step);
  const int64_t n = StepMembers(step).count();
  if (step.kind == StepKind::local || n == 1) return 0;
  switch (step.kind) {
    case StepKind::all_gather:
      return elements_together(step.from, step.axes) - elements_together(step.from, {});
    case StepKind::all_to_all: {
      if (is_balanced(step)) return missing_elements(step.from, step.to);
      PlanStep whole = step;
      whole.pieces = 1;
      return (n - 1) * largest_padded_elements(whole);
    }
    case StepKind::reduce_scatter: return elements_together(step.from, {}) * Fraction(n - 1, n);
    case StepKind::all_reduce: return elements_together(step.from, {}) * Fraction(2 * (n - 1), n);
    default: return missing_elements(step.from, step.to);
  }
}

// Returns ranks with equal elements together, as bytes.
std::vector<SentBytes> grouped(const Lanes& ranks, const std::vector<int64_t>& elements,
                               int64_t element_bytes) {
  std::map<int64_t, std::vector<int32_t>> by_elements;
  for (int64_t i = 0; i < ranks.size(); ++i)
    by_elements[elements[static_cast<size_t>(i)]].push_back(ranks[i]);
  std::vector<SentBytes> sent;
  for (auto& [count, list] : by_elements)
    sent.push_back({Lanes::of(std::move(list)), Fraction(count * element_bytes)});
  std::sort(sent.begin(), sent.end(),
            [](const SentBytes& a, const SentBytes& b) { return a.ranks[0] < b.ranks[0]; });
  return sent;
}

std::vector<int64_t> elements_exchanged(const PlanStep& step) {
  const auto schedule = exchange_schedule(step);
  const Group group = Group::of_axes(step.from.mesh(), step.axes);
  const Lanes ranks = step.from.mesh().ranks();
  std::vector<int64_t> elements(static_cast<size_t>(ranks.size()), 0);
  for (int64_t i = 0; i < ranks.size(); ++i)
    for (int64_t member = 0; member < schedule->members; ++member)
      if (member != group.index_of(ranks[i]))
        elements[static_cast<size_t>(i)] +=
            schedule->sent[static_cast<size_t>(i * schedule->members + member)];
  return elements;
}

std::vector<int64_t> elements_transferred_by(PlanStep step) {
  step.pieces = 1;
  const Lanes ranks = step.from.mesh().ranks();
  std::vector<int64_t> elements(static_cast<size_t>(ranks.size()), 0);
  for (const TransferPiece& piece : transfer_pieces(step))
    if (piece.from_rank != piece.to_rank)
      elements[static_cast<size_t>(ranks.index_of(piece.from_rank))] += piece.elements;
  return elements;
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Removes the first word of `text` and returns it.
std::string_view take_word(std::string_view& text) {
  text = trim(text);
  const size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

StepKind parse_step_kind(std::string_view word, int line) {
  for (size_t i = 0; i < kStepNames.size(); ++i)
    if (kStepNames[i] == word) return static_cast<StepKind>(i);
  NearestName nearest(word);
  for (std::string_view known : kStepNames) nearest.offer(known);
  throw Error(ErrorKind::bad_input, fmt::format("unknown plan step '{}'{}", word, nearest.hint()),
              Where{"", "", line, 0});
}

std::vector<int> parse_axes(std::string_view word, const Mesh& mesh) {
  std::vector<int> axes;
  while (!word.empty()) {
    const size_t end = std::min(word.find('+'), word.size());
    axes.push_back(mesh.axis(word.substr(0, end)));
    word.remove_prefix(std::min(end + 1, word.size()));
  }
  return axes;
}

int64_t parse_pieces(std::string_view word, int line) {
  int64_t pieces = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), pieces);
  if (error != std::errc() || end != word.data() + word.size() || pieces < 1 || pieces > kMaxPieces)
    throw Error(ErrorKind::bad_input,
                fmt::format("expected 1 to {} pieces, found '{}'", kMaxPieces, word),
                Where{"", "", line, 0});
  return pieces;
}

PlanStep parse_step(std::string_view text, int line, const Spec& from, const Spec& to) {
  std::string_view rest = text;
  std::string_view word = take_word(rest);
  if (!word.empty() && word.find_first_not_of("0123456789") == std::string_view::npos)
    word = take_word(rest);
  PlanStep step;
  step.kind = parse_step_kind(word, line);
  step.from = from;
  if (trim(rest).starts_with("over ")) {
    take_word(rest);
    step.axes = parse_axes(take_word(rest), from.mesh());
  }
  if (trim(rest).starts_with("in ")) {
    take_word(rest);
    step.pieces = parse_pieces(take_word(rest), line);
    take_word(rest);
  }
  const size_t arrow = rest.find("->");
  if (arrow == std::string_view::npos)
    throw Error(ErrorKind::bad_input, "expected a plan step with 'from -> to', found no '->'",
                Where{"", "", line, 0});
  const Spec written =
      Spec::parse(trim(rest.substr(0, arrow)), from.mesh(), from.shape(), from.dtype());
  if (written != from)
    throw Error(ErrorKind::bad_input,
                fmt::format("expected a step from {}, the placements of the tensor here, found {}",
                            placements_text(from), placements_text(written)),
                Where{"", "", line, 0});
  const Mesh& mesh = step.kind == StepKind::transfer ? to.mesh() : from.mesh();
  step.to = Spec::parse(trim(rest.substr(arrow + 2)), mesh, from.shape(), from.dtype());
  return step;
}

void copy_between(const Tensor& source, int64_t slot, const std::vector<Runs>& from,
                  std::byte* target, const Dims& target_strides, const std::vector<Runs>& to) {
  std::vector<Segments> segments;
  for (size_t d = 0; d < from.size(); ++d) segments.push_back(common_segments(from[d], to[d]));
  copy_segments(CopyPlace(), source.data(slot), source.strides, target, target_strides, segments,
                size_of(source.dtype));
}

}  // namespace

std::string_view name(StepKind kind) { return kStepNames[static_cast<size_t>(kind)]; }

Fraction priced_bytes(const PlanStep& step) {
  return priced_elements(step) * size_of(step.from.dtype());
}

// An exchange and a transfer send each message as it is, so pieces do not change their sum.
std::vector<SentBytes> bytes_sent(const PlanStep& step) {
  const Lanes ranks = step.from.mesh().ranks();
  const int64_t element_bytes = size_of(step.from.dtype());
  if (step.kind == StepKind::transfer)
    return grouped(ranks, elements_transferred_by(step), element_bytes);
  if (step.kind == StepKind::exchange)
    return grouped(ranks, elements_exchanged(step), element_bytes);
  if (step.kind == StepKind::local) return {{ranks, Fraction(0)}};
  std::vector<SentBytes> sent;
  for (const StepCall& part : lower(step))
    sent.push_back({part.lanes, bytes_sent(part.call) * Fraction(step.pieces)});
  return sent;
}

Fraction average_of(const std::vector<SentBytes>& sent) {
  Fraction sum;
  int64_t ranks = 0;
  for (const SentBytes& part : sent) {
    sum = sum + part.bytes * Fraction(part.ranks.size());
    ranks += part.ranks.size();
  }
  return ranks == 0 ? sum : sum / Fraction(ranks);
}

StepCost cost_of(const PlanStep& step) {
  if (step.kind == StepKind::transfer) return cost_of_transfer(step);
  const int64_t bytes = size_of(step.from.dtype());
  const int64_t before = step.from.max_local_elements() * bytes;
  const int64_t after = step.to.max_local_elements() * bytes;
  StepCost cost;
  cost.peak_bytes = before + after;
  if (step.kind == StepKind::local) return cost;
  cost.bytes = priced_bytes(step);
  cost.calls = StepMembers(step).count() > 1 ? step.pieces : 0;
  if (step.kind == StepKind::all_gather) cost.peak_bytes += after;
  if (step.kind == StepKind::reduce_scatter) cost.peak_bytes += before;
  if (step.kind == StepKind::all_to_all || step.kind == StepKind::exchange)
    cost.peak_bytes += before + after;
  return cost;
}

Price operator+(const Price& a, const Price& b) {
  return {a.primary + b.primary, a.calls + b.calls, std::max(a.peak, b.peak)};
}

Price price_without_topology(const PlanStep& step) {
  const StepCost cost = cost_of(step);
  return {cost.bytes.to_double() + static_cast<double>(cost.calls * kBytesOfCall), 0,
          cost.peak_bytes};
}

Price price_by_bytes(const PlanStep& step) {
  const StepCost cost = cost_of(step);
  return {cost.bytes.to_double(), cost.calls, cost.peak_bytes};
}

Price price_of(const Plan& plan, const PriceFunction& price) {
  Price total;
  for (const PlanStep& step : plan.steps) total = total + price(step);
  return total;
}

bool can_exchange(const Mesh& mesh, const std::vector<int>& axes) {
  int64_t counts = mesh.size();
  for (const int axis : axes) counts *= mesh.axis_size(axis);
  return counts <= kMaxExchangeCounts;
}

std::string to_string(const Plan& plan) {
  std::string out;
  int number = 0;
  for (const PlanStep& step : plan.steps) {
    std::string axes;
    for (int axis : step.axes)
      axes +=
          (axes.empty() ? " over " : "+") + step.from.mesh().axes()[static_cast<size_t>(axis)].name;
    const std::string pieces = step.pieces == 1 ? "" : fmt::format(" in {} pieces", step.pieces);
    out += fmt::format("{}  {}{}{}  {} -> {}\n", ++number, name(step.kind), axes, pieces,
                       placements_text(step.from), placements_text(step.to));
  }
  return out;
}

Plan parse_plan(std::string_view text, const Spec& from, const Spec& to) {
  Plan plan{from, to, {}};
  Spec at = from;
  int line = 0;
  while (!text.empty()) {
    ++line;
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.empty()) continue;
    plan.steps.push_back(parse_step(row, line, at, to));
    at = plan.steps.back().to;
  }
  if (at != to)
    throw_bad_input("expected a plan that ends at {}, found one that ends at {}",
                    placements_text(to), placements_text(at));
  return plan;
}

Tensor pack_piece(const PlanStep& step, const TransferPiece& piece, const LocalTensor& input) {
  const Block* block = input.find(piece.from_rank);
  SP_CHECK(block != nullptr, "rank {} has no input tensor", piece.from_rank);
  const std::vector<Runs> mine =
      owned_box(step.from, *step.from.mesh().coordinate_of(piece.from_rank));
  Tensor flat = Tensor::empty(step.from.dtype(), {piece.elements}, Lanes::one(piece.from_rank),
                              Slots::shared(1));
  copy_between(block->tensor, block->slot(block->lanes.index_of(piece.from_rank)), mine,
               flat.mutate(), contiguous_strides(shape_of_box(piece.runs)), piece.runs);
  return flat;
}

LocalTensor empty_locals(const Spec& spec, const Lanes& lanes) {
  std::map<Dims, std::vector<int32_t>> ranks_of_shape;
  for (int64_t i = 0; i < lanes.size(); ++i)
    ranks_of_shape[spec.local_shape(lanes[i])].push_back(lanes[i]);
  std::vector<Block> blocks;
  for (auto& [shape, ranks] : ranks_of_shape) {
    const auto count = static_cast<int64_t>(ranks.size());
    const Lanes of_shape = Lanes::of(std::move(ranks));
    blocks.push_back({of_shape, Tensor::empty(spec.dtype(), shape, of_shape, Slots::each(count))});
  }
  return LocalTensor(std::move(blocks));
}

void unpack_piece(const PlanStep& step, const TransferPiece& piece, const Tensor& flat,
                  LocalTensor& output) {
  for (Block& block : output.blocks()) {
    const int64_t lane = block.lanes.index_of(piece.to_rank);
    if (lane < 0) continue;
    Tensor shaped = flat;
    shaped.shape = shape_of_box(piece.runs);
    shaped.strides = contiguous_strides(shaped.shape);
    copy_between(shaped, 0, piece.runs, block.tensor.mutate(block.slot(lane)), block.tensor.strides,
                 owned_box(step.to, *step.to.mesh().coordinate_of(piece.to_rank)));
    return;
  }
  SP_UNREACHABLE("rank {} has no output tensor", piece.to_rank);
}

}  // namespace shardproof
