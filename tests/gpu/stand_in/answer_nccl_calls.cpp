// NCCL's functions, answered by the stand-in.
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/gpu/stand_in/nccl_state.h"

namespace shardproof::stand_in {

using std::chrono::milliseconds;

State& state() {
  static State the_state;
  return the_state;
}

int fail(int code, const std::string& text) {
  state().last_error = text;
  return code;
}

bool known(NcclComm comm) {
  for (const auto& one : state().comms)
    if (one.get() == comm) return !one->aborted;
  return false;
}

int refusal(NcclComm comm) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (!comm->connected || comm->launch != nullptr)
    return fail(nccl::kInvalidArgument, "comm is not ready");
  return comm->error;
}

std::vector<std::string> tell_all(NcclCommunicator& comm, const std::string& own) {
  Peers& peers = *comm.peers;
  for (int peer = 0; peer < peers.size(); ++peer)
    if (peer != peers.rank()) peers.send(peer, own.data(), own.size());
  // What the others say may be here already: they still have to hear this.
  peers.pump();
  while (!peers.all_sent()) {
    for (int peer = 0; peer < peers.size(); ++peer)
      if (peers.gone(peer)) return {};
    peers.pump();
  }
  std::vector<std::string> said;
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank()) {
      said.push_back(own);
      continue;
    }
    while (peers.received(peer).size() < own.size()) {
      peers.pump();
      if (peers.gone(peer)) return {};
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    said.push_back(peers.take(peer, own.size()));
  }
  return said;
}

namespace {

DType dtype_of(int type) {
  constexpr DType kTypes[] = {DType::i8,  DType::u8,   DType::i32,    DType::i32,
                              DType::i64, DType::i64,  DType::f16,    DType::f32,
                              DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
  return kTypes[type];
}

// --- communicators

int get_version(int* version) {
  *version = state().options.version;
  return nccl::kSuccess;
}

int get_unique_id(NcclId* id) {
  std::random_device random;
  const std::string name = fmt::format("sp-stand-in-{:08x}{:08x}", random(), random());
  std::memset(id, 0, sizeof(*id));
  std::memcpy(id->bytes, name.data(), name.size());
  return nccl::kSuccess;
}

void progress(NcclCommunicator& comm) {
  if (!comm.connected) comm.connected = comm.peers->connect();
}

NcclComm make(const std::string& name, int rank, int ranks, bool blocking) {
  auto comm = std::make_unique<NcclCommunicator>();
  comm->name = name;
  comm->peers = std::make_unique<Peers>(name, rank, ranks);
  comm->blocking = blocking;
  comm->random.seed(static_cast<uint64_t>(rank) + 1);
  while (blocking && !comm->connected) {
    progress(*comm);
    std::this_thread::sleep_for(milliseconds(1));
  }
  return state().comms.emplace_back(std::move(comm)).get();
}

int comm_init(NcclComm* comm, int ranks, NcclId id, int rank, NcclConfig* config) {
  if (comm == nullptr || ranks < 1 || rank < 0 || rank >= ranks)
    return fail(nccl::kInvalidArgument, "Invalid rank requested");
  if (config->magic != 0xcafebeef) return fail(nccl::kInvalidArgument, "no ncclConfig_t");
  *comm = make(std::string(id.bytes, ::strnlen(id.bytes, sizeof(id.bytes))), rank, ranks,
               config->blocking == 1);
  return config->blocking == 1 ? nccl::kSuccess : nccl::kInProgress;
}

// All ranks say their color and key, then each color connects.
int comm_split(NcclComm parent, int color, int key, NcclComm* child, NcclConfig* config) {
  if (const int code = refusal(parent); code != nccl::kSuccess) return code;
  SP_CHECK(parent->issued == parent->ended, "a communicator is split with calls under way on it");
  const int64_t own[2] = {color, key};
  const std::vector<std::string> all =
      tell_all(*parent, std::string(reinterpret_cast<const char*>(own), sizeof(own)));
  if (all.empty()) return parent->error = 6;
  std::vector<std::pair<int64_t, int>> members;  // key, rank
  for (size_t peer = 0; peer < all.size(); ++peer) {
    int64_t said[2];
    std::memcpy(said, all[peer].data(), sizeof(said));
    if (color >= 0 && said[0] == color) members.emplace_back(said[1], static_cast<int>(peer));
  }
  const int number = parent->children++;
  *child = nullptr;
  if (color < 0) return nccl::kSuccess;
  std::sort(members.begin(), members.end());
  int rank = 0;
  while (members[static_cast<size_t>(rank)].second != parent->peers->rank()) ++rank;
  const bool blocking = config != nullptr ? config->blocking == 1 : parent->blocking;
  *child = make(fmt::format("{}.{}.{}", parent->name, number, color), rank,
                static_cast<int>(members.size()), blocking);
  return blocking ? nccl::kSuccess : nccl::kInProgress;
}

int comm_finalize(NcclComm comm) {
  return known(comm) ? nccl::kSuccess : fail(nccl::kInvalidArgument, "comm is not valid");
}

// What is under way ends at once, and nothing more begins.
int comm_abort(NcclComm comm) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  comm->aborted = true;
  return nccl::kSuccess;
}

int comm_destroy(NcclComm comm) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  comm->aborted = true;
  comm->peers.reset();
  return nccl::kSuccess;
}

// True when its calls are in their streams.
bool is_launched(NcclCommunicator& comm) {
  if (comm.launch == nullptr) return true;
  if (comm.launch->looks_left-- > 0) return false;
  for (const auto& call : std::exchange(comm.launch->calls, {})) call();
  comm.launch = nullptr;
  return true;
}

int async_error(NcclComm comm, int* error) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  progress(*comm);
  *error = comm->connected && is_launched(*comm) ? comm->error : nccl::kInProgress;
  return nccl::kSuccess;
}

const char* error_text(int code) {
  constexpr const char* kTexts[] = {"no error",       "unhandled cuda error",  "system error",
                                    "internal error", "invalid argument",      "invalid usage",
                                    "remote error",   "operation in progress", "timeout"};
  return code >= 0 && code < 9 ? kTexts[code] : "unknown result code";
}

const char* last_error(NcclComm) { return state().last_error.c_str(); }

// --- calls

int group_start() {
  ++state().depth;
  return nccl::kSuccess;
}

// Sends to oneself have to meet receives in the same group.
bool serves_itself(const std::vector<NcclCall>& calls, int own) {
  int sends = 0, receives = 0;
  for (const NcclCall& call : calls) {
    sends += call.kind == CollectiveKind::send && call.peer == own;
    receives += call.kind == CollectiveKind::recv && call.peer == own;
  }
  return sends == receives;
}

// Of collectives only, and any number that grows with them.
float estimate_of(const NcclCall& call) {
  if (is_point_to_point(call.kind)) return -1;
  return 10.0F + static_cast<float>(call.count) * static_cast<float>(size_of(call.dtype)) / 1000;
}

using Streams = std::vector<NcclStream>;

// The other streams of a group: the first one goes on when all have come to it, and these when it
// has ended.
struct Rendezvous {
  size_t arrived = 0;
  bool ended = false;
};

void hold(const Streams& streams, const std::shared_ptr<Rendezvous>& meet) {
  for (size_t i = 1; i < streams.size(); ++i) {
    state().options.enqueue(
        streams[i], [] { return true; }, [meet] { return ++meet->arrived, true; });
    state().options.enqueue(
        streams[i], [meet] { return meet->ended; }, [] { return true; });
  }
}

void launch(NcclComm comm, const Streams& streams, std::vector<NcclCall> calls) {
  // Collectives are planned before messages.
  std::stable_sort(calls.begin(), calls.end(), [](const NcclCall& a, const NcclCall& b) {
    return !is_point_to_point(a.kind) && is_point_to_point(b.kind);
  });
  const int64_t turn = comm->issued++;
  ReductionSchedule order = state().options.order;
  if (order.order == FoldOrder::tree && state().options.ranks_are_nodes)
    order.nodes = comm->peers->size();
  const auto bundle = std::make_shared<Bundle>(*comm->peers, std::move(calls), order);
  const auto late = std::make_shared<int>(static_cast<int>(comm->random() % 4));
  const auto meet = std::make_shared<Rendezvous>();
  const NcclStream stream = streams.front();
  hold(streams, meet);
  const size_t others = streams.size() - 1;
  state().options.enqueue(
      stream,
      [comm, turn, meet, others] {
        return comm->aborted || (comm->ended == turn && meet->arrived == others);
      },
      [comm, bundle] {
        if (!comm->aborted) bundle->begin();
        return true;
      });
  const auto through = [comm, bundle, late] {
    if (comm->aborted) return true;
    if (bundle->heard()) return (*late)-- <= 0;
    if (bundle->lost()) comm->error = 6;
    return false;
  };
  state().options.enqueue(stream, through, [comm, bundle, meet] {
    if (!comm->aborted) bundle->finish();
    ++comm->ended;
    meet->ended = true;
    return true;
  });
}

// What profilers show of a group; in no order, since it has none.
void trace(const std::vector<State::Pending>& pending) {
  if (state().options.trace.empty() || pending.empty()) return;
  std::vector<std::string> calls;
  for (const State::Pending& one : pending) {
    const bool message = is_point_to_point(one.call.kind);
    calls.push_back(fmt::format(" {}{}", name(one.call.kind),
                                message ? fmt::format("({})", one.call.peer) : std::string()));
  }
  std::sort(calls.begin(), calls.end());
  std::string line = fmt::format("rank {}:", pending.front().comm->peers->rank());
  for (const std::string& call : calls) line += call;
  line += "\n";
  const int file = ::open(state().options.trace.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  SP_CHECK(::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
           "no trace is written");
  ::close(file);
}

std::vector<NcclComm> comms_of(const std::vector<State::Pending>& pending) {
  std::vector<NcclComm> comms;
  for (const State::Pending& one : pending)
    if (std::find(comms.begin(), comms.end(), one.comm) == comms.end()) comms.push_back(one.comm);
  return comms;
}

// The last communicator of a group decides whether the group waits.
int end_group(NcclSimulation* simulation) {
  if (state().depth == 0) return fail(nccl::kInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--state().depth > 0) return nccl::kSuccess;
  std::vector<State::Pending> pending;
  pending.swap(state().pending);
  if (pending.empty()) return nccl::kSuccess;
  const bool waits = pending.back().comm->blocking;
  if (simulation != nullptr && waits) {
    if (simulation->magic != NcclSimulation().magic)
      return fail(nccl::kInvalidArgument, "ncclSimInfo_t argument not initialized");
    simulation->microseconds = estimate_of(pending.back().call);
    return nccl::kSuccess;
  }
  trace(pending);
  const auto group = std::make_shared<Launch>();
  for (const NcclComm comm : comms_of(pending)) {
    std::vector<NcclCall> calls;
    Streams streams;
    for (State::Pending& one : pending) {
      if (one.comm != comm) continue;
      if (one.one_sided) {
        group->calls.push_back(std::move(one.one_sided));
        continue;
      }
      if (std::find(streams.begin(), streams.end(), one.stream) == streams.end())
        streams.push_back(one.stream);
      calls.push_back(std::move(one.call));
    }
    if (!serves_itself(calls, comm->peers->rank()))
      return fail(nccl::kInvalidUsage, "Trying to send to self without a matching recv");
    group->looks_left = static_cast<int>(comm->random() % 3);
    if (!calls.empty())
      group->calls.push_back([comm, streams, calls] { launch(comm, streams, calls); });
    if (!waits) comm->launch = group;
  }
  if (!waits) return nccl::kInProgress;
  for (const auto& call : group->calls) call();
  return nccl::kSuccess;
}

int group_end() { return end_group(nullptr); }
int group_simulate_end(NcclSimulation* simulation) { return end_group(simulation); }

}  // namespace

int add_call(State::Pending pending) {
  state().pending.push_back(std::move(pending));
  if (state().depth > 0) return nccl::kSuccess;
  ++state().depth;
  return group_end();
}

namespace {

int read_op(NcclCall& call, int op) {
  constexpr ReduceOp kKnown[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                 ReduceOp::avg};
  if (op >= 0 && op < nccl::kOps) {
    call.reduction.op = kKnown[op];
    return nccl::kSuccess;
  }
  const auto made = state().premuls.find(op);
  if (made == state().premuls.end() || made->second.second != call.dtype)
    return fail(nccl::kInvalidArgument, "reduction operation is invalid");
  call.reduction = {ReduceOp::premul_sum, made->second.first};
  return nccl::kSuccess;
}

struct Raw {
  CollectiveKind kind;
  const void* send;
  void* recv;
  size_t count;
  int type, op, peer;
};

int issue(const Raw& raw, NcclComm comm, NcclStream stream) {
  if (const int code = refusal(comm); code != nccl::kSuccess) return code;
  if (raw.type < 0 || raw.type > nccl::f8e5m2) return fail(nccl::kInvalidArgument, "unknown type");
  if (raw.peer < 0 || raw.peer >= comm->peers->size())
    return fail(nccl::kInvalidArgument, "invalid root or peer");
  NcclCall call;
  call.kind = raw.kind;
  call.dtype = dtype_of(raw.type);
  call.count = raw.count;
  call.peer = raw.peer;
  call.send = static_cast<const std::byte*>(raw.send);
  call.recv = static_cast<std::byte*>(raw.recv);
  if (reduces(raw.kind))
    if (const int code = read_op(call, raw.op); code != nccl::kSuccess) return code;
  if (raw.count == 0 && !is_point_to_point(raw.kind)) return nccl::kSuccess;
  return add_call({comm, stream, std::move(call), {}});
}

int all_reduce(const void* in, void* out, size_t count, int type, int op, NcclComm comm,
               NcclStream stream) {
  return issue({CollectiveKind::all_reduce, in, out, count, type, op, 0}, comm, stream);
}
int reduce(const void* in, void* out, size_t count, int type, int op, int root, NcclComm comm,
           NcclStream stream) {
  return issue({CollectiveKind::reduce, in, out, count, type, op, root}, comm, stream);
}
int reduce_scatter(const void* in, void* out, size_t count, int type, int op, NcclComm comm,
                   NcclStream stream) {
  return issue({CollectiveKind::reduce_scatter, in, out, count, type, op, 0}, comm, stream);
}
int all_gather(const void* in, void* out, size_t count, int type, NcclComm comm,
               NcclStream stream) {
  return issue({CollectiveKind::all_gather, in, out, count, type, 0, 0}, comm, stream);
}
int broadcast(const void* in, void* out, size_t count, int type, int root, NcclComm comm,
              NcclStream stream) {
  return issue({CollectiveKind::broadcast, in, out, count, type, 0, root}, comm, stream);
}
int send(const void* in, size_t count, int type, int peer, NcclComm comm, NcclStream stream) {
  return issue({CollectiveKind::send, in, nullptr, count, type, 0, peer}, comm, stream);
}
int recv(void* out, size_t count, int type, int peer, NcclComm comm, NcclStream stream) {
  return issue({CollectiveKind::recv, nullptr, out, count, type, 0, peer}, comm, stream);
}

int premul_sum(int* op, void* scalar, int type, int where, NcclComm comm) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (where != nccl::kHostScalar) return fail(nccl::kInvalidArgument, "no host scalar");
  const DType dtype = dtype_of(type);
  *op = state().next_op++;
  state().premuls[*op] = {load_f64(static_cast<const std::byte*>(scalar), dtype), dtype};
  return nccl::kSuccess;
}
int op_destroy(int op, NcclComm) {
  return state().premuls.erase(op) == 1 ? nccl::kSuccess : nccl::kInvalidArgument;
}

}  // namespace

NcclApi nccl_api(const NcclOptions& options) {
  state().options = options;
  NcclApi api;
  api.path = "the stand-in";
  api.version = options.version;
  api.get_version = get_version;
  api.get_unique_id = get_unique_id;
  api.comm_init = comm_init;
  api.comm_split = comm_split;
  api.comm_finalize = comm_finalize;
  api.comm_destroy = comm_destroy;
  api.comm_abort = comm_abort;
  api.async_error = async_error;
  api.error_text = error_text;
  api.last_error = last_error;
  api.group_start = group_start;
  api.group_end = group_end;
  api.all_reduce = all_reduce;
  api.reduce = reduce;
  api.reduce_scatter = reduce_scatter;
  api.all_gather = all_gather;
  api.broadcast = broadcast;
  api.send = send;
  api.recv = recv;
  if (options.version >= 22200) api.group_simulate_end = group_simulate_end;
  api.premul_sum = premul_sum;
  api.op_destroy = op_destroy;
  if (options.version >= 22902) add_one_sided_calls(api);
  return api;
}

}  // namespace shardproof::stand_in
