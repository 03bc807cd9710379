// Implements reduction_schedule.h: the text form of schedules, and NCCL's environment and versions.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <vector>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/localtensor/base/trim_text.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"

namespace shardproof {
namespace {

constexpr std::array<std::string_view, 8> kOrders = {"rank", "f32", "exact",     "ring",
                                                     "tree", "pat", "symmetric", "nvls"};
constexpr std::array<std::string_view, 3> kProtocols = {"simple", "ll", "ll128"};

template <size_t N>
int index_in(const std::array<std::string_view, N>& names, std::string_view word,
             std::string_view what) {
  NearestName nearest(word);
  for (size_t i = 0; i < N; ++i) {
    if (names[i] == word) return static_cast<int>(i);
    nearest.offer(names[i]);
  }
  const std::string hint = nearest.hint();
  throw_bad_input("unknown {} \"{}\"{}", what, word,
                  hint.empty() ? "; write one of " + join_text(names, ", ") : hint);
}

int positive(std::string_view key, std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1)
    throw_bad_input("{}: expected a number from 1 on, found \"{}\"", key, text);
  return value;
}

// Minor versions N of NCCL 2.N. kFirstKnown: the first whose channel assignment is known.
// kWeighsLl: the first that weights LL. kNewest: the first with the channel assignment of all newer
// ones.
constexpr int kFirstKnown = 23, kWeighsLl = 26, kNewest = 29;

// Returns the first minor version that uses the order in the environment of nccl_environment.
// Since 2.24 NCCL_ALGO names an algorithm for each function; since 2.26 PAT has its present trees;
// since 2.29 there is NCCL_SYM_NOWIN_ENABLE.
int first_with(FoldOrder order) {
  switch (order) {
    case FoldOrder::ring: return kFirstKnown;
    case FoldOrder::tree:
    case FoldOrder::nvls: return 24;
    case FoldOrder::pat: return 26;
    case FoldOrder::symmetric: return 29;
    default: SP_UNREACHABLE("order {} is not one of NCCL's orders", static_cast<int>(order));
  }
}

// PAT adds in another order since 2.31 (its kernels contain three times as many additions).
constexpr int kOtherPat = 31;

int minor_of(int version) { return (version - 20000) / 100; }

// Returns 28 for "2.28"; 0 for a version that assigns channels as the newest does.
int minor_version(std::string_view text) {
  int value = 0;
  const std::string_view minor = text.starts_with("2.") ? text.substr(2) : "";
  const auto [end, error] = std::from_chars(minor.data(), minor.data() + minor.size(), value);
  if (error != std::errc() || end != minor.data() + minor.size() || value < kFirstKnown)
    throw_bad_input("nccl: expected a version from 2.{} on, such as 2.28, found \"{}\"",
                    kFirstKnown, text);
  return value < kNewest ? value : 0;
}

void read_setting(std::string_view setting, ReductionSchedule& schedule) {
  const size_t equals = setting.find('=');
  const std::string_view key = trimmed(setting.substr(0, equals));
  const std::string_view value =
      equals == std::string_view::npos ? "" : trimmed(setting.substr(equals + 1));
  constexpr std::array<std::string_view, 4> kKeys = {"protocol", "channels", "nodes", "nccl"};
  switch (index_in(kKeys, key, "setting of an order")) {
    case 0:
      schedule.protocol = static_cast<NcclProtocol>(index_in(kProtocols, value, "protocol"));
      break;
    case 1: schedule.channels = positive(key, value); break;
    case 2: schedule.nodes = positive(key, value); break;
    default: schedule.nccl = minor_version(value); break;
  }
}

bool is_nccl_order(FoldOrder order) { return order >= FoldOrder::ring; }

// Throws Error(bad_input) for a setting that the order does not have.
void refuse_settings(const ReductionSchedule& schedule) {
  const bool pat = schedule.order == FoldOrder::pat;
  const std::string_view order = kOrders[static_cast<size_t>(schedule.order)];
  const int first = first_with(schedule.order);
  if (schedule.nccl != 0 && schedule.order == FoldOrder::symmetric)
    throw_bad_input("order {}: expected channels or protocol, found nccl=2.{}", order,
                    schedule.nccl);
  if (schedule.nccl != 0 && schedule.nccl < first)
    throw_bad_input("order {}: expected nccl=2.{} or newer, found 2.{}", order, first,
                    schedule.nccl);
  if (!pat && schedule.order != FoldOrder::symmetric) return;
  if (schedule.nodes != 1)
    throw_bad_input("order {}: expected channels or protocol, found nodes={}", order,
                    schedule.nodes);
  const bool wrong =
      pat ? schedule.protocol != NcclProtocol::simple : schedule.protocol == NcclProtocol::ll128;
  if (wrong)
    throw_bad_input("order {}: expected protocol {}, found {}", order,
                    pat ? "simple" : "simple or ll",
                    kProtocols[static_cast<size_t>(schedule.protocol)]);
}

}  // namespace

std::string to_string(const ReductionSchedule& schedule) {
  const ReductionSchedule plain;
  std::vector<std::string> settings;
  if (schedule.channels != plain.channels)
    settings.push_back(fmt::format("channels={}", schedule.channels));
  if (schedule.protocol != plain.protocol)
    settings.push_back(
        fmt::format("protocol={}", kProtocols[static_cast<size_t>(schedule.protocol)]));
  if (schedule.nodes != plain.nodes) settings.push_back(fmt::format("nodes={}", schedule.nodes));
  if (schedule.nccl != plain.nccl) settings.push_back(fmt::format("nccl=2.{}", schedule.nccl));
  const std::string_view order = kOrders[static_cast<size_t>(schedule.order)];
  if (settings.empty()) return std::string(order);
  return fmt::format("{}({})", order, join_text(settings, ", "));
}

ReductionSchedule parse_reduction_schedule(std::string_view text) {
  const size_t open = text.find('(');
  ReductionSchedule schedule;
  schedule.order =
      static_cast<FoldOrder>(index_in(kOrders, trimmed(text.substr(0, open)), "reduction order"));
  if (open == std::string_view::npos) return schedule;
  if (!is_nccl_order(schedule.order) || schedule.order == FoldOrder::nvls)
    throw_bad_input("order {0} has no settings; write {0}",
                    kOrders[static_cast<size_t>(schedule.order)]);
  std::string_view rest = trimmed(text.substr(open + 1));
  if (rest.empty() || rest.back() != ')')
    throw_bad_input("order \"{}\": expected \")\" at its end", text);
  rest.remove_suffix(1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    read_setting(rest.substr(0, comma), schedule);
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
  }
  refuse_settings(schedule);
  return schedule;
}

ReductionSchedule with_nccl(ReductionSchedule schedule, int version) {
  const int minor = minor_of(version);
  schedule.nccl = minor < kNewest ? minor : 0;
  return schedule;
}

bool is_order_of_nccl(const ReductionSchedule& schedule, int version) {
  if (!is_nccl_order(schedule.order)) return true;
  // Versions that assign channels in the same way: 2.23 to 2.25, 2.26 to 2.28, 2.29 and newer.
  const auto dealers = [](int minor) { return (minor >= kWeighsLl) + (minor >= kNewest); };
  const int minor = minor_of(version);
  if (minor < first_with(schedule.order)) return false;
  if (schedule.order == FoldOrder::pat && minor >= kOtherPat) return false;
  // The choice between the two trees depends on the number of channels that NCCL finds on the
  // machine.
  if (schedule.order == FoldOrder::tree && schedule.nodes > 2 && schedule.channels > 1)
    return false;
  const bool deals = schedule.order == FoldOrder::ring || schedule.order == FoldOrder::tree ||
                     schedule.order == FoldOrder::pat;
  return !deals || schedule.channels == 1 ||
         dealers(minor) == dealers(schedule.nccl == 0 ? kNewest : schedule.nccl);
}

std::string nccl_environment(const ReductionSchedule& schedule) {
  if (!is_nccl_order(schedule.order)) return "";
  constexpr std::array<std::string_view, 3> kNames = {"Simple", "LL", "LL128"};
  const std::string_view protocol = kNames[static_cast<size_t>(schedule.protocol)];
  std::string ctas = fmt::format("NCCL_MIN_CTAS={0} NCCL_MAX_CTAS={0}", schedule.channels);
  // The number of channels that a call uses depends on the thread count, which NCCL lowers on slow
  // networks; so it is pinned.
  if (schedule.channels > 1 && schedule.order != FoldOrder::pat)
    ctas += " NCCL_NTHREADS=512 NCCL_LL128_NTHREADS=640";
  constexpr std::string_view kPlain = "NCCL_NVLS_ENABLE=0 NCCL_COLLNET_ENABLE=0";
  switch (schedule.order) {
    // If the list has one algorithm and a call does not have it, NCCL fails. So the list for Tree
    // has Ring too.
    case FoldOrder::ring:
    case FoldOrder::tree:
      return fmt::format("NCCL_ALGO={} NCCL_PROTO={} {} {}",
                         schedule.order == FoldOrder::ring ? "Ring" : "\"Ring;allreduce:Tree\"",
                         protocol, ctas, kPlain);
    case FoldOrder::pat:
      return fmt::format("NCCL_ALGO=\"Ring;reducescatter:PAT\" NCCL_PROTO=Simple {} {}", ctas,
                         kPlain);
    case FoldOrder::symmetric:
      // Only one kernel can be named. All kernels of reduce_scatter that load have the same order.
      return fmt::format(
          "NCCL_SYM_NOWIN_ENABLE=1 NCCL_SYM_KERNEL={} NCCL_SYM_CTAS={} {}",
          schedule.protocol == NcclProtocol::ll ? "AllReduce_AGxLL_R" : "AllReduce_RSxLD_AGxST",
          schedule.channels, kPlain);
    default:
      return "NCCL_ALGO=\"Ring;allreduce:NVLS;reducescatter:NVLS\" NCCL_PROTO=Simple "
             "NCCL_NVLS_ENABLE=1";
  }
}

}  // namespace shardproof
