// Implements gpu_sharing.h.
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

constexpr int kGpuSharingVersion = 23003;  // oldest version with several ranks on one GPU

// Adds the settings of "NAME=value NAME=\"value\"" whose names are not set yet.
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

// True if the coordinator is found by a name on this machine. Otherwise the number of machines is
// not known.
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
  return nccl_version >= kGpuSharingVersion ? GpuSharing::by_nccl : GpuSharing::as_hosts;
}

void check_order(const ReductionSchedule& order, int nccl_version) {
  if (is_order_of_nccl(order, nccl_version)) return;
  const ReductionSchedule its = with_nccl(order, nccl_version);
  const std::string what = fmt::format("order {} is not the order of NCCL {}; ", to_string(order),
                                       nccl_version_text(nccl_version));
  throw Error(ErrorKind::unsupported,
              what + (is_order_of_nccl(its, nccl_version) ? fmt::format("write {}", to_string(its))
                                                          : "its order is not known"));
}

Environment nccl_environment(const WorkerPoolOptions& options, GpuSharing sharing, int process) {
  Environment out;
  add_settings(out, nccl_environment(options.order));
  // Predictions need blocking communicators, all else non-blocking ones: the variable must not
  // decide. NCCL treats an empty variable as not set.
  add_settings(out, "NCCL_COMM_BLOCKING=");
  // NCCL assumes that GPUs of one process can access each other's memory; memory of their pools is
  // not accessible. With blocking launches, a thread would wait for the kernel of one GPU. The
  // kernel waits for one that the thread launches next on another GPU.
  if (options.gpus_per_process > 1)
    add_settings(out, "NCCL_P2P_DIRECT_DISABLE=1 CUDA_LAUNCH_BLOCKING=0");
  switch (sharing) {
    case GpuSharing::none: break;
    case GpuSharing::as_hosts:
      add_settings(out, fmt::format("NCCL_HOSTID=shardproof-{}", process));
      break;
    case GpuSharing::by_nccl:
      // The kernels of all ranks must fit on the GPU at the same time.
      add_settings(out,
                   "NCCL_MULTI_RANK_GPU_ENABLE=1 NCCL_MAX_CTAS=2 NCCL_NVLS_ENABLE=0 "
                   "NCCL_NET_GDR_LEVEL=LOC");
      break;
  }
  return out;
}

Environment nccl_preferences(const WorkerPoolOptions& options, GpuSharing sharing) {
  Environment out;
  // "==" is NCCL's notation for this interface name only, not as a prefix.
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
  const std::string times = "times differ from those of one rank on each GPU";
  if (sharing == GpuSharing::by_nccl)
    return fmt::format("{} ranks on each GPU (NCCL_MULTI_RANK_GPU_ENABLE); {}",
                       options.ranks_per_gpu, times);
  return fmt::format("{} ranks on each GPU (NCCL_HOSTID of its own each, sockets{}); {}",
                     options.ranks_per_gpu,
                     goes_over_loopback(options, sharing) ? " over loopback" : "", times);
}

int first_own_gpu(const WorkerPoolOptions& options, int gpus) {
  const int each = options.gpus_per_process;
  const int first = options.number_on_machine / options.ranks_per_gpu * each;
  if (first + each <= gpus) return first;
  if (gpus == each) return 0;
  if (each > 1)
    throw Error(ErrorKind::unsupported,
                fmt::format("process {} of its machine needs {} GPUs: {} are visible",
                            options.number_on_machine, each, gpus));
  throw Error(ErrorKind::unsupported,
              fmt::format("process {} of its machine has no GPU: {} are visible; --ranks-per-gpu N "
                          "puts N processes on one",
                          options.number_on_machine, gpus));
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
