// NCCL's functions, answered by the stand-in.
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <map>
#include <thread>

#include "shardproof/localtensor/error.h"
#include "shardproof/tests/gpu/stand_in/nccl.h"
#include "shardproof/tests/gpu/stand_in/nccl_calls.h"

namespace shardproof {

struct NcclCommunicator {
  std::string name;
  std::unique_ptr<stand_in::Peers> peers;
  bool connected = false, aborted = false, blocking = false;
  int error = nccl::kSuccess;     // asynchronous
  int children = 0;               // splits so far
  int64_t issued = 0, ended = 0;  // bundles, which go one after another
  std::mt19937_64 random;
  // Of a split under way: who goes where, then the child.
  struct Split {
    int color = 0, key = 0;
    NcclComm* child = nullptr;
    std::string said;
  };
};

namespace stand_in {
namespace {

using std::chrono::milliseconds;

struct State {
  NcclOptions options;
  std::deque<std::unique_ptr<NcclCommunicator>> comms;  // the dead ones too: their use is told
  std::map<int, std::pair<double, DType>> premuls;
  int next_op = nccl::kOps;
  int depth = 0;
  struct Pending {
    NcclComm comm;
    NcclStream stream;
    NcclCall call;
  };
  std::vector<Pending> pending;
  std::string last_error;
};
State state;

int fail(int code, const std::string& text) {
  state.last_error = text;
  return code;
}

bool known(NcclComm comm) {
  for (const auto& one : state.comms)
    if (one.get() == comm) return !one->aborted;
  return false;
}

DType dtype_of(int type) {
  constexpr DType kTypes[] = {DType::i8,  DType::u8,   DType::i32,    DType::i32,
                              DType::i64, DType::i64,  DType::f16,    DType::f32,
                              DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
  return kTypes[type];
}

// --- communicators

int get_version(int* version) {
  *version = state.options.version;
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
  return state.comms.emplace_back(std::move(comm)).get();
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
  if (!known(parent)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (!parent->connected) return fail(nccl::kInvalidArgument, "comm is not ready");
  Peers& peers = *parent->peers;
  const int64_t own[2] = {color, key};
  for (int peer = 0; peer < peers.size(); ++peer)
    if (peer != peers.rank()) peers.send(peer, own, sizeof(own));
  std::vector<std::pair<int64_t, int>> members;  // key, rank
  if (color >= 0) members.emplace_back(key, peers.rank());
  for (int peer = 0; peer < peers.size(); ++peer) {
    if (peer == peers.rank()) continue;
    while (peers.received(peer).size() < sizeof(own)) {
      peers.pump();
      if (peers.gone(peer)) return parent->error = 6;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    int64_t said[2];
    std::memcpy(said, peers.take(peer, sizeof(said)).data(), sizeof(said));
    if (color >= 0 && said[0] == color) members.emplace_back(said[1], peer);
  }
  const int number = parent->children++;
  *child = nullptr;
  if (color < 0) return nccl::kSuccess;
  std::sort(members.begin(), members.end());
  int rank = 0;
  while (members[static_cast<size_t>(rank)].second != peers.rank()) ++rank;
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

int async_error(NcclComm comm, int* error) {
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  progress(*comm);
  *error = comm->connected ? comm->error : nccl::kInProgress;
  return nccl::kSuccess;
}

const char* error_text(int code) {
  constexpr const char* kTexts[] = {"no error",       "unhandled cuda error", "system error",
                                    "internal error", "invalid argument",     "invalid usage",
                                    "remote error",   "operation in progress"};
  return code >= 0 && code < 8 ? kTexts[code] : "unknown result code";
}

const char* last_error(NcclComm) { return state.last_error.c_str(); }

// --- calls

int group_start() {
  ++state.depth;
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

void launch(NcclComm comm, NcclStream stream, std::vector<NcclCall> calls) {
  // Collectives are planned before messages.
  std::stable_sort(calls.begin(), calls.end(), [](const NcclCall& a, const NcclCall& b) {
    return !is_point_to_point(a.kind) && is_point_to_point(b.kind);
  });
  const int64_t turn = comm->issued++;
  ReductionSchedule order = state.options.order;
  if (order.order == FoldOrder::tree && state.options.ranks_are_nodes)
    order.nodes = comm->peers->size();
  const auto bundle = std::make_shared<Bundle>(*comm->peers, std::move(calls), order);
  const auto late = std::make_shared<int>(static_cast<int>(comm->random() % 4));
  state.options.enqueue(stream, [comm, bundle, turn, late] {
    if (comm->aborted) return true;
    if (comm->ended != turn) return false;
    if (*late >= 0) {
      if (!bundle->advance()) {
        if (bundle->lost()) comm->error = 6;
        return false;
      }
      if ((*late)-- > 0) return false;
    }
    ++comm->ended;
    return true;
  });
}

int group_end() {
  if (state.depth == 0) return fail(nccl::kInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--state.depth > 0) return nccl::kSuccess;
  std::vector<State::Pending> pending;
  pending.swap(state.pending);
  std::vector<NcclComm> comms;
  for (const State::Pending& one : pending)
    if (std::find(comms.begin(), comms.end(), one.comm) == comms.end()) comms.push_back(one.comm);
  for (const NcclComm comm : comms) {
    std::vector<NcclCall> calls;
    NcclStream stream = nullptr;
    for (State::Pending& one : pending)
      if (one.comm == comm) {
        stream = one.stream;
        calls.push_back(std::move(one.call));
      }
    if (!serves_itself(calls, comm->peers->rank()))
      return fail(nccl::kInvalidUsage, "Trying to send to self without a matching recv");
    launch(comm, stream, std::move(calls));
  }
  return nccl::kSuccess;
}

int read_op(NcclCall& call, int op) {
  constexpr ReduceOp kKnown[] = {ReduceOp::sum, ReduceOp::prod, ReduceOp::max, ReduceOp::min,
                                 ReduceOp::avg};
  if (op >= 0 && op < nccl::kOps) {
    call.reduction.op = kKnown[op];
    return nccl::kSuccess;
  }
  const auto made = state.premuls.find(op);
  if (made == state.premuls.end() || made->second.second != call.dtype)
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
  if (!known(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (!comm->connected) return fail(nccl::kInvalidArgument, "comm is not ready");
  if (comm->error != nccl::kSuccess) return comm->error;
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
  state.pending.push_back({comm, stream, std::move(call)});
  if (state.depth > 0) return nccl::kSuccess;
  ++state.depth;
  return group_end();
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
  *op = state.next_op++;
  state.premuls[*op] = {load_f64(static_cast<const std::byte*>(scalar), dtype), dtype};
  return nccl::kSuccess;
}
int op_destroy(int op, NcclComm) {
  return state.premuls.erase(op) == 1 ? nccl::kSuccess : nccl::kInvalidArgument;
}

}  // namespace

NcclApi nccl_api(const NcclOptions& options) {
  state.options = options;
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
  api.premul_sum = premul_sum;
  api.op_destroy = op_destroy;
  return api;
}

}  // namespace stand_in
}  // namespace shardproof
