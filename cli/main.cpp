// The program shardproof: cli_main over the built-in ops and backends.
#include "shardproof/cli/base/console.h"
#include "shardproof/cli/cli.h"
#include "shardproof/cli/options/library_paths.h"

int main(int argc, char** argv) {
  return shardproof::run_and_report_errors([&] {
    const std::vector<std::string> folders = shardproof::library_folders();
    const shardproof::Registries registries{
        shardproof::builtin_ops(), shardproof::builtin_backends(folders),
        shardproof::runtime_cuda_api(folders), shardproof::cuda_kernels()};
    return shardproof::cli_main(argc, argv, registries);
  });
}
