# Every outside library, in one place. Which room may link which is the house's rule:
# fmt in localtensor, Boost.Fiber in sim, Eigen in ops, nlohmann-json in scenarios, Boost.Program_options in cli.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS fiber context program_options)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
if(SHARDPROOF_TESTS)
  find_package(GTest REQUIRED)
endif()
if(SHARDPROOF_BENCH)
  # Without them the benchmarks that need them are left out, with a line that says so.
  find_package(benchmark QUIET)
  find_package(SimGrid QUIET)
endif()
