// Tests exchanges that need several MPI calls: this program starts itself under mpirun, with a
// transport that gives MPI three elements at a time.
#include <gtest/gtest.h>

#include <cstdlib>
#include <deque>
#include <filesystem>

#include "shardproof/backends/bench/exact_inputs.h"
#include "shardproof/backends/mpi/mpi_transport.h"
#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/sim/matching/write_outputs.h"

namespace shardproof {
namespace {

constexpr int64_t kMost = 3;
constexpr CollectiveKind kKinds[] = {
    CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
    CollectiveKind::all_to_all, CollectiveKind::broadcast,  CollectiveKind::reduce,
    CollectiveKind::gather,     CollectiveKind::scatter,    CollectiveKind::send};

// The ranks that lie on one process, each with its share of a call.
class RanksHere {
 public:
  RanksHere(Transport& transport, const CollectiveBenchmark& about)
      : transport_(transport),
        call_(about.collective),
        blocks_(call_.group.size(), transport.processes(), transport.endpoints_each()) {
    const Lanes here = blocks_.of(transport.self());
    for (int64_t i = 0; i < here.size(); ++i) {
      BenchmarkTensors& tensors = tensors_.emplace_back(exact_tensors(about, Lanes::one(here[i])));
      Submission& submission = submissions_.emplace_back();
      submission.calls.resize(1);
      SubmittedCall& submitted = submission.calls.front();
      submitted.submission = &submission;
      Call call;
      call.collective = call_;
      call.lanes = Lanes::one(here[i]);
      call.input = &tensors.input;
      if (!tensors.output.empty()) call.output = &tensors.output;
      copy_views(submitted, call);
      submitted.terms = std::make_shared<const CallTerms>(std::move(call));
      shares_.push_back({&submitted, 0, here[i]});
    }
  }

  void run() { call_.kind == CollectiveKind::send ? run_ring() : run_collective(); }

  int64_t count_wrong() const {
    int64_t wrong = 0;
    for (const BenchmarkTensors& tensors : tensors_)
      wrong += shardproof::count_wrong(call_, tensors.output);
    return wrong;
  }

 private:
  void exchange(std::vector<ExchangeOperation>& moving) {
    std::vector<Exchange> exchanges;
    for (const ExchangeOperation& one : moving) exchanges.push_back(one.exchange);
    transport_.start(exchanges);
    while (!transport_.done()) {
    }
  }

  void run_collective() {
    if (shares_.empty()) return;
    std::vector<ExchangeOperation> moving = by_endpoint(shares_, call_.group.members(0), blocks_);
    for (ExchangeOperation& one : moving)
      if (!start_instance(one, blocks_, transport_)) return;
    exchange(moving);
    for (ExchangeOperation& one : moving) finish_instance(one);
  }

  // Each rank sends to the next one.
  void run_ring() {
    std::vector<ExchangeOperation> moving;
    for (int64_t from = 0; from < call_.group.size(); ++from) {
      const int64_t to = (from + 1) % call_.group.size();
      const CallShare *sender = share_of(from), *receiver = share_of(to);
      const int source = blocks_.endpoint_of(from), sink = blocks_.endpoint_of(to);
      if (sender != nullptr && source == sink) {
        const SendContents own = contents_to_send(*sender);
        deliver(*receiver->submitted, receiver->rank(), own.data, own.size);
        continue;
      }
      if (sender != nullptr)
        moving.push_back(
            message(*sender, message_exchange(CollectiveKind::send, source, sink, from)));
      if (receiver != nullptr)
        moving.push_back(
            message(*receiver, message_exchange(CollectiveKind::recv, sink, source, from)));
    }
    if (moving.empty()) return;
    exchange(moving);
    for (const ExchangeOperation& one : moving)
      if (one.exchange.kind == CollectiveKind::recv)
        deliver(*one.parts.front().submitted, one.parts.front().rank(), one.in);
  }

  const CallShare* share_of(int64_t rank) const {
    for (const CallShare& share : shares_)
      if (share.rank() == rank) return &share;
    return nullptr;
  }

  ExchangeOperation message(const CallShare& share, Exchange about) const {
    ExchangeOperation moving;
    moving.parts = {share};
    moving.exchange = std::move(about);
    moving.exchange.count = call_.count * size_of(call_.dtype);
    if (moving.exchange.kind == CollectiveKind::send)
      send_piece(moving, share, nullptr);
    else
      receive_bytes(moving, moving.exchange.count, nullptr);
    return moving;
  }

  Transport& transport_;
  const Collective& call_;
  RankBlocks blocks_;
  std::deque<BenchmarkTensors> tensors_;
  std::deque<Submission> submissions_;
  std::vector<CallShare> shares_;
};

int64_t wrong_elements(Transport& transport) {
  int64_t wrong = 0;
  for (const CollectiveKind kind : kKinds)
    for (const int64_t ranks : {transport.processes(), 2 * transport.processes() + 1})
      for (const int64_t each : {0, 1, 5, 6}) {
        CollectiveBenchmark about;
        about.collective.kind = kind;
        about.collective.group = Group::world(ranks);
        about.collective.count = each * ranks;
        about.collective.root = has_root(kind) ? ranks - 1 : 0;
        RanksHere here(transport, about);
        here.run();
        wrong += here.count_wrong();
      }
  return wrong;
}

TEST(MpiTransport, Exchange_OfSeveralMpiCalls_ArrivesWhole) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  for (const int processes : {1, 2, 3, 4}) {
    const std::string start =
        "mpirun --allow-run-as-root --oversubscribe --mca pml ob1 --mca btl "
        "self,vader --mca btl_vader_single_copy_mechanism none -n ";
    const std::string command = start + std::to_string(processes) + " '" + self + "' --process";
    EXPECT_EQ(std::system(command.c_str()), 0) << processes << " processes";
  }
}

}  // namespace
}  // namespace shardproof

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--process") {
    const auto transport = shardproof::mpi_transport(shardproof::kMost);
    return shardproof::wrong_elements(*transport) == 0 ? 0 : 1;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
