// A library that claims to be an NCCL that is too old.
extern "C" int ncclGetVersion(int* version) {
  *version = 21605;
  return 0;
}
