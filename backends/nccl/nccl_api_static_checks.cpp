// Checks nccl_api.h against <nccl.h>, where that is installed: values, layouts and arguments.
#include <nccl.h>

#include <cstddef>
#include <type_traits>

#include "shardproof/backends/nccl/nccl_api.h"

namespace shardproof {
namespace {

static_assert(sizeof(NcclId) == sizeof(ncclUniqueId));
static_assert(nccl::kSuccess == ncclSuccess && nccl::kInvalidArgument == ncclInvalidArgument &&
              nccl::kInvalidUsage == ncclInvalidUsage && nccl::kInProgress == ncclInProgress);
static_assert(nccl::kNoColor == NCCL_SPLIT_NOCOLOR && nccl::kUndefined == NCCL_CONFIG_UNDEF_INT);
static_assert(
    static_cast<int>(nccl::i8) == ncclInt8 && static_cast<int>(nccl::u8) == ncclUint8 &&
    static_cast<int>(nccl::i32) == ncclInt32 && static_cast<int>(nccl::u32) == ncclUint32 &&
    static_cast<int>(nccl::i64) == ncclInt64 && static_cast<int>(nccl::u64) == ncclUint64 &&
    static_cast<int>(nccl::f16) == ncclFloat16 && static_cast<int>(nccl::f32) == ncclFloat32 &&
    static_cast<int>(nccl::f64) == ncclFloat64 && static_cast<int>(nccl::bf16) == ncclBfloat16);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 24, 0)
static_assert(static_cast<int>(nccl::f8e4m3) == ncclFloat8e4m3 &&
              static_cast<int>(nccl::f8e5m2) == ncclFloat8e5m2);
#endif
static_assert(static_cast<int>(nccl::sum) == ncclSum && static_cast<int>(nccl::prod) == ncclProd &&
              static_cast<int>(nccl::max) == ncclMax && static_cast<int>(nccl::min) == ncclMin &&
              static_cast<int>(nccl::avg) == ncclAvg && static_cast<int>(nccl::kOps) == ncclNumOps);
static_assert(nccl::kHostScalar == ncclScalarHostImmediate);
static_assert(offsetof(NcclConfig, blocking) == offsetof(ncclConfig_t, blocking) &&
              offsetof(NcclConfig, max_ctas) == offsetof(ncclConfig_t, maxCTAs) &&
              offsetof(NcclConfig, net_name) == offsetof(ncclConfig_t, netName) &&
              offsetof(NcclConfig, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(NcclSimulation) == sizeof(ncclSimInfo_t) &&
              offsetof(NcclSimulation, microseconds) == offsetof(ncclSimInfo_t, estimatedTime));

// True if both functions have the same number of arguments, each of the same size and kind.
template <typename Ours, typename Theirs>
constexpr bool alike() {
  if constexpr (std::is_pointer_v<Ours>)
    return std::is_pointer_v<Theirs>;
  else
    return sizeof(Ours) == sizeof(Theirs) &&
           std::is_floating_point_v<Ours> == std::is_floating_point_v<Theirs> &&
           std::is_class_v<Ours> == std::is_class_v<Theirs>;
}
template <typename Ours, typename Theirs>
constexpr bool kMatch = false;
template <typename R, typename... Ours, typename T, typename... Theirs>
requires(sizeof...(Ours) ==
         sizeof...(Theirs)) constexpr bool kMatch<R (*)(Ours...), T (*)(Theirs...)> =
    alike<R, T>() && (alike<Ours, Theirs>() && ...);

static_assert(kMatch<decltype(NcclApi::get_version), decltype(&ncclGetVersion)>);
static_assert(kMatch<decltype(NcclApi::get_unique_id), decltype(&ncclGetUniqueId)>);
static_assert(kMatch<decltype(NcclApi::comm_init), decltype(&ncclCommInitRankConfig)>);
static_assert(kMatch<decltype(NcclApi::comm_split), decltype(&ncclCommSplit)>);
static_assert(kMatch<decltype(NcclApi::comm_finalize), decltype(&ncclCommFinalize)>);
static_assert(kMatch<decltype(NcclApi::comm_destroy), decltype(&ncclCommDestroy)>);
static_assert(kMatch<decltype(NcclApi::comm_abort), decltype(&ncclCommAbort)>);
static_assert(kMatch<decltype(NcclApi::async_error), decltype(&ncclCommGetAsyncError)>);
static_assert(kMatch<decltype(NcclApi::error_text), decltype(&ncclGetErrorString)>);
static_assert(kMatch<decltype(NcclApi::last_error), decltype(&ncclGetLastError)>);
static_assert(kMatch<decltype(NcclApi::group_start), decltype(&ncclGroupStart)>);
static_assert(kMatch<decltype(NcclApi::group_end), decltype(&ncclGroupEnd)>);
static_assert(kMatch<decltype(NcclApi::all_reduce), decltype(&ncclAllReduce)>);
static_assert(kMatch<decltype(NcclApi::reduce), decltype(&ncclReduce)>);
static_assert(kMatch<decltype(NcclApi::reduce_scatter), decltype(&ncclReduceScatter)>);
static_assert(kMatch<decltype(NcclApi::all_gather), decltype(&ncclAllGather)>);
static_assert(kMatch<decltype(NcclApi::broadcast), decltype(&ncclBroadcast)>);
static_assert(kMatch<decltype(NcclApi::send), decltype(&ncclSend)>);
static_assert(kMatch<decltype(NcclApi::recv), decltype(&ncclRecv)>);
static_assert(kMatch<decltype(NcclApi::premul_sum), decltype(&ncclRedOpCreatePreMulSum)>);
static_assert(kMatch<decltype(NcclApi::op_destroy), decltype(&ncclRedOpDestroy)>);
static_assert(kMatch<decltype(NcclApi::group_simulate_end), decltype(&ncclGroupSimulateEnd)>);
static_assert(kMatch<decltype(NcclApi::mem_alloc), decltype(&ncclMemAlloc)>);
static_assert(kMatch<decltype(NcclApi::mem_free), decltype(&ncclMemFree)>);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 3)
static_assert(nccl::kSymmetric == NCCL_WIN_COLL_SYMMETRIC);
static_assert(kMatch<decltype(NcclApi::window_register), decltype(&ncclCommWindowRegister)>);
static_assert(kMatch<decltype(NcclApi::window_deregister), decltype(&ncclCommWindowDeregister)>);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 29, 2)
static_assert(kMatch<decltype(NcclApi::put_signal), decltype(&ncclPutSignal)>);
static_assert(kMatch<decltype(NcclApi::signal), decltype(&ncclSignal)>);
static_assert(kMatch<decltype(NcclApi::wait_signal), decltype(&ncclWaitSignal)>);
static_assert(sizeof(NcclSignals) == sizeof(ncclWaitSignalDesc_t) &&
              offsetof(NcclSignals, count) == offsetof(ncclWaitSignalDesc_t, opCnt) &&
              offsetof(NcclSignals, peer) == offsetof(ncclWaitSignalDesc_t, peer) &&
              offsetof(NcclSignals, index) == offsetof(ncclWaitSignalDesc_t, sigIdx) &&
              offsetof(NcclSignals, context) == offsetof(ncclWaitSignalDesc_t, ctx));
#endif

}  // namespace
}  // namespace shardproof
