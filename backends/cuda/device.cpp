// Implements the opening part of device.h: why a GPU cannot be used, and its selection.
#include "shardproof/backends/cuda/device.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/gemm.h"

namespace shardproof {
namespace {

constexpr int kNoDevice = 100;                 // cudaErrorNoDevice
constexpr int kSystemNotReady = 802;           // cudaErrorSystemNotReady
constexpr uint64_t kPoolBytes = ~uint64_t{0};  // the pool keeps all freed memory

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

std::string capability_text(int capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

std::optional<std::string> why_no_driver(const CudaApi& api) {
  int driver = 0, runtime = 0;
  if (api.driver_version(&driver) != 0 || driver == 0)
    return "no NVIDIA driver on this machine (libcuda.so.1 was not found)";
  api.runtime_version(&runtime);
  // An older driver supports a newer runtime of the same major version.
  if (driver / 1000 < runtime / 1000)
    return fmt::format("the driver is for CUDA {} and this build needs {}", version_text(driver),
                       version_text(runtime / 1000 * 1000));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> why_no_device(const CudaApi& api) {
  if (!api.absent.empty()) return api.absent;
  if (std::optional<std::string> reason = why_no_driver(api)) return reason;
  int count = 0;
  const int status = api.device_count(&count);
  if (status != 0 && status != kNoDevice)
    return fmt::format("CUDA does not start: {}{}", api.error_text(status),
                       status == kSystemNotReady ? " (GPUs that are joined by NVSwitch need the "
                                                   "service nvidia-fabricmanager)"
                                                 : "");
  if (status == kNoDevice || count == 0) return "no GPU is visible";
  return std::nullopt;
}

std::shared_ptr<Device> open_device(const CudaApi& api, int ordinal) {
  const auto refuse = [](const std::string& reason) {
    throw Error(ErrorKind::unsupported, reason);
  };
  if (const std::optional<std::string> reason = why_no_device(api)) refuse(*reason);
  int count = 0;
  api.device_count(&count);
  if (ordinal < 0 || ordinal >= count)
    refuse(fmt::format("GPU {} is not visible: {} are", ordinal, count));
  CudaDeviceFacts facts;
  int status = api.device_facts(ordinal, &facts);
  const int capability = 10 * facts.major + facts.minor;
  if (status == 0 && capability < api.oldest_capability)
    refuse(fmt::format("{} has compute capability {} and this build needs {}", facts.name,
                       capability_text(capability), capability_text(api.oldest_capability)));
  if (status == 0) status = api.set_device(ordinal);
  if (status == 0) status = api.keep_in_pool(ordinal, kPoolBytes);
  if (status != 0)
    refuse(fmt::format("GPU {} cannot be used: {}", ordinal, api.error_text(status)));
  return std::make_shared<Device>(api, ordinal, std::move(facts));
}

Gemm* Device::gemm() {
  if (gemm_ == nullptr && api_.open_gemm) {
    select();
    gemm_ = api_.open_gemm(api_.matmul);
  }
  return gemm_.get();
}

}  // namespace shardproof
