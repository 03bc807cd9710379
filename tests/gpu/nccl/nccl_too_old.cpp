// A library that is NCCL by its name, and too old.
extern "C" int ncclGetVersion(int* version) {
  *version = 21605;
  return 0;
}
