// Implements cublas.h with cuBLASLt. The library is opened at run time: it is larger than this
// whole program and may be absent. Its header gives the functions their types.
//
// A product: describe the matrices (Product), let cuBLASLt choose an algorithm for this kind of
// call (kept in a map), allocate its workspace, run it.
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shardproof/backends/cuda/cublas.h"
#include "shardproof/localtensor/tensor/device_memory.h"

namespace shardproof {
namespace {

constexpr uint64_t kWorkspaceBytes = uint64_t{32} << 20;  // NVIDIA's advice for Hopper
constexpr uint32_t kMaxAlignment = 256;

DType result_type(const GemmCall& call) { return call.leaves_sums ? call.compute : call.dtype; }

// Partial sums must not be rounded to a narrow type: in-place sums have the type of the result.
uint32_t reduction_schemes(const GemmCall& call) {
  const uint32_t in_place =
      result_type(call) == call.compute ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0;
  return in_place | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

struct CublasApi {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) choose = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
};

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

bool load_functions(CublasApi& api, void* library) {
  return look_up(library, "cublasLtCreate", api.create) &&
         look_up(library, "cublasLtDestroy", api.destroy) &&
         look_up(library, "cublasLtMatmul", api.matmul) &&
         look_up(library, "cublasLtMatmulAlgoGetHeuristic", api.choose) &&
         look_up(library, "cublasLtMatmulDescCreate", api.desc_create) &&
         look_up(library, "cublasLtMatmulDescDestroy", api.desc_destroy) &&
         look_up(library, "cublasLtMatmulDescSetAttribute", api.desc_set) &&
         look_up(library, "cublasLtMatrixLayoutCreate", api.layout_create) &&
         look_up(library, "cublasLtMatrixLayoutDestroy", api.layout_destroy) &&
         look_up(library, "cublasLtMatrixLayoutSetAttribute", api.layout_set) &&
         look_up(library, "cublasLtMatmulPreferenceCreate", api.preference_create) &&
         look_up(library, "cublasLtMatmulPreferenceDestroy", api.preference_destroy) &&
         look_up(library, "cublasLtMatmulPreferenceSetAttribute", api.preference_set);
}

// Opens the library and never closes it: its threads may still run.
std::optional<CublasApi> load_cublas(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    CublasApi api;
    if (library != nullptr && load_functions(api, library)) return api;
  }
  return std::nullopt;
}

std::optional<cudaDataType_t> data_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return CUDA_R_64F;
    case DType::f32: return CUDA_R_32F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f8e4m3: return CUDA_R_8F_E4M3;
    case DType::f8e5m2: return CUDA_R_8F_E5M2;
    default: return std::nullopt;
  }
}

cublasComputeType_t compute_type(const GemmCall& call, MatmulPrecision precision) {
  if (call.compute == DType::f64) return CUBLAS_COMPUTE_64F;
  const bool rounds = precision == MatmulPrecision::high && call.dtype == DType::f32;
  return rounds ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

// Returns the largest alignment, up to 256, that cuBLASLt may assume of an address.
uint32_t alignment_of(const void* address) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address) | kMaxAlignment;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// One call in cuBLASLt's descriptors. `good` until one of its functions returns an error.
class Product {
 public:
  Product(const CublasApi& api, const GemmCall& call, MatmulPrecision precision)
      : api_(api), call_(call) {
    const cudaDataType_t type = *data_type(call.dtype);
    keep(api_.desc_create(&desc_, compute_type(call, precision), *data_type(call.compute)));
    lay_out(a_, type, call.a, call.rows, call.depth, CUBLASLT_MATMUL_DESC_TRANSA);
    lay_out(b_, type, call.b, call.depth, call.columns, CUBLASLT_MATMUL_DESC_TRANSB);
    make_layout(result_, *data_type(result_type(call)), {call.rows, call.columns}, call.leading,
                call.batch_stride);
    if (call.bias != nullptr) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(call.bias));
    }
  }
  Product(const Product&) = delete;
  ~Product() {
    for (cublasLtMatrixLayout_t layout : {a_, b_, result_})
      if (layout != nullptr) api_.layout_destroy(layout);
    if (desc_ != nullptr) api_.desc_destroy(desc_);
  }

  bool good() const { return status_ == CUBLAS_STATUS_SUCCESS; }

  std::optional<cublasLtMatmulHeuristicResult_t> choose(cublasLtHandle_t handle) {
    cublasLtMatmulPreference_t preference = nullptr;
    keep(api_.preference_create(&preference));
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
      if (good()) keep(api_.preference_set(preference, what, &value, sizeof(value)));
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reduction_schemes(call_));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(call_.a.start));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(call_.b.start));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(call_.result));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(call_.result));
    cublasLtMatmulHeuristicResult_t found{};
    int count = 0;
    if (good())
      keep(api_.choose(handle, desc_, a_, b_, result_, result_, preference, 1, &found, &count));
    if (preference != nullptr) api_.preference_destroy(preference);
    if (!good() || count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return std::nullopt;
    return found;
  }

  bool run(cublasLtHandle_t handle, const cublasLtMatmulHeuristicResult_t& how,
           std::byte* workspace, void* stream) {
    const float alpha = static_cast<float>(call_.alpha), zero = 0;
    const double wide_alpha = call_.alpha, wide_zero = 0;
    const bool wide = call_.compute == DType::f64;
    const void* scale = wide ? static_cast<const void*>(&wide_alpha) : &alpha;
    const void* nothing = wide ? static_cast<const void*>(&wide_zero) : &zero;
    keep(api_.matmul(handle, desc_, scale, call_.a.start, a_, call_.b.start, b_, nothing,
                     call_.result, result_, call_.result, result_, &how.algo, workspace,
                     how.workspaceSize, static_cast<cudaStream_t>(stream)));
    return good();
  }

 private:
  struct Shape {
    int64_t rows, columns;
  };
  void keep(cublasStatus_t status) {
    if (good()) status_ = status;
  }
  template <typename Value>
  void set(cublasLtMatmulDescAttributes_t what, Value value) {
    if (good()) keep(api_.desc_set(desc_, what, &value, sizeof(value)));
  }
  void lay_out(cublasLtMatrixLayout_t& layout, cudaDataType_t type, const GemmMatrix& matrix,
               int64_t rows, int64_t columns, cublasLtMatmulDescAttributes_t which) {
    set(which, static_cast<int32_t>(matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
    if (matrix.transposed) std::swap(rows, columns);
    make_layout(layout, type, {rows, columns}, matrix.leading, matrix.batch_stride);
  }
  void make_layout(cublasLtMatrixLayout_t& layout, cudaDataType_t type, const Shape& stored,
                   int64_t leading, int64_t batch_stride) {
    if (good())
      keep(api_.layout_create(&layout, type, static_cast<uint64_t>(stored.rows),
                              static_cast<uint64_t>(stored.columns), leading));
    const int32_t count = static_cast<int32_t>(call_.batch);
    if (count == 1 || !good()) return;
    keep(api_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
    if (good())
      keep(api_.layout_set(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                           sizeof(batch_stride)));
  }

  const CublasApi& api_;
  const GemmCall& call_;
  cublasLtMatmulDesc_t desc_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, result_ = nullptr;
  cublasStatus_t status_ = CUBLAS_STATUS_SUCCESS;
};

class Cublas : public Gemm {
 public:
  Cublas(std::vector<std::string> paths, MatmulPrecision precision)
      : Gemm(precision), paths_(std::move(paths)) {}
  Cublas(const Cublas&) = delete;
  ~Cublas() override {
    if (handle_ != nullptr) api_->destroy(handle_);
  }

  bool open() override {
    if (!std::exchange(searched_, true)) {
      api_ = load_cublas(paths_);
      if (api_ && api_->create(&handle_) != CUBLAS_STATUS_SUCCESS) handle_ = nullptr;
    }
    return handle_ != nullptr;
  }

  bool multiply(const GemmCall& call, DeviceMemory& memory, void* stream) override {
    if (!data_type(call.dtype) || call.batch > INT32_MAX || !open()) return false;
    if (reinterpret_cast<uintptr_t>(call.bias) % kBiasAlignment != 0) return false;
    Product product(*api_, call, precision());
    const Choice& choice = choice_of(call, product);
    if (!choice) return false;
    const int64_t bytes = static_cast<int64_t>(choice->workspaceSize);
    std::byte* const workspace = bytes == 0 ? nullptr : memory.allocate(bytes);
    const bool done = product.run(handle_, *choice, workspace, stream);
    if (workspace != nullptr) memory.release(workspace, bytes);
    return done;
  }

 private:
  using Choice = std::optional<cublasLtMatmulHeuristicResult_t>;
  using Key = std::array<int64_t, 19>;

  // The choice is kept: choosing takes longer than a small product.
  const Choice& choice_of(const GemmCall& c, Product& product) {
    const Key key{c.rows,
                  c.columns,
                  c.depth,
                  c.batch,
                  c.leading,
                  c.batch_stride,
                  c.a.leading,
                  c.a.batch_stride,
                  c.a.transposed,
                  c.b.leading,
                  c.b.batch_stride,
                  c.b.transposed,
                  static_cast<int64_t>(c.dtype),
                  static_cast<int64_t>(c.compute),
                  c.leaves_sums,
                  c.bias != nullptr,
                  alignment_of(c.a.start),
                  alignment_of(c.b.start),
                  alignment_of(c.result)};
    const auto found = choices_.find(key);
    return found != choices_.end() ? found->second
                                   : choices_.emplace(key, product.choose(handle_)).first->second;
  }

  std::vector<std::string> paths_;
  bool searched_ = false;
  std::optional<CublasApi> api_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Key, Choice> choices_;
};

}  // namespace

std::vector<std::string> cublas_paths(const std::vector<std::string>& folders) {
  const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
  std::vector<std::string> paths{name, "/usr/local/cuda/lib64/" + name};
  for (const std::string& folder : folders) paths.push_back(folder + "/" + name);
  return paths;
}

std::shared_ptr<Gemm> open_cublas(const std::vector<std::string>& paths,
                                  MatmulPrecision precision) {
  return std::make_shared<Cublas>(paths, precision);
}

}  // namespace shardproof
