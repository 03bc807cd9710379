// Implements the names, text and byte counts of collective.h; `reference` is in
// collective_reference.cpp.
#include "shardproof/localtensor/collective/collective.h"

#include <fmt/format.h>

#include <array>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

namespace {

constexpr std::array<std::string_view, 16> kKindNames = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "all_to_all_v", "exchange",
    "broadcast",  "reduce",     "gather",         "scatter",    "barrier",      "send",
    "recv",       "put",        "signal",         "wait_signal"};

}  // namespace

std::string_view name(CollectiveKind kind) { return kKindNames[static_cast<size_t>(kind)]; }

std::optional<CollectiveKind> parse_collective_kind(std::string_view text) {
  for (size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == text) return static_cast<CollectiveKind>(i);
  return std::nullopt;
}

bool reduces(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::reduce_scatter ||
         kind == CollectiveKind::reduce;
}

bool has_shard_dim(CollectiveKind kind) {
  return kind == CollectiveKind::all_gather || kind == CollectiveKind::gather ||
         kind == CollectiveKind::reduce_scatter || kind == CollectiveKind::scatter;
}

bool has_equal_outputs(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::broadcast;
}

bool has_root(CollectiveKind kind) {
  return kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce ||
         kind == CollectiveKind::gather || kind == CollectiveKind::scatter;
}

bool has_counts(CollectiveKind kind) {
  return kind == CollectiveKind::all_to_all_v || kind == CollectiveKind::exchange;
}

bool is_point_to_point(CollectiveKind kind) { return kind >= CollectiveKind::send; }

std::string to_string(const Collective& c) {
  std::string out = fmt::format("{}(", name(c.kind));
  if (reduces(c.kind)) out += to_string(c.reduction) + ", ";
  if (has_root(c.kind)) out += fmt::format("root={}, ", c.root);
  if (is_point_to_point(c.kind)) {
    const bool receives = c.kind == CollectiveKind::recv || c.kind == CollectiveKind::wait_signal;
    out += fmt::format("{}={}, ", receives ? "from" : "to", c.peer);
    if (c.kind >= CollectiveKind::put) out += fmt::format("slot={}, ", c.slot);
    if (c.kind == CollectiveKind::wait_signal) out += fmt::format("count={}, ", c.repeat);
  }
  out += fmt::format("group={})", c.group.name());
  const bool carries = c.kind != CollectiveKind::barrier && c.kind != CollectiveKind::signal &&
                       c.kind != CollectiveKind::wait_signal;
  if (carries) out += fmt::format("  {} x {}", name(c.dtype), c.count);
  return out;
}

int64_t whole_bytes_of(const Collective& collective) {
  using K = CollectiveKind;
  const int64_t brought = collective.count * size_of(collective.dtype);
  switch (collective.kind) {
    case K::all_gather:
    case K::reduce_scatter:
    case K::gather:
    case K::scatter:
    case K::all_to_all: return brought * collective.group.size();
    case K::barrier:
    case K::signal:
    case K::wait_signal: return 0;
    default: return brought;
  }
}

Fraction bytes_sent(CollectiveKind kind, int64_t n, int64_t whole_bytes) {
  if (n <= 1) return 0;
  switch (kind) {
    case CollectiveKind::all_reduce: return Fraction(2 * (n - 1), n) * Fraction(whole_bytes);
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
    case CollectiveKind::scatter: return Fraction(n - 1, n) * Fraction(whole_bytes);
    case CollectiveKind::all_to_all: return Fraction(n - 1, n * n) * Fraction(whole_bytes);
    case CollectiveKind::gather: return Fraction(1, n) * Fraction(whole_bytes);
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send:
    case CollectiveKind::put:
    case CollectiveKind::exchange:
    case CollectiveKind::all_to_all_v: return whole_bytes;
    default: return 0;
  }
}

Fraction bytes_sent(const Collective& collective) {
  return bytes_sent(collective.kind, collective.group.size(), whole_bytes_of(collective));
}

}  // namespace shardproof
