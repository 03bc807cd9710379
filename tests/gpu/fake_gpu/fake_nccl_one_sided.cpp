// Implements the fake NCCL's windows, puts and signals. A put becomes visible when its target waits
// for a signal: as late as NCCL allows.
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_state.h"

namespace shardproof::fake_gpu {
namespace {

// The header of a put on the wire; a signal without a put has no bytes.
struct PutHead {
  int64_t window = 0, offset = 0, bytes = 0;
};

int mem_alloc(void** memory, size_t bytes) {
  void* stream = nullptr;
  if (state().options.no_window_memory) return 1;
  const CudaApi& cuda = state().options.memory;
  cuda.make_stream(&stream);
  const int code = cuda.allocate(memory, bytes, stream);
  cuda.drop_stream(stream);
  return code == 0 ? nccl::kSuccess : 1;
}

int mem_free(void* memory) {
  void* stream = nullptr;
  const CudaApi& cuda = state().options.memory;
  cuda.make_stream(&stream);
  cuda.release(memory, stream);
  cuda.drop_stream(stream);
  return nccl::kSuccess;
}

// If peers cannot reach each other's memory it returns success and a null window, as NCCL does.
int window_register(NcclComm comm, void* memory, size_t bytes, NcclWindow* window, int flags) {
  *window = nullptr;
  if (const int code = refusal(comm); code != nccl::kSuccess) return code;
  if (memory == nullptr || bytes == 0) return fail(nccl::kInvalidArgument, "invalid pointer");
  if (!state().options.symmetric) return nccl::kSuccess;
  const auto own = static_cast<int64_t>(bytes);
  const std::string size(reinterpret_cast<const char*>(&own), sizeof(own));
  const std::vector<std::string> all = exchange_texts({{comm, size}}).front();
  if (all.empty()) return comm->error = kRemoteError;
  for (const std::string& other : all)
    SP_CHECK(flags != nccl::kSymmetric || other == size, "windows of ranks differ in size");
  if (state().options.no_window == comm->peers->rank())
    return comm->error = fail(kInternalError, "its memory cannot be mapped");
  *window = &comm->windows.emplace_back(NcclWindowHandle{static_cast<std::byte*>(memory), bytes});
  return nccl::kSuccess;
}

int window_deregister(NcclComm comm, NcclWindow window) {
  if (!is_valid(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  window->bytes = 0;
  return nccl::kSuccess;
}

bool lies_in_window(const NcclCommunicator& comm, const void* memory, size_t bytes) {
  const auto* const start = static_cast<const std::byte*>(memory);
  for (const NcclWindowHandle& window : comm.windows)
    if (start >= window.start && start + bytes <= window.start + window.bytes) return true;
  return false;
}

int refuse_signal(NcclComm comm, int index, int context, unsigned flags) {
  if (const int code = refusal(comm); code != nccl::kSuccess) return code;
  // The communicator is unusable afterwards, as in NCCL.
  const auto refuse = [&](const char* why) { return comm->error = fail(4, why); };
  if (comm->windows.empty()) return refuse("host RMA is not supported in this communicator.");
  if (index != 0) return refuse("Signal index is invalid (must be 0)");
  if (context != 0) return refuse("Context is invalid (must be 0)");
  if (flags != 0) return refuse("Flags is invalid (must be 0)");
  return nccl::kSuccess;
}

// Returns a condition: the calls of the communicator before this one have ended.
std::function<bool()> turn_of(NcclComm comm, int64_t turn) {
  return [comm, turn] { return comm->aborted || comm->ended == turn; };
}

NcclCall traced_call(CollectiveKind kind, int peer) {
  NcclCall call;
  call.kind = kind;
  call.peer = peer;
  return call;
}

// A put has ended when all of it was sent.
bool has_ended_or_sent(NcclCommunicator& comm) {
  if (comm.aborted) return true;
  comm.peers->transfer();
  for (int peer = 0; peer < comm.peers->size(); ++peer)
    if (comm.peers->has_exited(peer)) return true;
  return comm.peers->all_sent();
}

int add_put(const PutHead& head, const void* from, int peer, NcclComm comm, NcclStream stream) {
  const auto begin = [=] {
    state().options.enqueue(stream, turn_of(comm, comm->issued++), [=] {
      if (comm->aborted) return true;
      comm->peers->send(peer, &head, sizeof(head));
      comm->peers->send(peer, from, static_cast<size_t>(head.bytes));
      return true;
    });
    state().options.enqueue(
        stream, [=] { return has_ended_or_sent(*comm); }, [=] { return ++comm->ended, true; });
  };
  const CollectiveKind kind = from == nullptr ? CollectiveKind::signal : CollectiveKind::put;
  return add_call({comm, stream, traced_call(kind, peer), begin});
}

int put_signal(const void* from, size_t count, int, int peer, NcclWindow window, size_t offset,
               int index, int context, unsigned flags, NcclComm comm, NcclStream stream) {
  if (const int code = refuse_signal(comm, index, context, flags); code != nccl::kSuccess)
    return code;
  if (window == nullptr || !lies_in_window(*comm, from, count) || offset + count > window->bytes)
    return comm->error = fail(nccl::kInvalidArgument, "srcWinHost is not in a valid window");
  const int64_t number = static_cast<int64_t>(window - &comm->windows.front());
  return add_put({number, static_cast<int64_t>(offset), static_cast<int64_t>(count)}, from, peer,
                 comm, stream);
}

int signal(int peer, int index, int context, unsigned flags, NcclComm comm, NcclStream stream) {
  if (const int code = refuse_signal(comm, index, context, flags); code != nccl::kSuccess)
    return code;
  if (state().options.no_signal == comm->peers->rank())
    return comm->error = fail(kInternalError, "the proxy does not answer");
  return add_put({}, nullptr, peer, comm, stream);
}

// Takes the messages of a peer that have arrived whole.
void receive_messages(NcclCommunicator& comm, int peer) {
  Peers& peers = *comm.peers;
  PutHead head;
  while (peers.received(peer).size() >= sizeof(head)) {
    std::memcpy(&head, peers.received(peer).data(), sizeof(head));
    const size_t all = sizeof(head) + static_cast<size_t>(head.bytes);
    if (peers.received(peer).size() < all) return;
    comm.arrived[peer].push_back(peers.read(peer, all));
  }
}

bool has_arrived(NcclCommunicator& comm, const std::vector<NcclSignals>& awaited) {
  comm.peers->transfer();
  for (int peer = 0; peer < comm.peers->size(); ++peer)
    if (peer != comm.peers->rank()) receive_messages(comm, peer);
  bool all = true;
  for (const NcclSignals& one : awaited) {
    if (comm.arrived[one.peer].size() >= static_cast<size_t>(one.count)) continue;
    if (comm.peers->has_exited(one.peer)) comm.error = kRemoteError;
    all = false;
  }
  return all;
}

// Writes everything that has arrived to the windows, whether it is waited for or not.
void write_to_windows(NcclCommunicator& comm) {
  for (auto& [peer, all] : comm.arrived)
    for (std::string& arrived : all) {
      PutHead head;
      std::memcpy(&head, arrived.data(), sizeof(head));
      if (arrived.size() == sizeof(head)) continue;
      std::memcpy(comm.windows[static_cast<size_t>(head.window)].start + head.offset,
                  arrived.data() + sizeof(head), static_cast<size_t>(head.bytes));
      arrived.resize(sizeof(head));
    }
}

void consume_signals(NcclCommunicator& comm, const NcclSignals& awaited) {
  std::deque<std::string>& arrived = comm.arrived[awaited.peer];
  arrived.erase(arrived.begin(), arrived.begin() + awaited.count);
}

int wait_signal(int count, NcclSignals* signals, NcclComm comm, NcclStream stream) {
  if (count < 1 || signals == nullptr)
    return fail(nccl::kInvalidArgument, "ncclWaitSignal: invalid arguments");
  const std::vector<NcclSignals> awaited(signals, signals + count);
  for (const NcclSignals& one : awaited)
    if (const int code = refuse_signal(comm, one.index, one.context, 0); code != nccl::kSuccess)
      return code;
  const auto begin = [=] {
    const auto turn = turn_of(comm, comm->issued++);
    ++comm->signal_waits;
    const auto until = [=] { return turn() && (comm->aborted || has_arrived(*comm, awaited)); };
    state().options.enqueue(stream, until, [=] {
      --comm->signal_waits;
      ++comm->ended;
      if (comm->aborted) return true;
      write_to_windows(*comm);
      for (const NcclSignals& one : awaited) consume_signals(*comm, one);
      return true;
    });
  };
  return add_call(
      {comm, stream, traced_call(CollectiveKind::wait_signal, awaited.front().peer), begin});
}

}  // namespace

void add_one_sided_calls(NcclApi& api) {
  api.mem_alloc = mem_alloc;
  api.mem_free = mem_free;
  api.window_register = window_register;
  api.window_deregister = window_deregister;
  api.put_signal = put_signal;
  api.signal = signal;
  api.wait_signal = wait_signal;
}

}  // namespace shardproof::fake_gpu
