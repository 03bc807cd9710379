// NcclApi: the functions of NCCL that are used, as a table. It is filled from the library that the
// machine has when the program runs (load_nccl), never linked, so that one build runs with every
// NCCL since 2.18 and starts on machines that have none. What only newer versions have is null
// where it is absent. Types are NCCL's own by layout (match_nccl_header.cpp proves it where nccl.h
// is at hand); results are ncclResult_t as int.
#pragma once

#include <climits>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardproof {

struct NcclCommunicator;  // NCCL's own
using NcclComm = NcclCommunicator*;
struct NcclWindowHandle;
using NcclWindow = NcclWindowHandle*;
using NcclStream = void*;  // cudaStream_t

struct NcclId {
  char bytes[128];
};

namespace nccl {
inline constexpr int kSuccess = 0, kInvalidArgument = 4, kInvalidUsage = 5, kInProgress = 7;
inline constexpr int kNoColor = -1;  // of comm_split
inline constexpr int kUndefined = INT_MIN;
enum Type { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3, f8e5m2 };
enum Op { sum, prod, max, min, avg, kOps };
inline constexpr int kHostScalar = 1;  // of premul_sum
inline constexpr int kSymmetric = 1;   // of window_register
}  // namespace nccl

// ncclConfig_t as it was in 2.18; newer versions take it by its size and version.
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
  int traffic_class = nccl::kUndefined;  // padding then; NCCL 2.26 reads it whatever the version
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
  std::string path;  // of the library
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

  // Of newer versions.
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

// "2.28.9"
std::string nccl_version_text(int version);

// Where the library is looked for: `library` alone when it is given; else by the system's own
// search for its name, then in `folders`.
struct NcclSearchPaths {
  std::string library;
  std::vector<std::string> folders;
  std::string name = "libnccl.so.2";
};
// The first that is new enough and has all that is needed. Throws Error(unsupported) with the
// reasons when there is none.
NcclApi load_nccl(const NcclSearchPaths& places);

}  // namespace shardproof
