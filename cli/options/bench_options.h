// Options of `shardproof bench` and the measurements that they select.
#pragma once

#include <boost/program_options.hpp>

#include "shardproof/scenarios/report/bench_report.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

struct BenchPlan {
  std::string backend;
  std::vector<Collective> sizes;  // one for each row of the table
  int warmup = 1, times = 20;
  Averaging averaging = Averaging::average;
  ResultCheck checking = ResultCheck::reference;
  std::string machine_text;
  std::shared_ptr<const CostModel> machine;
};

boost::program_options::options_description bench_options();
// Throws Error(bad_input) or Error(limit) with the option.
BenchPlan read_bench_plan(const boost::program_options::variables_map& given);

// Returns the bytes of "8", "128K", "32M" or "1G", with factors of 1024 as in nccl-tests. Throws
// Error(bad_input).
int64_t parse_size(const std::string& text);

}  // namespace shardproof
