// Implements the communicators of the fake NCCL: how they connect, are split and end. Those of one
// thread are made and split in one group, as NCCL requires.
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_state.h"

namespace shardproof::fake_gpu {

using std::chrono::milliseconds;

std::vector<NcclComm> siblings_of(NcclComm comm) {
  std::vector<NcclComm> siblings;
  for (const auto& one : state().comms)
    if (one.get() != comm && !one->aborted && one->name == comm->name)
      siblings.push_back(one.get());
  return siblings;
}

namespace {

// Polls; true if all others have sent as much as this one, nullopt if one of them has exited.
std::optional<bool> has_received_all(const TextToSend& sent) {
  Peers& peers = *sent.comm->peers;
  peers.transfer();
  bool all = peers.all_sent();
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank()) continue;
    const bool received = peers.received(peer).size() >= sent.own.size();
    if (peers.has_exited(peer) && !(received && peers.all_sent())) return std::nullopt;
    all = all && received;
  }
  return all;
}

}  // namespace

std::vector<std::vector<std::string>> exchange_texts(const std::vector<TextToSend>& to_send) {
  for (const TextToSend& sent : to_send)
    for (int peer = 0; peer < sent.comm->peers->size(); ++peer)
      if (peer != sent.comm->peers->rank())
        sent.comm->peers->send(peer, sent.own.data(), sent.own.size());
  std::vector<bool> exited(to_send.size(), false);
  for (bool all = false; !all; std::this_thread::sleep_for(std::chrono::microseconds(50))) {
    all = true;
    for (size_t i = 0; i < to_send.size(); ++i) {
      const std::optional<bool> received = has_received_all(to_send[i]);
      exited[i] = exited[i] || !received;
      all = all && (exited[i] || *received);
    }
  }
  std::vector<std::vector<std::string>> texts(to_send.size());
  for (size_t i = 0; i < to_send.size(); ++i) {
    Peers& peers = *to_send[i].comm->peers;
    for (int peer = 0; peer < peers.size() && !exited[i]; ++peer)
      texts[i].push_back(peer == peers.rank() ? to_send[i].own
                                              : peers.read(peer, to_send[i].own.size()));
  }
  return texts;
}

// Connects all communicators of one thread at once.
void progress(NcclCommunicator& comm) {
  if (comm.connected) return;
  for (NcclComm sibling : siblings_of(&comm))
    if (!sibling->connected) sibling->connected = sibling->peers->connect();
  comm.connected = comm.peers->connect();
}

int refuse_one_by_one() {
  return fail(nccl::kInvalidUsage,
              "communicators of one thread that are used one by one wait for each other");
}

namespace {

int get_version(int* version) {
  *version = state().options.version;
  return nccl::kSuccess;
}

int get_unique_id(NcclId* id) {
  std::random_device random;
  const std::string name = fmt::format("sp-fake-nccl-{:08x}{:08x}", random(), random());
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->bytes, name.data(), name.size());
  return nccl::kSuccess;
}

// Returns the device that the driver has selected for this thread.
int selected_device() {
  void* stream = nullptr;
  const CudaApi& cuda = state().options.memory;
  cuda.make_stream(&stream);
  const int device = FakeGpu::device_of(stream);
  cuda.drop_stream(stream);
  return device;
}

NcclComm make(const std::string& name, int rank, int ranks, bool blocking) {
  auto comm = std::make_unique<NcclCommunicator>();
  comm->name = name;
  comm->peers = std::make_unique<Peers>(name, rank, ranks);
  comm->blocking = state().options.blocking.value_or(blocking);
  comm->random.seed(static_cast<uint64_t>(rank) + 1);
  return state().comms.emplace_back(std::move(comm)).get();
}

// Blocking ones wait until all of a group are made.
void connect(const std::vector<NcclComm>& made) {
  for (const NcclComm comm : made)
    while (comm->blocking && !comm->connected) {
      progress(*comm);
      std::this_thread::sleep_for(milliseconds(1));
    }
}

int comm_init(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return fail(nccl::kInvalidArgument, "Invalid rank requested");
  if (config->magic != 0xcafebeef) return fail(nccl::kInvalidArgument, "no ncclConfig_t");
  const bool blocking = config->blocking == 1;
  *comm = make(std::string(id.bytes, ::strnlen(id.bytes, sizeof(id.bytes))), rank, ranks, blocking);
  (*comm)->device = selected_device();
  connect({*comm});
  for (const NcclComm sibling : siblings_of(*comm)) {
    if (open_group().depth == 0) return refuse_one_by_one();
    if (sibling->device == (*comm)->device)
      return fail(nccl::kInvalidUsage, "Duplicate GPU detected");
    // NCCL does not detect this: its first call would hang.
    if (state().options.launches_block)
      return fail(nccl::kInvalidUsage, "launches of one thread wait for each other");
    // NCCL does not detect this: its kernels would fail.
    if (state().options.reads_directly)
      return fail(nccl::kInvalidUsage, "an illegal memory access was encountered");
  }
  return (*comm)->blocking ? nccl::kSuccess : nccl::kInProgress;
}

// Stores the new communicator at once only if the parent is blocking.
void set_child(NcclComm parent, NcclComm made, NcclComm* child) {
  if (parent->blocking)
    *child = made;
  else
    parent->pending_split = {made, child, 1 + static_cast<int>(parent->random() % 3)};
}

// All ranks exchange their color and key, then each color connects.
int split_all(const std::vector<OpenGroup::Split>& splits) {
  std::vector<TextToSend> to_send;
  for (const OpenGroup::Split& split : splits) {
    const int64_t own[2] = {split.color, split.key};
    to_send.push_back({split.parent, {reinterpret_cast<const char*>(own), sizeof(own)}});
  }
  const std::vector<std::vector<std::string>> texts = exchange_texts(to_send);
  std::vector<NcclComm> all;
  for (size_t i = 0; i < splits.size(); ++i) {
    const auto& [parent, color, key, child, blocking] = splits[i];
    if (texts[i].empty()) {
      parent->error = fail(kRemoteError, "a peer has exited");
      return parent->blocking ? parent->error : nccl::kSuccess;
    }
    std::vector<std::pair<int64_t, int>> members;  // (key, rank)
    for (size_t peer = 0; peer < texts[i].size(); ++peer) {
      int64_t other[2];
      std::memcpy(other, texts[i][peer].data(), sizeof(other));
      if (color >= 0 && other[0] == color) members.emplace_back(other[1], static_cast<int>(peer));
    }
    const int number = parent->children++;
    if (color < 0) {
      set_child(parent, nullptr, child);
      continue;
    }
    std::sort(members.begin(), members.end());
    int rank = 0;
    while (members[static_cast<size_t>(rank)].second != parent->peers->rank()) ++rank;
    const NcclComm made = make(fmt::format("{}.{}.{}", parent->name, number, color), rank,
                               static_cast<int>(members.size()), blocking);
    made->device = parent->device;
    all.push_back(made);
    set_child(parent, made, child);
  }
  connect(all);
  return nccl::kSuccess;
}

int comm_split(NcclComm parent, int color, int key, NcclComm* child, NcclConfig* config) {
  if (const int code = refusal(parent); code != nccl::kSuccess) return code;
  SP_CHECK(parent->issued == parent->ended, "a communicator is split with calls under way on it");
  *child = nullptr;
  const bool blocking = config != nullptr ? config->blocking == 1 : parent->blocking;
  const OpenGroup::Split split{parent, color, key, child, blocking};
  if (open_group().depth > 0) {
    open_group().splits.push_back(split);
    return nccl::kSuccess;
  }
  return siblings_of(parent).empty() ? split_all({split}) : refuse_one_by_one();
}

int comm_finalize(NcclComm comm) {
  return is_valid(comm) ? nccl::kSuccess : fail(nccl::kInvalidArgument, "comm is not valid");
}

bool has_calls(const NcclCommunicator& comm) { return !comm.aborted && comm.issued != comm.ended; }

// NCCL waits for the communicator's calls in streams. They may be behind calls of another one that
// is not aborted yet, and then never end.
bool may_hang(NcclComm comm) {
  if (open_group().depth > 0 || !has_calls(*comm)) return false;
  for (const auto& one : state().comms)
    if (one.get() != comm && has_calls(*one)) return true;
  return false;
}

// Ends what is in progress. A stream that waits for a signal is not ended, and NCCL waits for it.
int comm_abort(NcclComm comm) {
  if (!is_valid(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (may_hang(comm))
    return fail(nccl::kInvalidUsage,
                "communicators with calls in streams that are aborted one by one wait for each "
                "other");
  while (comm->signal_waits > 0) std::this_thread::sleep_for(milliseconds(1));
  comm->aborted = true;
  return nccl::kSuccess;
}

int comm_destroy(NcclComm comm) {
  if (!is_valid(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  comm->aborted = true;
  comm->peers.reset();
  return nccl::kSuccess;
}

}  // namespace

// Ends a group of ncclCommSplit calls. Refuses it unless it splits all sibling communicators of
// this thread.
int end_splits(const std::vector<OpenGroup::Split>& splits) {
  for (const OpenGroup::Split& split : splits)
    for (const NcclComm sibling : siblings_of(split.parent))
      if (std::none_of(splits.begin(), splits.end(),
                       [&](const auto& other) { return other.parent == sibling; }))
        return refuse_one_by_one();
  const int code = split_all(splits);
  const bool in_progress = !splits.front().parent->blocking;
  return code == nccl::kSuccess && in_progress ? nccl::kInProgress : code;
}

void add_communicators(NcclApi& api) {
  api.get_version = get_version;
  api.get_unique_id = get_unique_id;
  api.comm_init = comm_init;
  api.comm_split = comm_split;
  api.comm_finalize = comm_finalize;
  api.comm_destroy = comm_destroy;
  api.comm_abort = comm_abort;
}

}  // namespace shardproof::fake_gpu
