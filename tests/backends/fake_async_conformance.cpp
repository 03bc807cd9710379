// The conformance suite on the fake asynchronous backend, and tests of hosts that wait for it.
#include "shardproof/backends/api/rank_context.h"
#include "shardproof/backends/decorators/flight_recorder.h"
#include "shardproof/tests/backends/conformance.h"
#include "shardproof/tests/backends/fake_async.h"

namespace shardproof {

std::vector<ConformanceBackend> conformance_backends() {
  return {{"fake_async", [](const WorldOptions& options) {
             return recorded(std::make_unique<FakeAsyncWorld>(options, FakeAsyncOptions{}),
                             options.max_records);
           }}};
}

namespace {

class FakeAsyncBackend : public Backend {
 public:
  explicit FakeAsyncBackend(FakeAsyncOptions fake) : fake_(fake) {}
  std::string name() const override { return "fake async"; }
  std::string summary() const override { return "ends late"; }
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::optional<std::string> unsupported_reason(const Collective&) const override {
    return std::nullopt;
  }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return std::make_unique<FakeAsyncWorld>(options, fake_);
  }

 private:
  FakeAsyncOptions fake_;
};

std::vector<double> chain_on(FakeAsyncOptions fake, int64_t* stopped) {
  RanksOptions options;
  options.backend = std::make_shared<FakeAsyncBackend>(fake);
  options.on_stop = OnStop::return_calls;
  std::vector<double> got(4, -1);
  run_ranks(
      4,
      [&](RankContext& me) {
        Tensor x = tensor_of(DType::f32, {1}, {double(me.rank())});
        for (int i = 0; i < 3 && !me.stopped(); ++i) x = me.all_reduce(x);
        if (me.stopped())
          ++*stopped;
        else
          got[static_cast<size_t>(me.rank())] = values_of(x)[0];
      },
      options);
  return got;
}

TEST(FakeAsync, LateEnds_AnySeed_GiveEqualValues) {
  for (uint64_t seed = 1; seed < 30; ++seed) {
    int64_t stopped = 0;
    EXPECT_EQ(chain_on({seed, 7, 0}, &stopped), std::vector<double>(4, 96.0)) << "seed " << seed;
    EXPECT_EQ(stopped, 0);
  }
}

TEST(FakeAsync, FailedSubmission_StopsItsRank) {
  int64_t stopped = 0;
  const std::vector<double> got = chain_on({3, 4, 5}, &stopped);
  EXPECT_GE(stopped, 1);
  EXPECT_EQ(std::count(got.begin(), got.end(), -1.0), stopped);
}

}  // namespace
}  // namespace shardproof
