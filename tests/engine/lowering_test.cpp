// Tests bad programs: each is refused before anything runs, with its position in the listing and a
// message that states what is expected.
#include <gtest/gtest.h>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::testing::lowering_test {
namespace {

struct Bad {
  std::vector<std::string> lines;
  int line, column;
  std::vector<std::string> says;
  ErrorKind kind = ErrorKind::bad_input;
};

void expect_refused(const Job& job, const Bad& bad, const std::string& path) {
  SCOPED_TRACE(bad.lines[static_cast<size_t>(bad.line - 1)]);
  try {
    lower_job(job, builtin_registries());
    ADD_FAILURE() << "was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), bad.kind);
    EXPECT_EQ(error.where().path, path) << error.message();
    EXPECT_EQ(error.where().line, bad.line) << error.message();
    EXPECT_EQ(error.where().column, bad.column) << error.message();
    for (const std::string& part : bad.says)
      EXPECT_NE(error.message().find(part), std::string::npos)
          << "\"" << error.message() << "\" does not contain \"" << part << "\"";
  }
}

Job with_inputs(Job job) {
  add_input(job, "x", Dims{4, 6});
  add_input(job, "weight", Dims{6, 4});
  add_input(job, "n", Dims{3}, "", DType::i64);
  job.numbers = {{"hidden", Number(6)}};
  return job;
}

TEST(LoweringErrors, BadGlobalProgram_IsRefusedAtItsPosition) {
  const std::vector<Bad> programs = {
      {{"y = x @ wieght"}, 1, 9, {"wieght", "weight"}},
      {{"y = gleu(x)"}, 1, 5, {"gleu", "gelu"}},
      {{"", "y = x @ x"}, 2, 5, {"6", "4"}},
      {{"y = x + weight"}, 1, 5, {"[4, 6]", "[6, 4]"}},
      {{"y = all_reduce(x, sum)"}, 1, 5, {"rank programs"}},
      {{"y = redistribute(x, tq:R)"}, 1, 21, {"tq", "tp"}},
      {{"y = redistribute(x, tp:S(2))"}, 1, 21, {"2"}},
      {{"y = redistribute(x)"}, 1, 5, {"placements"}},
      {{"redistribute(x, tp:R)"}, 1, 1, {"dropped"}},
      {{"on comm:", "  y = x"}, 1, 1, {"streams"}},
      {{"group:", "  y = x"}, 1, 1, {"group"}},
      {{"y = x @ weight as tp:S(7)"}, 1, 19, {"7"}},
      {{"y = softmax(x, dim=5)"}, 1, 5, {"5"}},
      {{"y = softmax(x, dmi=1)"}, 1, 5, {"dmi", "dim"}},
      {{"y = softmax(x, rows=1)"}, 1, 5, {"rows", "it takes x, dim"}},
      {{"y = clip(x, 0, 1)"}, 1, 5, {"write clamp(x, 0, 1)"}},
      {{"y = max(x, 0, y=x)"}, 1, 5, {"a dim or a second tensor"}},
      {{"y = amax(x, x)"}, 1, 13, {"argument dim of amax", "expected a number, found x"}},
      {{"y = gather(x, 0, x)"}, 1, 5, {"rank programs", "torch.gather is take_along_dim"}},
      {{"y = cast(x, float16)"}, 1, 5, {"float16", "\"f16\""}},
      {{"y = tril(x) as tp:S(0)"}, 1, 5, {"tril", "`as`"}},
      {{"y = z", "z = x"}, 1, 5, {"z"}},
      {{"y = x * hiden"}, 1, 9, {"unknown name hiden", "\"hidden\""}},
      {{"if x:", "  y = x"}, 1, 4, {"found the tensor x"}},
      {{"for i in range(hidn):", "  y = x"}, 1, 16, {"unknown name hidn", "\"hidden\""}},
      {{"y = reshape(x, [5, 5])"}, 1, 5, {"24", "[5, 5]"}},
  };
  for (const Bad& bad : programs)
    expect_refused(with_inputs(job_of("dp=2, tp=2", bad.lines)), bad, "/program");
}

TEST(LoweringErrors, EndlessLoop_IsRefusedBeforeItsFirstPass) {
  const Bad bad = {
      {"y = x", "for i in range(-9000000000000000000, 9000000000000000000):", "  y = y + 1"},
      2,
      1,
      {"the loops expand to more than 4000000 lines"},
      ErrorKind::limit};
  expect_refused(with_inputs(job_of("dp=2", bad.lines)), bad, "/program");
}

// The cases are sizes that no op can have, empty lists, and more pieces than a program may have.
TEST(LoweringErrors, ImpossibleSizes_AreRefused) {
  const std::vector<std::pair<std::string, std::string>> programs = {
      {"adaptive_avg_pool1d(x, [])", "output_size needs 1 or 1 numbers"},
      {"adaptive_max_pool1d(x, 9223372036854775807)", "output_size must be from 1 to 16384"},
      {"avg_pool1d(x, [])", "kernel_size needs"},
      {"max_pool1d(x, 2, 1, 0, 9223372036854775807)", "must be from 1 to"},
      {"conv1d(ones([1, 2, 5]), ones([3, 2, 3]), None, 1, 9223372036854775807)", "padding must be"},
      {"conv_transpose1d(ones([1, 2, 5]), ones([2, 3, 3]), None, [])", "stride needs"},
      {"chunk(zeros([0]), 9223372036854775807)", "more than 16384 pieces"},
      {"chunk(x, 9223372036854775807, 1)", "chunk gives 6 values, expected one"},
      {"split(x, [9223372036854775807, 9223372036854775807, 6])", "more than dim 0 has"},
      {"unbind(zeros([100000]))", "more than 16384 pieces"},
      {"narrow(x, 1, 2, 9223372036854775807)", "do not fit"},
      {"repeat_interleave(x, 9223372036854775807)", "too many"},
      {"pad(x, [9223372036854775807, 9223372036854775807])", "2^40"},
      {"pixel_shuffle(ones([4, 2, 2]), 4294967296)", "multiple of the square"},
      {"randint([2], 0, 9223372036854775807)", "-2^62 to 2^62"},
      {"movedim(x, [0, 1], [0, 0])", "dim 0 occurs twice in destination"},
      {"hstack([])", "at least one tensor"},
      {"vstack([])", "at least one tensor"},
      {"stack([])", "at least one tensor"},
      {"index_at(x, [], [])", "found 0 for 0 dims"},
      {"index_at(x, [n, n], [0, 7])", "dim 7 is out of range"},
      {"segment_sum(x, 0, 3)", "starts must begin with 0"},
      {"cumsum_segments(x, x, 1, -1)", "starts must begin with 0"},
      {"topk_segments(x, 1, 0, true, 3)", "pairs of a start and a length"},
      {"topk_segments(x, 1, 0, true, [2, 3])", "the segment of length 3 from 2"},
      {"halo_windows(x, x[0:1], 0, 0, 4, 0, 2)", "entry 1, which is neither"},
      {"renorm(x, 2, 5, 1)", "dim 5 is out of range"},
      {"addmv(ones([3]), x, ones([6]), beta=0)", "do not broadcast"},
      {"gaussian_nll_loss(x, x, ones([6]))", "at most, found [6]"},
      {"gaussian_nll_loss(x, x, ones([1, 1]))", "at most, found [1, 1]"},
      {"mse_loss(x, x, count=0)", "count must be at least 1"},
      {"adam(x, x, x, x, step=0)", "step must be at least 1"},
      {"kthvalue(sum(x), 2)", "k must be from 1 to 1, found 2"},
  };
  for (const auto& [call, says] : programs)
    expect_refused(with_inputs(job_of("dp=2, tp=2", {"y = " + call})),
                   {{"y = " + call}, 1, 5, {says}}, "/program");
}

TEST(LoweringErrors, BadRankProgram_IsRefusedAtItsPosition) {
  const std::vector<Bad> programs = {
      {{"all_reduce(x, sum)"}, 1, 1, {"dropped"}},
      {{"y = all_reduce(x, sum, group=tq)"}, 1, 30, {"tq", "tp"}},
      {{"y = all_reduce(x, sun)"}, 1, 19, {"sun", "sum"}},
      {{"y = broadcast(x, root=2, group=tp)"}, 1, 23, {"2"}},
      {{"y = broadcast(x, root=hidn)"}, 1, 23, {"hidn", "\"hidden\""}},
      {{"y = all_gather(x, dim=2)"}, 1, 23, {"2"}},
      {{"on comm:", "  y = x + 1", "wait(com)"}, 3, 6, {"com", "comm"}},
      {{"put(x, to=next)", "y = slot(-1, like=x)"}, 2, 10, {"-1"}},
      {{"y = slot(0)"}, 1, 5, {"like=x"}},
      {{"wait_signal(from=prev, slot=0, count=-1)"}, 1, 1, {"found -1", "0 or more"}},
      {{"y = recv(like=x, shape=[9, 9], from=0)"},
       1,
       24,
       {"either like=x or shape=[..], found both"}},
      {{"keep(x)"}, 1, 1, {"stream"}},
      {{"y = redistribute(x, tp:R)"}, 1, 5, {"redistribute"}},
      {{"y = x as tp:R"}, 1, 1, {"as"}},
      {{"if rank == 0:", "  y = x", "z = y + 1"}, 3, 5, {"y", "rank"}},
      {{"y = all_to_all_v(x, send=[1, 2, 1], recv=[2, 2])"}, 1, 26, {"3"}},
      {{"y = reduce_scatter(x, sum, dim=1, group=dp)",
        "z = reduce_scatter(y, sum, dim=1, group=dp)"},
       2,
       5,
       {"3", "2"}},
      {{"y = x @ weigth"}, 1, 9, {"weigth", "weight"}},
      {{"send(x, to=4)"}, 1, 12, {"to=4", "an index in the group, 0 to 3"}},
      {{"y = gather(x, dim=0, root=0, group=dp)", "z = y + 1"}, 2, 5, {"y has no value on rank 2"}},
      {{"y = reduce(x, sum, root=1, group=dp)", "send(y, to=next)"},
       2,
       1,
       {"y has no value on rank 0"}},
      {{"free(x)", "y = x + 1"}, 2, 5, {"x", "it was freed"}},
      {{"group:", "  y = all_reduce(x, sum)", "  z = y * 2"},
       3,
       7,
       {"uses the result of a call of the same group"}},
      {{"group:", "  y = all_reduce(x, sum)", "  copy_(y, x)"},
       3,
       3,
       {"uses the result of a call of the same group"}},
      {{"group:", "  all_reduce_(x, sum)", "  x[0:1] = x[1:2]"},
       3,
       3,
       {"uses the result of a call of the same group"}},
      {{"group:", "  y = recv(like=x, from=prev)", "  z = y", "  send(z * 2, to=next)"},
       4,
       8,
       {"uses the result of a call of the same group"}},
      {{"if rank == 0: y = x * 2", "if rank == 1: z = y + 1"}, 2, 19, {"bound on other ranks"}},
      {{"a, b = split(x, 1 + rank % 2)"}, 1, 8, {"split gives", "on rank 0 and", "on rank 1"}},
      {{"keep(x, com)"}, 1, 9, {"com is not a stream"}},
      {{"h{rank} = x"}, 1, 1, {"h0 on rank 0 and h1 on rank 1"}},
      {{"y = all_reduce(n, sum, group=[dp, dq])"}, 1, 30, {"dq"}},
  };
  for (const Bad& bad : programs) {
    Job job = with_inputs(job_of("dp=2, tp=2", {}));
    add_ranks(job, "all", Lanes::range(0, 4), bad.lines);
    expect_refused(job, bad, "/ranks/all");
  }
}

}  // namespace
}  // namespace shardproof::testing::lowering_test
