// CudaApi: the functions of the CUDA runtime that this program uses, as a table of values, so that
// tests can pass in a simulated device. Each returns CUDA's status: 0 is success, `error_text`
// explains other values. Streams and events are CUDA's handles (cudaStream_t, cudaEvent_t).
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
struct MatrixCopy;                     // localtensor/tensor/device_memory.h

struct CudaDeviceFacts {
  std::string name;
  int64_t bytes = 0;
  int major = 0, minor = 0;  // compute capability
};

enum class CudaCopy { to_device, to_host, on_device };

struct CudaApi {
  std::string absent = "this program has no CUDA";  // reason; empty: all functions below are set
  int oldest_capability = 0;  // 10 * major + minor that the kernels of this build require

  std::function<int(int*)> driver_version, runtime_version;  // 1000 * major + 10 * minor; 0: none
  std::function<int(int*)> device_count;
  std::function<int(int ordinal, CudaDeviceFacts*)> device_facts;
  std::function<int(int ordinal)> set_device;
  std::function<std::string(int status)> error_text;
  std::function<int()> last_error;  // error of the last launch; clears it

  // Memory comes from the device's default pool, which keeps up to `bytes` of freed memory.
  std::function<int(int ordinal, uint64_t bytes)> keep_in_pool;
  std::function<int(int ordinal)> trim_pool;  // returns all freed memory to the driver
  std::function<int(void** memory, size_t bytes, void* stream)> allocate;
  std::function<int(void* memory, void* stream)> release;
  // Copies between pageable host memory and the device. Host memory is read before the call returns
  // and written before the stream is synchronized. May block until the stream reaches the copy.
  std::function<int(void* to, const void* from, size_t bytes, CudaCopy way, void* stream)> copy;
  std::function<int(const MatrixCopy& rows, void* stream)> copy_rows;  // on the device
  std::function<int(void* to, size_t bytes, void* stream)> clear;      // writes bytes of 0

  std::function<int(void** stream)> make_stream;
  std::function<int(void*stream)> drop_stream, synchronize_stream;
  std::function<int(void* stream, void* event)> wait_event;
  std::function<int(void** event)> make_event;  // with timing
  std::function<int(void* event)> drop_event;
  std::function<int(void* event, void* stream)> record_event;
  std::function<int(void* event, bool* reached)> query_event;
  std::function<int(float* milliseconds, void* from, void* to)> elapsed;

  // CUDA graphs (cudaGraphExec_t). begin_capture: work for this stream, and for streams that wait
  // for its events, is recorded from now on and does not run. end_capture: returns the recorded
  // work as an executable graph.
  std::function<int(void* stream)> begin_capture;
  std::function<int(void* stream, void** graph)> end_capture;
  std::function<int(void* graph, void* stream)> launch_graph;
  std::function<int(void* graph)> drop_graph;

  // Opens the library for matrix products. If it is not set or returns null, there is none.
  std::function<std::shared_ptr<Gemm>(MatmulPrecision)> open_gemm;
  MatmulPrecision matmul{};  // precision to open it with
};

// Returns the table of the CUDA runtime. `folders` are searched for cuBLASLt after the folders of
// the system and of the CUDA toolkit.
CudaApi runtime_cuda_api(const std::vector<std::string>& folders = {});

}  // namespace shardproof
