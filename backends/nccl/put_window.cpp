// Implements put_window.h.
//
// Opening has five steps. Split off a communicator. Allocate NCCL memory. Register it as a window.
// Signal the next rank. Wait for the signal of the previous rank. After each step all processes
// exchange their error texts over another communicator, and all stop if one has failed.
#include <sched.h>

#include <chrono>
#include <string>

#include "shardproof/backends/nccl/put_window.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// NCCL has one signal for each pair of ranks, in one context, and no flags.
constexpr int kSignal = 0, kContext = 0;
constexpr unsigned kFlags = 0;

constexpr int kErrorTextStream = -2;      // device stream of error texts; the window has another
constexpr int64_t kErrorTextBytes = 256;  // bytes of one process's error text

}  // namespace

// A step ends only if all processes have done the one before it.
PutWindow::PutWindow(NcclSession& session, std::shared_ptr<Device> device, int64_t bytes)
    : session_(session), device_(std::move(device)), bytes_(bytes) {
  const NcclApi& api = session_.api();
  if (api.put_signal == nullptr || api.signal == nullptr || api.wait_signal == nullptr ||
      api.window_register == nullptr || api.mem_alloc == nullptr) {
    error_ = nccl_name(api) + " has no ncclPutSignal";
    return;
  }
  for (const auto step :
       {&PutWindow::make_communicator, &PutWindow::allocate_window, &PutWindow::register_window,
        &PutWindow::signal_next, &PutWindow::await_signal}) {
    (this->*step)();
    if (!exchange_errors()) break;
  }
  if (error_.empty()) {
    session_.require_put_communicator();
    return;
  }
  // Kernels may wait for peers in this memory until the abort, which also frees the window.
  session_.abort_put_communicator();
  window_ = nullptr;
  close();
  comm_ = nullptr;
}

// Requires that the communicator, to which the window belongs, still exists.
PutWindow::~PutWindow() { close(); }

void PutWindow::close() noexcept {
  const NcclApi& api = session_.api();
  if (session_.is_aborted()) return;
  if (window_ != nullptr) api.window_deregister(comm_, window_);
  if (memory_ != nullptr) api.mem_free(memory_);
  window_ = nullptr;
  memory_ = nullptr;
}

void PutWindow::make_communicator() {
  comm_ = session_.make_put_communicator();
  await(nccl::kSuccess);
}

void PutWindow::allocate_window() {
  const NcclApi& api = session_.api();
  device_->native_stream();  // the device is this thread's
  if (const int code = api.mem_alloc(&memory_, static_cast<size_t>(2 * bytes_));
      code != nccl::kSuccess)
    error_ = fmt::format("no {} bytes for a window: {}", 2 * bytes_, api.error_text(code));
}

void PutWindow::register_window() {
  await(session_.api().window_register(comm_, memory_, static_cast<size_t>(2 * bytes_), &window_,
                                       nccl::kSymmetric));
  // NCCL returns success without a window if peers cannot reach each other's memory.
  if (error_.empty() && window_ == nullptr) error_ = "the GPUs have no symmetric memory";
}

// Only a signal shows whether puts work between these GPUs.
void PutWindow::signal_next() {
  await(session_.api().signal((session_.rank() + 1) % session_.ranks(), kSignal, kContext, kFlags,
                              comm_, device_->native_stream()));
}

void PutWindow::await_signal() {
  const int ranks = session_.ranks(), previous = (session_.rank() + ranks - 1) % ranks;
  NcclSignals from_previous{1, previous, kSignal, kContext};
  await(session_.api().wait_signal(1, &from_previous, comm_, device_->native_stream()));
  const int64_t landed = device_->record();
  const auto limit = std::chrono::steady_clock::now() + kPuttingPatience;
  while (error_.empty() && !device_->event_completed(landed)) {
    await(nccl::kSuccess);
    if (error_.empty() && std::chrono::steady_clock::now() > limit) error_ = kPutHasNoEnd;
    ::sched_yield();
  }
  device_->forget(landed);
}

void PutWindow::await(int code) {
  error_ = comm_ == nullptr ? kPeerLost : session_.await_put_communicator(code);
}

// Waits for the work in the current stream. Returns false if a peer is lost.
bool PutWindow::ends(NcclComm comm, int code) {
  NcclSession::State state = session_.poll_communicators({comm}, code);
  while (state == NcclSession::State::under_way) {
    ::sched_yield();
    state = session_.poll_communicators({comm}, nccl::kSuccess);
  }
  if (state == NcclSession::State::lost) return false;
  const int64_t end = device_->record();
  while (!device_->event_completed(end) && state != NcclSession::State::lost) {
    ::sched_yield();
    state = session_.poll_communicators({comm}, nccl::kSuccess);
  }
  device_->forget(end);
  return state != NcclSession::State::lost;
}

// Exchanges error texts with all processes; all processes then have the first text. Uses the
// communicator of all ranks in a stream that waits for no signal. An earlier step that failed in
// one process has ended in all when this returns.
bool PutWindow::exchange_errors() {
  if (session_.is_aborted()) {
    error_ = kPeerLost;
    return false;
  }
  const NcclApi& api = session_.api();
  const NcclComm world = session_.world(session_.rank());
  const int stream = device_->current();
  device_->use(kErrorTextStream);
  const int64_t bytes = kErrorTextBytes * session_.ranks();
  std::string words(static_cast<size_t>(bytes), '\0');
  error_.copy(words.data(), kErrorTextBytes - 1);
  std::byte* const own = device_->allocate(kErrorTextBytes);
  std::byte* const all = device_->allocate(bytes);
  device_->to_device(own, reinterpret_cast<const std::byte*>(words.data()), kErrorTextBytes);
  const int code =
      api.all_gather(own, all, kErrorTextBytes, nccl::u8, world, device_->native_stream());
  const bool received = ends(world, code);
  if (received) device_->to_host(reinterpret_cast<std::byte*>(words.data()), all, bytes);
  device_->release(own, kErrorTextBytes);
  device_->release(all, bytes);
  device_->use(stream);
  error_ = received ? "" : kPeerLost;
  for (int64_t at = 0; received && error_.empty() && at < bytes; at += kErrorTextBytes)
    error_ = words.data() + at;
  return error_.empty();
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

void PutWindow::copy_out(const Exchange& e) {
  if (e.kind == CollectiveKind::wait_signal)
    device_->copy(e.recv, static_cast<std::byte*>(memory_) + e.offset, e.count);
}

}  // namespace shardproof
