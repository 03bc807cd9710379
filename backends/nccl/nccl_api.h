// NcclApi: the NCCL functions that this program uses, as a table filled from the library at run
// time (load_nccl). NCCL is never linked: one build runs with every version from 2.18 on, and
// starts without NCCL. Functions of newer versions are null if absent. Types have NCCL's layout,
// which nccl_api_static_checks.cpp checks if <nccl.h> is installed. Results are ncclResult_t
// as int.
#pragma once

#include <climits>
#include <cstddef>
#include <string>
#include <vector>

namespace shardproof {

struct NcclCommunicator;  // ncclComm
using NcclComm = NcclCommunicator*;
struct NcclWindowHandle;
using NcclWindow = NcclWindowHandle*;
using NcclStream = void*;  // cudaStream_t

struct NcclId {
  char bytes[128];
};

namespace nccl {
inline constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;
inline constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR
inline constexpr int kUndefined = INT_MIN;
enum Type { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };
enum Op { sum, prod, max, min, avg, kOps };
inline constexpr int kHostScalar = 1;  // ncclScalarHostImmediate
inline constexpr int kSymmetric = 1;   // NCCL_WIN_COLL_SYMMETRIC
}  // namespace nccl

// ncclConfig_t of 2.18; newer versions accept it by its size and version.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21800;
  int blocking = 1;
  int cga_cluster_size = nccl::kUndefined;
  int min_ctas = nccl::kUndefined;
  int max_ctas = nccl::kUndefined;
  const char* net_name = nullptr;
  int split_share = nccl::kUndefined;
  int traffic_class = nccl::kUndefined;  // padding in 2.18; NCCL 2.26 reads it for every version
};

// ncclSimInfo_t, since 2.22.
struct NcclSimulation {
  size_t size = sizeof(NcclSimulation);
  unsigned magic = 0x74685283;
  unsigned version = 22200;
  float microseconds = -1;
};

// ncclWaitSignalDesc_t, since 2.29.
struct NcclSignals {
  int count = 0, peer = 0, index = 0, context = 0;
};

struct NcclApi {
  std::string path;  // path of the library
  int version = 0;   // 22809 is 2.28.9

  int (*get_version)(int*) = nullptr;
  int (*get_unique_id)(NcclId*) = nullptr;
  int (*comm_init)(NcclComm*, int ranks, NcclId, int rank, NcclConfig*) = nullptr;
  int (*comm_split)(NcclComm, int color, int key, NcclComm*, NcclConfig*) = nullptr;
  int (*comm_finalize)(NcclComm) = nullptr;
  int (*comm_destroy)(NcclComm) = nullptr;
  int (*comm_abort)(NcclComm) = nullptr;
  int (*async_error)(NcclComm, int*) = nullptr;
  const char* (*error_text)(int) = nullptr;
  const char* (*last_error)(NcclComm) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  int (*all_reduce)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*reduce)(const void*, void*, size_t, int, int, int root, NcclComm, NcclStream) = nullptr;
  int (*reduce_scatter)(const void*, void*, size_t, int, int, NcclComm, NcclStream) = nullptr;
  int (*all_gather)(const void*, void*, size_t, int, NcclComm, NcclStream) = nullptr;
  int (*broadcast)(const void*, void*, size_t, int, int root, NcclComm, NcclStream) = nullptr;
  int (*send)(const void*, size_t, int, int peer, NcclComm, NcclStream) = nullptr;
  int (*recv)(void*, size_t, int, int peer, NcclComm, NcclStream) = nullptr;
  int (*premul_sum)(int* op, void* scalar, int type, int where, NcclComm) = nullptr;
  int (*op_destroy)(int op, NcclComm) = nullptr;

  // Functions of newer versions.
  int (*group_simulate_end)(NcclSimulation*) = nullptr;                             // 2.22
  int (*mem_alloc)(void**, size_t) = nullptr;                                       // 2.19
  int (*mem_free)(void*) = nullptr;                                                 // 2.19
  int (*window_register)(NcclComm, void*, size_t, NcclWindow*, int) = nullptr;      // 2.27
  int (*window_deregister)(NcclComm, NcclWindow) = nullptr;                         // 2.27
  int (*put_signal)(const void*, size_t, int, int peer, NcclWindow, size_t offset,  // 2.29
                    int index, int context, unsigned flags, NcclComm, NcclStream) = nullptr;
  int (*signal)(int peer, int index, int context, unsigned flags, NcclComm, NcclStream) = nullptr;
  int (*wait_signal)(int, NcclSignals*, NcclComm, NcclStream) = nullptr;  // 2.29
};

// Returns "2.28.9" for 22809.
std::string nccl_version_text(int version);

// Places to look for the library: only `library` if it is set; else by the system's search for
// `name`, then in `folders`.
struct NcclSearchPaths {
  std::string library;
  std::vector<std::string> folders;
  std::string name = "libnccl.so.2";
};
// Opens the first library that is new enough and complete. Throws Error(unsupported) with all
// reasons if there is none.
NcclApi load_nccl(const NcclSearchPaths& places);

}  // namespace shardproof
