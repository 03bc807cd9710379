#include <sched.h>

#include "shardproof/backends/nccl/detail/put_window.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

// NCCL has one signal for each pair of ranks so far, and nothing to say about it.
constexpr int kSignal = 0, kContext = 0;
constexpr unsigned kFlags = 0;

bool is_refusal(int code) { return code == nccl::kInvalidArgument || code == nccl::kInvalidUsage; }

}  // namespace

PutWindow::PutWindow(NcclSession& session, std::shared_ptr<Device> device, int64_t bytes)
    : session_(session), device_(std::move(device)), bytes_(bytes) {
  const NcclApi& api = session_.api();
  if (api.put_signal == nullptr || api.signal == nullptr || api.wait_signal == nullptr ||
      api.window_register == nullptr || api.mem_alloc == nullptr) {
    trouble_ = nccl_name(api) + " has no ncclPutSignal";
    return;
  }
  comm_ = session_.to_put();
  if (comm_ != nullptr && open() && try_signals()) return;
  if (session_.is_aborted()) trouble_ = session_.trouble();
  close();
  session_.give_up_putting();
  comm_ = nullptr;
}

// The communicator, which ends with the session, has to be there still: the window is its.
PutWindow::~PutWindow() { close(); }

void PutWindow::close() noexcept {
  const NcclApi& api = session_.api();
  if (session_.is_aborted()) return;
  if (window_ != nullptr) api.window_deregister(comm_, window_);
  if (memory_ != nullptr) api.mem_free(memory_);
  window_ = nullptr;
  memory_ = nullptr;
}

bool PutWindow::open() {
  const NcclApi& api = session_.api();
  device_->native_stream();  // the device is this thread's
  if (const int code = api.mem_alloc(&memory_, static_cast<size_t>(2 * bytes_));
      code != nccl::kSuccess)
    throw Error(ErrorKind::limit,
                fmt::format("no {} bytes for a window: {}", 2 * bytes_, api.error_text(code)));
  const int code = api.window_register(comm_, memory_, static_cast<size_t>(2 * bytes_), &window_,
                                       nccl::kSymmetric);
  if (await(code) && window_ != nullptr) return true;
  // It succeeds without a window where peers do not reach each other's memory.
  if (trouble_.empty()) trouble_ = "the GPUs have no symmetric memory";
  return false;
}

// Whether NCCL puts here it says only when asked to; what it refuses, it refuses on all ranks.
bool PutWindow::try_signals() {
  const NcclApi& api = session_.api();
  const int ranks = session_.ranks(), rank = session_.rank();
  NcclStream const stream = device_->native_stream();
  if (!await(api.signal((rank + 1) % ranks, kSignal, kContext, kFlags, comm_, stream)))
    return false;
  NcclSignals from_previous{1, (rank + ranks - 1) % ranks, kSignal, kContext};
  if (!await(api.wait_signal(1, &from_previous, comm_, stream))) return false;
  const int64_t landed = device_->record();
  while (!device_->reached(landed)) {
    if (!await(nccl::kSuccess)) return false;
    ::sched_yield();
  }
  device_->forget(landed);
  return true;
}

bool PutWindow::await(int code) {
  const NcclApi& api = session_.api();
  if (is_refusal(code)) {
    const char* const why = api.last_error(nullptr);
    trouble_ = why != nullptr && *why != 0 ? why : api.error_text(code);
    return false;
  }
  for (;;) {
    switch (session_.look_at({comm_}, code)) {
      case NcclSession::State::ready: return true;
      case NcclSession::State::lost: return false;
      case NcclSession::State::under_way: ::sched_yield();
    }
    code = nccl::kSuccess;
  }
}

int PutWindow::issue(const Exchange& e) {
  const NcclApi& api = session_.api();
  NcclStream const stream = device_->native_stream();
  const int peer = e.team[static_cast<size_t>(e.root)];
  if (e.kind == CollectiveKind::wait_signal) {
    NcclSignals landed{1, peer, kSignal, kContext};
    return api.wait_signal(1, &landed, comm_, stream);
  }
  std::byte* const staged = static_cast<std::byte*>(memory_) + bytes_ + e.offset;
  device_->copy(staged, e.send, e.count);
  return api.put_signal(staged, static_cast<size_t>(e.count), nccl::u8, peer, window_,
                        static_cast<size_t>(e.offset), kSignal, kContext, kFlags, comm_, stream);
}

void PutWindow::take_out(const Exchange& e) {
  if (e.kind == CollectiveKind::wait_signal)
    device_->copy(e.recv, static_cast<std::byte*>(memory_) + e.offset, e.count);
}

}  // namespace shardproof
