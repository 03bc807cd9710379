// Implements cuda_api.h with the CUDA runtime, which is linked statically. The runtime opens
// libcuda.so.1 on its first call and returns an error status if there is none.
#include <cuda_runtime_api.h>

#include "shardproof/backends/cuda/cublas.h"
#include "shardproof/backends/cuda/cuda_api.h"
#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {
namespace {

cudaStream_t stream_of(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t event_of(void* event) { return static_cast<cudaEvent_t>(event); }

int device_facts(int ordinal, CudaDeviceFacts* facts) {
  cudaDeviceProp properties{};
  const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);
  if (status != cudaSuccess) return status;
  facts->name = properties.name;
  facts->bytes = static_cast<int64_t>(properties.totalGlobalMem);
  facts->major = properties.major;
  facts->minor = properties.minor;
  return cudaSuccess;
}

int keep_in_pool(int ordinal, uint64_t bytes) {
  cudaMemPool_t pool = nullptr;
  const cudaError_t status = cudaDeviceGetDefaultMemPool(&pool, ordinal);
  if (status != cudaSuccess) return status;
  // Without this, the pool would make a stream wait for another one whose memory it reuses. An
  // error here is cleared, so that the next launch does not report it.
  int no = 0;
  if (cudaMemPoolSetAttribute(pool, cudaMemPoolReuseAllowInternalDependencies, &no) != cudaSuccess)
    cudaGetLastError();
  return cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &bytes);
}

int trim_pool(int ordinal) {
  cudaMemPool_t pool = nullptr;
  const cudaError_t status = cudaDeviceGetDefaultMemPool(&pool, ordinal);
  return status == cudaSuccess ? cudaMemPoolTrimTo(pool, 0) : status;
}

int copy(void* to, const void* from, size_t bytes, CudaCopy way, void* stream) {
  cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  if (way == CudaCopy::to_device) kind = cudaMemcpyHostToDevice;
  if (way == CudaCopy::to_host) kind = cudaMemcpyDeviceToHost;
  return cudaMemcpyAsync(to, from, bytes, kind, stream_of(stream));
}

int copy_rows(const MatrixCopy& rows, void* stream) {
  return cudaMemcpy2DAsync(rows.to, static_cast<size_t>(rows.to_pitch), rows.from,
                           static_cast<size_t>(rows.from_pitch), static_cast<size_t>(rows.width),
                           static_cast<size_t>(rows.rows), cudaMemcpyDeviceToDevice,
                           stream_of(stream));
}

int make_stream(void** stream) {
  cudaStream_t made = nullptr;
  const cudaError_t status = cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
  *stream = made;
  return status;
}

int make_event(void** event) {
  cudaEvent_t made = nullptr;
  const cudaError_t status = cudaEventCreate(&made);
  *event = made;
  return status;
}

int query_event(void* event, bool* reached) {
  const cudaError_t status = cudaEventQuery(event_of(event));
  *reached = status == cudaSuccess;
  if (status != cudaErrorNotReady) return status;
  // cudaErrorNotReady is no error here. It is cleared so that the next launch does not report it.
  if (cudaPeekAtLastError() == cudaErrorNotReady) cudaGetLastError();
  return cudaSuccess;
}

cudaGraphExec_t graph_of(void* graph) { return static_cast<cudaGraphExec_t>(graph); }

int end_capture(void* stream, void** graph) {
  cudaGraph_t recorded = nullptr;
  cudaError_t status = cudaStreamEndCapture(stream_of(stream), &recorded);
  if (status != cudaSuccess) return status;
  cudaGraphExec_t executable = nullptr;
  status = cudaGraphInstantiateWithFlags(&executable, recorded, 0);
  cudaGraphDestroy(recorded);
  *graph = executable;
  return status;
}

void fill_graphs(CudaApi& api) {
  // Relaxed: memory may be allocated meanwhile in a stream that is not recorded.
  api.begin_capture = [](void* stream) -> int {
    return cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeRelaxed);
  };
  api.end_capture = end_capture;
  api.launch_graph = [](void* graph, void* stream) -> int {
    return cudaGraphLaunch(graph_of(graph), stream_of(stream));
  };
  api.drop_graph = [](void* graph) -> int { return cudaGraphExecDestroy(graph_of(graph)); };
}

void fill_streams(CudaApi& api) {
  api.make_stream = make_stream;
  api.drop_stream = [](void* stream) -> int { return cudaStreamDestroy(stream_of(stream)); };
  api.synchronize_stream = [](void* stream) -> int {
    return cudaStreamSynchronize(stream_of(stream));
  };
  api.wait_event = [](void* stream, void* event) -> int {
    return cudaStreamWaitEvent(stream_of(stream), event_of(event), 0);
  };
  api.make_event = make_event;
  api.drop_event = [](void* event) -> int { return cudaEventDestroy(event_of(event)); };
  api.record_event = [](void* event, void* stream) -> int {
    return cudaEventRecord(event_of(event), stream_of(stream));
  };
  api.query_event = query_event;
  api.elapsed = [](float* milliseconds, void* from, void* to) -> int {
    return cudaEventElapsedTime(milliseconds, event_of(from), event_of(to));
  };
}

}  // namespace

CudaApi runtime_cuda_api(const std::vector<std::string>& folders) {
  CudaApi api;
  api.absent.clear();
  api.oldest_capability = SHARDPROOF_OLDEST_CAPABILITY;
  api.driver_version = [](int* version) -> int { return cudaDriverGetVersion(version); };
  api.runtime_version = [](int* version) -> int { return cudaRuntimeGetVersion(version); };
  api.device_count = [](int* count) -> int { return cudaGetDeviceCount(count); };
  api.device_facts = device_facts;
  api.set_device = [](int ordinal) -> int { return cudaSetDevice(ordinal); };
  api.error_text = [](int status) -> std::string {
    return cudaGetErrorString(static_cast<cudaError_t>(status));
  };
  api.last_error = []() -> int { return cudaGetLastError(); };
  api.keep_in_pool = keep_in_pool;
  api.trim_pool = trim_pool;
  api.allocate = [](void** memory, size_t bytes, void* stream) -> int {
    return cudaMallocAsync(memory, bytes, stream_of(stream));
  };
  api.release = [](void* memory, void* stream) -> int {
    return cudaFreeAsync(memory, stream_of(stream));
  };
  api.copy = copy;
  api.copy_rows = copy_rows;
  api.clear = [](void* to, size_t bytes, void* stream) -> int {
    return cudaMemsetAsync(to, 0, bytes, stream_of(stream));
  };
  fill_streams(api);
  fill_graphs(api);
  api.open_gemm = [paths = cublas_paths(folders)](MatmulPrecision precision) {
    return open_cublas(paths, precision);
  };
  return api;
}

}  // namespace shardproof
