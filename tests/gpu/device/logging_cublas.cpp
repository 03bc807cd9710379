// A fake cuBLASLt library for tests: it has an algorithm for everything, computes nothing, and
// records the preferences that it was given.
#include <cstdint>
#include <cstring>
#include <map>

namespace {

std::map<int, uint64_t> preferred;
int computed = -1;
int types[2] = {-1, -1};  // types of the first and of the last matrix

// Layout of cublasLtMatmulHeuristicResult_t.
struct Found {
  uint64_t algorithm[8];
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

int make(void** made) {
  static int thing = 0;
  *made = &thing;
  return 0;
}

}  // namespace

extern "C" {

uint64_t what_was_preferred(int attribute) { return preferred[attribute]; }

int cublasLtCreate(void** handle) { return make(handle); }
int cublasLtDestroy(void*) { return 0; }
// Values of cublasComputeType_t and of cudaDataType_t.
int what_was_computed() { return computed; }
int type_of_the_first_matrix() { return types[0]; }
int type_of_the_last_matrix() { return types[1]; }

int cublasLtMatmulDescCreate(void** desc, int compute, int) {
  computed = compute;
  types[0] = -1;
  return make(desc);
}
int cublasLtMatmulDescDestroy(void*) { return 0; }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** layout, int type, uint64_t, uint64_t, int64_t) {
  if (types[0] == -1) types[0] = type;
  types[1] = type;
  return make(layout);
}
int cublasLtMatrixLayoutDestroy(void*) { return 0; }
int cublasLtMatrixLayoutSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatmulPreferenceCreate(void** preference) { return make(preference); }
int cublasLtMatmulPreferenceDestroy(void*) { return 0; }
int cublasLtMatmulPreferenceSetAttribute(void*, int attribute, const void* value, size_t size) {
  preferred[attribute] = 0;
  std::memcpy(&preferred[attribute], value, size);
  return 0;
}
int cublasLtMatmulAlgoGetHeuristic(void*, void*, void*, void*, void*, void*, void*, int,
                                   Found* found, int* count) {
  *found = {};
  found->algorithm[0] = static_cast<uint64_t>(types[1]);
  *count = 1;
  return 0;
}
// An algorithm is valid only for the types that it was chosen for (7: CUBLAS_STATUS_INVALID_VALUE).
int cublasLtMatmul(void*, void*, const void*, const void*, void*, const void*, void*, const void*,
                   const void*, void*, void*, void*, const uint64_t* algorithm, void*, size_t,
                   void*) {
  return algorithm[0] == static_cast<uint64_t>(types[1]) ? 0 : 7;
}

}  // extern "C"
