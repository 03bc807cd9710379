// Plans the n-to-m reshardings of Alpa's suite ("On Optimizing the Communication of Model
// Parallelism", Zhuang et al., MLSys 2023). Compares their bytes and peaks with two baselines:
//
//   broadcast chain  each box of the source goes from one of its holders to the first receiver, and
//                    from each receiver to the next one
//   gather           the source mesh gathers the whole tensor, each receiver gets all of it and
//                    stores its part
//
// Both move the elements of a transfer or more. `sends` is what the rank that sends most sends.
#include <map>

#include "shardproof/bench/measure.h"
#include "shardproof/localtensor/placement/owned_box.h"
#include "shardproof/localtensor/plan/planner.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

struct Resharding {
  const char *from_mesh, *from, *to_mesh, *to;
  Dims shape = {1024, 1024, 512};
};

struct Sent {
  double fullest = 0, peak = 0;  // bytes
};

std::string mib(double bytes) { return fmt::format("{:.0f} MiB", bytes / (1 << 20)); }
std::string text_of(const Sent& sent) {
  return fmt::format("sends {}, peak {}", mib(sent.fullest), mib(sent.peak));
}

double fullest_of(const PlanStep& step) {
  double fullest = 0;
  for (const SentBytes& part : bytes_sent(step))
    fullest = std::max(fullest, part.bytes.to_double());
  return fullest;
}

Sent sent_by(const std::vector<PlanStep>& steps) {
  Sent sent;
  for (const PlanStep& step : steps) {
    sent.fullest += fullest_of(step);
    sent.peak = std::max(sent.peak, static_cast<double>(peak_bytes(step)));
  }
  return sent;
}

// A box and the ranks that hold it.
struct Holders {
  std::vector<Runs> box;
  std::vector<int32_t> ranks;
};

std::vector<Holders> holders_of(const Spec& spec) {
  std::vector<Holders> holders;
  for (int64_t i = 0; i < spec.mesh().size(); ++i) {
    const Dims coordinate = unravel(i, spec.mesh().shape());
    const std::vector<Runs> box = owned_box(spec, coordinate);
    auto found = std::find_if(holders.begin(), holders.end(),
                              [&](const Holders& one) { return one.box == box; });
    if (found == holders.end()) found = holders.insert(holders.end(), {box, {}});
    found->ranks.push_back(spec.mesh().rank_at(coordinate));
  }
  return holders;
}

Sent broadcast_chain(const Spec& from, const Spec& to) {
  std::map<int32_t, double> sent;
  const double element = static_cast<double>(size_of(from.dtype()));
  for (const auto& [part, senders] : holders_of(from))
    for (const auto& [wanted, receivers] : holders_of(to)) {
      const double bytes =
          static_cast<double>(element_count(shape_of_box(common_box(part, wanted)))) * element;
      if (bytes == 0) continue;
      const int32_t first = *std::min_element(
          senders.begin(), senders.end(), [&](int32_t a, int32_t b) { return sent[a] < sent[b]; });
      sent[first] += bytes;
      for (size_t i = 0; i + 1 < receivers.size(); ++i) sent[receivers[i]] += bytes;
    }
  Sent result;
  for (const auto& [rank, bytes] : sent) result.fullest = std::max(result.fullest, bytes);
  // A rank forwards from the buffer that it has received into.
  result.peak = element * static_cast<double>(
                              2 * std::max(from.max_local_elements(), to.max_local_elements()));
  return result;
}

Spec replicated(const Spec& spec) {
  return Spec(spec.mesh(),
              std::vector<Placement>(static_cast<size_t>(spec.mesh().axis_count()), R()),
              spec.shape(), spec.dtype());
}

Sent gather(const Spec& from, const Spec& to) {
  const Spec whole = replicated(from), arrived = replicated(to);
  std::vector<PlanStep> steps = gather_then_slice(from, whole).steps;
  steps.push_back({StepKind::transfer, {}, whole, arrived});
  return sent_by(steps);
}

void print_resharding(const Resharding& one) {
  const Spec from = Spec::parse(one.from, Mesh::parse(one.from_mesh), one.shape, DType::f32);
  const Spec to = Spec::parse(one.to, Mesh::parse(one.to_mesh), one.shape, DType::f32);
  std::vector<double> seconds;
  PlannerResult planned = plan_redistribution(from, to);
  for (int i = 0; i < 11; ++i)
    seconds.push_back(seconds_of([&] { planned = plan_redistribution(from, to); }));
  const Sent ours = sent_by(planned.plan.steps), chain = broadcast_chain(from, to),
             whole = gather(from, to);
  // No plan lets the fullest rank send less than the mean of what receivers lack.
  const double mean = average_of(bytes_sent(planned.plan.steps.front())).to_double();
  print({fmt::format("{}, {} {} to {} {}", to_string(one.shape), one.from_mesh, one.from,
                     one.to_mesh, one.to),
         fmt::format("{}; planned in {:.0f} us", text_of(ours), median(seconds) * 1e6),
         fmt::format("broadcast chain: {}; gather: {}", text_of(chain), text_of(whole)),
         fmt::format("{:.2f} of the bound", ours.fullest / mean), "1.1"});
}

}  // namespace

int main() {
  print_head();
  const char *two = "a=2, b=4 on 0-7", *other = "a=2, b=4 on 8-15", *one = "a=1, b=4 on 0-3";
  const Resharding kAlpa[] = {
      {two, "a:S(0) b:R", other, "a:S(0) b:R"},
      {two, "a:R b:R", other, "a:S(0) b:R"},
      {two, "a:S(1) b:R", other, "a:S(0) b:R"},
      {two, "a:S(1) b:S(1)", other, "a:S(0) b:S(0)"},
      {two, "a:R b:S(0)", other, "a:S(0) b:R"},
      {two, "a:S(1) b:R", other, "a:S(2) b:R"},
      {one, "a:R b:S(0)", "a=2, b=4 on 4-11", "a:R b:R"},
      {two, "a:S(0) b:R", "a=3, b=4 on 8-19", "a:S(0) b:R", {3072, 1024, 170}},
  };
  for (const Resharding& resharding : kAlpa) print_resharding(resharding);
}
