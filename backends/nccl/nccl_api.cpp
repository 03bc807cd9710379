// Implements load_nccl of nccl_api.h with dlopen.
#include <dlfcn.h>

#include <fmt/format.h>

#include "shardproof/backends/nccl/nccl_api.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kOldestVersion = 21800;  // ncclCommSplit

// A library is never closed: its threads may still run.
class NcclLibrary {
 public:
  explicit NcclLibrary(const std::string& path) : handle_(::dlopen(path.c_str(), RTLD_NOW)) {
    if (handle_ == nullptr)
      if (const char* const text = ::dlerror()) error_ = text;
  }
  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }

  // Sets null if the library lacks the function.
  template <typename Function>
  void find(Function& function, const char* name) const {
    function = reinterpret_cast<Function>(::dlsym(handle_, name));
  }
  template <typename Function>
  void need(Function& function, const char* name) {
    find(function, name);
    if (function == nullptr && missing_.empty()) missing_ = name;
  }
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string error_, missing_;
};

void find_needed(NcclLibrary& library, NcclApi& api) {
  library.need(api.get_unique_id, "ncclGetUniqueId");
  library.need(api.comm_init, "ncclCommInitRankConfig");
  library.need(api.comm_split, "ncclCommSplit");
  library.need(api.comm_finalize, "ncclCommFinalize");
  library.need(api.comm_destroy, "ncclCommDestroy");
  library.need(api.comm_abort, "ncclCommAbort");
  library.need(api.async_error, "ncclCommGetAsyncError");
  library.need(api.error_text, "ncclGetErrorString");
  library.need(api.last_error, "ncclGetLastError");
  library.need(api.group_start, "ncclGroupStart");
  library.need(api.group_end, "ncclGroupEnd");
  library.need(api.all_reduce, "ncclAllReduce");
  library.need(api.reduce, "ncclReduce");
  library.need(api.reduce_scatter, "ncclReduceScatter");
  library.need(api.all_gather, "ncclAllGather");
  library.need(api.broadcast, "ncclBroadcast");
  library.need(api.send, "ncclSend");
  library.need(api.recv, "ncclRecv");
  library.need(api.premul_sum, "ncclRedOpCreatePreMulSum");
  library.need(api.op_destroy, "ncclRedOpDestroy");
}

void find_newer(const NcclLibrary& library, NcclApi& api) {
  library.find(api.group_simulate_end, "ncclGroupSimulateEnd");
  library.find(api.mem_alloc, "ncclMemAlloc");
  library.find(api.mem_free, "ncclMemFree");
  library.find(api.window_register, "ncclCommWindowRegister");
  library.find(api.window_deregister, "ncclCommWindowDeregister");
  library.find(api.put_signal, "ncclPutSignal");
  library.find(api.signal, "ncclSignal");
  library.find(api.wait_signal, "ncclWaitSignal");
}

NcclApi table_of(NcclLibrary& library, const std::string& path) {
  NcclApi api;
  api.path = path;
  library.find(api.get_version, "ncclGetVersion");
  if (api.get_version == nullptr || api.get_version(&api.version) != nccl::kSuccess)
    throw Error(ErrorKind::unsupported, fmt::format("{} is not an NCCL library", path));
  if (api.version < kOldestVersion)
    throw Error(ErrorKind::unsupported,
                fmt::format("{} is NCCL {}; {} or newer is needed", path,
                            nccl_version_text(api.version), nccl_version_text(kOldestVersion)));
  find_needed(library, api);
  if (!library.missing().empty())
    throw Error(ErrorKind::unsupported,
                fmt::format("{} (NCCL {}) has no {}", path, nccl_version_text(api.version),
                            library.missing()));
  find_newer(library, api);
  return api;
}

}  // namespace

std::string nccl_version_text(int version) {
  // Versions before 2.9 have a minor number of two digits less.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version / 100 % 10 : version / 100 % 100;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

NcclApi load_nccl(const NcclSearchPaths& places) {
  if (!places.library.empty()) {
    NcclLibrary given(places.library);
    if (given) return table_of(given, places.library);
    throw Error(ErrorKind::unsupported, fmt::format("NCCL was not opened: {}", given.error()));
  }
  std::vector<std::string> paths{places.name};
  for (const std::string& folder : places.folders) paths.push_back(folder + "/" + places.name);
  std::vector<std::string> refused;
  for (const std::string& path : paths) {
    NcclLibrary found(path);
    if (!found) continue;
    try {
      return table_of(found, path);
    } catch (const Error& error) {
      refused.push_back(error.message());
    }
  }
  if (!refused.empty())
    throw Error(ErrorKind::unsupported, fmt::format("{}", fmt::join(refused, "; ")));
  throw Error(ErrorKind::unsupported,
              fmt::format("NCCL was not found ({}); install nvidia-nccl-cu13 with pip, or name the "
                          "library by --nccl-library",
                          places.name));
}

}  // namespace shardproof
