// Tests the table and the JSON of `shardproof bench` on given numbers.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "shardproof/scenarios/report/bench_report.h"
#include "shardproof/tests/approval.h"

namespace shardproof::bench_report_test {
namespace {

Collective collective(CollectiveKind kind, int64_t ranks, int64_t count) {
  Collective c;
  c.kind = kind;
  c.group = Group::world(ranks);
  c.count = count;
  return c;
}

BenchHead head(const std::string& machine) {
  BenchHead head;
  head.version = "1.2.3";
  head.backend = "mpi";
  head.collective = collective(CollectiveKind::all_reduce, 8, 0);
  head.processes = 4;
  head.machine = machine;
  return head;
}

std::vector<BenchRow> rows() {
  std::vector<BenchRow> rows;
  double seconds = 1.2345e-6;
  for (int64_t count = 2; count <= 2'000'000'000; count *= 1000, seconds *= 321) {
    BenchRow& row = rows.emplace_back();
    row.collective = collective(CollectiveKind::all_reduce, 8, count);
    row.out_of_place = {seconds, 0};
    row.in_place = {seconds / 2, std::nullopt};
    row.predicted_seconds = seconds / 3;
  }
  rows.back().out_of_place.wrong = 12;
  rows.front().predicted_seconds = 0;
  return rows;
}

std::string table(const BenchHead& head, std::vector<BenchRow> rows) {
  std::string text = bench_head_text(head);
  for (const BenchRow& row : rows) text += bench_row_text(head, row);
  return text + bench_foot_text(rows);
}

TEST(BenchReport, ApprovedTexts) {
  expect_approved("bench/predicted",
                  table(head("flat(latency='5 us', bandwidth='50 GB/s')"), rows()));
  std::vector<BenchRow> plain = rows();
  for (BenchRow& row : plain) row.predicted_seconds.reset();
  BenchHead simulated = head("");
  simulated.simulated = true;
  expect_approved("bench/simulated", table(simulated, plain));
  expect_approved("bench/json", bench_json(head("ideal"), rows()));
}

// Sizes and factors are those of nccl-tests.
TEST(BenchReport, Bandwidths_EqualThoseOfNcclTests) {
  struct Known {
    CollectiveKind kind;
    int64_t bytes;  // of 1000 f32 on 4 ranks
    double factor;
  };
  const Known known[] = {{CollectiveKind::all_reduce, 4000, 1.5},
                         {CollectiveKind::all_gather, 16000, 0.75},
                         {CollectiveKind::reduce_scatter, 16000, 0.75},
                         {CollectiveKind::all_to_all, 4000, 0.75},
                         {CollectiveKind::broadcast, 4000, 1},
                         {CollectiveKind::reduce, 4000, 1},
                         {CollectiveKind::gather, 16000, 0.75},
                         {CollectiveKind::scatter, 16000, 0.75},
                         {CollectiveKind::send, 4000, 1}};
  for (const Known& one : known) {
    const Collective c = collective(one.kind, 4, 1000);
    EXPECT_EQ(size_in_bytes(c), one.bytes) << name(one.kind);
    EXPECT_DOUBLE_EQ(algorithm_bandwidth(c, 1e-3), static_cast<double>(one.bytes) * 1e3);
    EXPECT_DOUBLE_EQ(bus_bandwidth(c, 1e-3), static_cast<double>(one.bytes) * 1e3 * one.factor);
  }
}

TEST(BenchReport, Counts_EqualThoseOfNcclTests) {
  BenchRow to_all = rows().at(0), reduced = to_all;
  to_all.collective = collective(CollectiveKind::all_to_all, 4, 1000);
  reduced.collective = collective(CollectiveKind::all_reduce, 4, 1000);
  const auto json = nlohmann::json::parse(bench_json(head(""), {to_all, reduced}));
  EXPECT_EQ(json["results"][0]["count"], 250);
  EXPECT_EQ(json["results"][1]["count"], 1000);
}

TEST(BenchReport, Rows_AreAsWideAsTheHead) {
  const BenchHead with = head("ideal");
  std::istringstream in(bench_head_text(with));
  std::string line, last;
  while (std::getline(in, line)) last = line;
  for (const BenchRow& row : rows())
    EXPECT_EQ(bench_row_text(with, row).size(), last.size() + 1) << bench_row_text(with, row);
}

TEST(BenchReport, Json_HasEveryRow) {
  const auto json = nlohmann::json::parse(bench_json(head(""), rows()));
  ASSERT_EQ(json["results"].size(), rows().size());
  EXPECT_EQ(json["results"][0]["size"], 8);
  EXPECT_EQ(json["results"][0]["out_of_place"]["nwrong"], 0);
  EXPECT_TRUE(json["results"][0]["in_place"]["nwrong"].is_null());
  EXPECT_EQ(json["out_of_bounds"]["count"], 12);
}

}  // namespace
}  // namespace shardproof::bench_report_test
