// CudaApi: the few functions of the CUDA runtime that we use, as plain values, so that a test can
// hand in a device of its own. A function gives CUDA's status: 0 is success, what else it means
// says `error_text`. Streams and events are CUDA's own handles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace shardproof {

class Gemm;                            // localtensor/tensor/gemm.h
enum class MatmulPrecision : uint8_t;  // localtensor/dtype/matmul_precision.h

struct CudaDeviceFacts {
  std::string name;
  int64_t bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

enum class CudaCopy { to_device, to_host, on_device };

struct CudaApi {
  std::string absent = "this program has no CUDA";  // else empty, and all below is set
  int oldest_capability = 0;  // 10 * major + minor that the kernels of this build need

  std::function<int(int*)> driver_version, runtime_version;  // 1000 * major + 10 * minor; 0: none
  std::function<int(int*)> device_count;
  std::function<int(int ordinal, CudaDeviceFacts*)> device_facts;
  std::function<int(int ordinal)> set_device;
  std::function<std::string(int status)> error_text;
  std::function<int()> last_error;  // of launches; asking clears it

  // Memory comes from the device's own pool, which keeps `bytes` of what is given back.
  std::function<int(int ordinal, uint64_t bytes)> keep_in_pool;
  std::function<int(int ordinal)> trim_pool;  // keeps nothing of what nobody has now
  std::function<int(void** memory, size_t bytes, void* stream)> allocate;
  std::function<int(void* memory, void* stream)> release;
  // Pageable host memory: read before this returns, written by the time the stream is synchronized.
  // Either may hold the host up until the stream has come to it.
  std::function<int(void* to, const void* from, size_t bytes, CudaCopy way, void* stream)> copy;

  std::function<int(void** stream)> make_stream;
  std::function<int(void*stream)> drop_stream, synchronize_stream;
  std::function<int(void* stream, void* event)> wait_event;
  std::function<int(void** event)> make_event;  // with times
  std::function<int(void* event)> drop_event;
  std::function<int(void* event, void* stream)> record_event;
  std::function<int(void* event, bool* reached)> query_event;
  std::function<int(float* milliseconds, void* from, void* to)> elapsed;

  // Matrix products; not set, or null: there is no library for them.
  std::function<std::shared_ptr<Gemm>(MatmulPrecision)> open_gemm;
  MatmulPrecision matmul{};  // that it is opened with
};

// `folders`: where libraries of CUDA's maker may be beside the system's own.
CudaApi runtime_cuda_api(const std::vector<std::string>& folders = {});

}  // namespace shardproof
