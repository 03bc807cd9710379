#include "shardproof/backends/nccl/gpu_sharing.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/backends/remote/rendezvous/listen_address.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/reduction_schedule.h"

namespace shardproof {
namespace {

constexpr int kSharesGpus = 23003;

// "NAME=value NAME=\"value\"": those that are not there yet.
void add_settings(Environment& out, const std::string& text) {
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    const size_t sign = word.find('=');
    const std::string name = word.substr(0, sign);
    std::string value = word.substr(sign + 1);
    std::erase(value, '"');
    if (std::none_of(out.begin(), out.end(), [&](const auto& set) { return set.first == name; }))
      out.emplace_back(name, value);
  }
}

// Where the coordinator is found by a name, which is of one machine. Of all others nobody knows how
// many machines they are.
bool are_on_one_machine(const WorkerPoolOptions& options) {
  if (options.join.empty() && options.place == nullptr) return true;
  const std::string& address = options.join.empty() ? options.place->address() : options.join;
  return address.starts_with("unix:");
}

bool goes_over_loopback(const WorkerPoolOptions& options, GpuSharing sharing) {
  return sharing == GpuSharing::as_hosts && are_on_one_machine(options);
}

}  // namespace

GpuSharing gpu_sharing(const WorkerPoolOptions& options, int nccl_version) {
  if (options.ranks_per_gpu == 1 || options.processes == 1) return GpuSharing::none;
  return nccl_version >= kSharesGpus ? GpuSharing::by_nccl : GpuSharing::as_hosts;
}

void check_order(const ReductionSchedule& order, int nccl_version) {
  if (is_order_of_nccl(order, nccl_version)) return;
  const ReductionSchedule its = with_nccl(order, nccl_version);
  const std::string what = fmt::format("order {} is not that of NCCL {}, ", to_string(order),
                                       nccl_version_text(nccl_version));
  throw Error(ErrorKind::unsupported, what + (is_order_of_nccl(its, nccl_version)
                                                  ? fmt::format("which is {}", to_string(its))
                                                  : "of which it is not known"));
}

Environment nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing, int process) {
  Environment out;
  add_settings(out, nccl_pins(options.order));
  // What NCCL is to simulate needs communicators that wait, all else those that do not. To NCCL a
  // variable that is empty is none.
  add_settings(out, "NCCL_COMM_BLOCKING=");
  // NCCL takes what GPUs of one process hold for open to each other; memory of their pools is not.
  // And a thread that waits for the kernel of one GPU never launches that of the next, which the
  // first one waits for.
  if (options.gpus_per_process > 1)
    add_settings(out, "NCCL_P2P_DIRECT_DISABLE=1 CUDA_LAUNCH_BLOCKING=0");
  switch (sharing) {
    case GpuSharing::none: break;
    case GpuSharing::as_hosts:
      add_settings(out, fmt::format("NCCL_HOSTID=shardproof-{}", process));
      break;
    case GpuSharing::by_nccl:
      // Kernels of all ranks have to fit on the GPU together.
      add_settings(out,
                   "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 "
                   "NCCL_NET_GDR_LEVEL=LOC");
      break;
  }
  return out;
}

Environment nccl_preferences(const WorkerPoolOptions& options, GpuSharing sharing) {
  Environment out;
  // The second sign is NCCL's: no other interface whose name begins so.
  if (goes_over_loopback(options, sharing))
    add_settings(out, "NCCL_SOCKET_IFNAME==lo NCCL_NET=Socket");
  return out;
}

void set_nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing) {
  for (const auto& [name, value] : nccl_environment(options, sharing, options.process))
    ::setenv(name.c_str(), value.c_str(), 1);
  for (const auto& [name, value] : nccl_preferences(options, sharing))
    ::setenv(name.c_str(), value.c_str(), 0);
}

std::string sharing_note(const WorkerPoolOptions& options, GpuSharing sharing) {
  if (sharing == GpuSharing::none) return {};
  const std::string times = "its times are not those of as many GPUs";
  if (sharing == GpuSharing::by_nccl)
    return fmt::format("{} ranks on each GPU (NCCL_MULTI_RANK_GPU_ENABLE); {}",
                       options.ranks_per_gpu, times);
  return fmt::format("{} ranks on each GPU (NCCL_HOSTID of its own each, sockets{}); {}",
                     options.ranks_per_gpu,
                     goes_over_loopback(options, sharing) ? " over loopback" : "", times);
}

int first_own_gpu(const WorkerPoolOptions& options, int gpus) {
  const int each = options.gpus_per_process;
  const int first = options.number_here / options.ranks_per_gpu * each;
  if (first + each <= gpus) return first;
  if (gpus == each) return 0;
  if (each > 1)
    throw Error(ErrorKind::unsupported,
                fmt::format("number {} on its machine has no {} GPUs: {} are visible",
                            options.number_here, each, gpus));
  throw Error(ErrorKind::unsupported,
              fmt::format("number {} on its machine has no GPU: {} are visible; --ranks-per-gpu N "
                          "puts N processes on one",
                          options.number_here, gpus));
}

void check_gpu_count(const WorkerPoolOptions& options, int gpus) {
  const int each = options.gpus_per_process;
  const int share = options.ranks_per_gpu;
  const int needed = each > 1 ? options.processes * each : (options.processes + share - 1) / share;
  if (needed <= gpus) return;
  const char* const are = gpus == 1 ? "is" : "are";
  if (each > 1)
    throw Error(ErrorKind::unsupported,
                fmt::format("backend nccl: {} process{} with {} GPUs each need{} {}, and {} {} "
                            "visible",
                            options.processes, options.processes == 1 ? "" : "es", each,
                            options.processes == 1 ? "s" : "", needed, gpus, are));
  throw Error(ErrorKind::unsupported,
              fmt::format("backend nccl: {} processes need {} GPUs, and {} {} visible; "
                          "--ranks-per-gpu {} puts them on {}",
                          options.processes, needed, gpus, are,
                          (options.processes + gpus - 1) / gpus, gpus == 1 ? "it" : "these"));
}

}  // namespace shardproof
