// A library in cuBLASLt's place: it has an algorithm for everything, computes nothing, and keeps
// what it was asked to prefer.
#include <cstdint>
#include <cstring>
#include <map>

namespace {

std::map<int, uint64_t> preferred;

// cublasLtMatmulHeuristicResult_t.
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
int cublasLtMatmulDescCreate(void** desc, int, int) { return make(desc); }
int cublasLtMatmulDescDestroy(void*) { return 0; }
int cublasLtMatmulDescSetAttribute(void*, int, const void*, size_t) { return 0; }
int cublasLtMatrixLayoutCreate(void** layout, int, uint64_t, uint64_t, int64_t) {
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
  *count = 1;
  return 0;
}
int cublasLtMatmul(...) { return 0; }

}  // extern "C"
