// What `shardproof bench` is asked to measure: the words of its command line as values.
#pragma once

#include <boost/program_options.hpp>

#include "shardproof/scenarios/report/bench_report.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {

struct BenchPlan {
  std::string backend;
  std::vector<Collective> sizes;  // one a row, with their counts
  int warmup = 1, times = 20;
  Averaging averaging = Averaging::average;
  Checking checking = Checking::reference;
  std::string machine_text;
  std::shared_ptr<const CostModel> machine;
};

boost::program_options::options_description bench_options();
// Throws Error that names the option.
BenchPlan read_bench_plan(const boost::program_options::variables_map& given);

// "8", "128K", "32M", "1G": factors of 1024, as nccl-tests counts.
int64_t parse_size(const std::string& text);

}  // namespace shardproof
