// Implements the fake NCCL's calls (fake_nccl.h): groups, collectives, messages, predictions,
// errors.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <set>
#include <thread>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_state.h"

namespace shardproof::fake_gpu {

State& state() {
  static State the_state;
  return the_state;
}

int fail(int code, const std::string& text) {
  state().last_error = text;
  return code;
}

bool is_valid(NcclComm comm) {
  for (const auto& one : state().comms)
    if (one.get() == comm) return !one->aborted;
  return false;
}

namespace {

int refusal_of_one(NcclComm comm) {
  if (!is_valid(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  if (!comm->connected || comm->launch != nullptr || comm->pending_split)
    return fail(nccl::kInvalidArgument, "comm is not ready");
  return comm->error;
}

}  // namespace

int refusal(NcclComm comm) {
  const int code = refusal_of_one(comm);
  OpenGroup& open = open_group();
  if (open.depth > 0 && open.refused == nccl::kSuccess) open.refused = code;
  return code;
}

OpenGroup& open_group() {
  thread_local OpenGroup the_group;
  return the_group;
}

namespace {

// The network fails, and some time later the process is killed.
void fail_network(NcclCommunicator& comm) {
  if (comm.error != nccl::kSuccess) return;
  comm.error = fail(kInternalError, "the network has failed");
  if (const int kill_after_ms = state().options.kill_after_ms; kill_after_ms != 0)
    std::thread([kill_after_ms] {
      std::this_thread::sleep_for(std::chrono::milliseconds(kill_after_ms));
      ::raise(SIGKILL);
    }).detach();
}

DType dtype_of(int type) {
  constexpr DType kTypes[] = {DType::i8,  DType::u8,   DType::i32,    DType::i32,
                              DType::i64, DType::i64,  DType::f16,    DType::f32,
                              DType::f64, DType::bf16, DType::f8e4m3, DType::f8e5m2};
  return kTypes[type];
}

// Polls; true if the calls of the communicator are in their streams.
bool is_launched(NcclCommunicator& comm) {
  if (comm.launch == nullptr) return true;
  if (comm.launch->polls_left-- > 0) return false;
  for (const auto& call : std::exchange(comm.launch->calls, {})) call();
  comm.launch = nullptr;
  return true;
}

// Polls; true if the caller has the new communicator of a split.
bool is_split(NcclCommunicator& comm) {
  if (!comm.pending_split) return true;
  if (comm.pending_split->polls_left-- > 0) return false;
  *comm.pending_split->child = comm.pending_split->made;
  comm.pending_split.reset();
  return true;
}

int async_error(NcclComm comm, int* error) {
  if (!is_valid(comm)) return fail(nccl::kInvalidArgument, "comm is not valid");
  progress(*comm);
  const bool ready = comm->connected && is_launched(*comm) && is_split(*comm);
  *error = ready ? comm->error : nccl::kInProgress;
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
  ++open_group().depth;
  return nccl::kSuccess;
}

// True if sends to oneself match receives in the same group.
bool has_matching_sends_to_self(const std::vector<NcclCall>& calls, int own) {
  int sends = 0, receives = 0;
  for (const NcclCall& call : calls) {
    sends += call.kind == CollectiveKind::send && call.peer == own;
    receives += call.kind == CollectiveKind::recv && call.peer == own;
  }
  return sends == receives;
}

// Returns a predicted time for collectives: any number that grows with their size.
float estimate_of(const NcclCall& call) {
  if (is_point_to_point(call.kind)) return -1;
  return 10.0F + static_cast<float>(call.count) * static_cast<float>(size_of(call.dtype)) / 1000;
}

using Streams = std::vector<NcclStream>;

// Orders the streams of a group: the first runs when all have reached the group, the others when it
// has ended.
struct StreamJoin {
  size_t arrived = 0;
  bool ended = false;
};

void join_streams(const Streams& streams, const std::shared_ptr<StreamJoin>& join) {
  for (size_t i = 1; i < streams.size(); ++i) {
    state().options.enqueue(
        streams[i], [] { return true; }, [join] { return ++join->arrived, true; });
    state().options.enqueue(
        streams[i], [join] { return join->ended; }, [] { return true; });
  }
}

void launch(NcclComm comm, const Streams& streams, std::vector<NcclCall> calls) {
  // Collectives are launched before messages.
  std::stable_sort(calls.begin(), calls.end(), [](const NcclCall& a, const NcclCall& b) {
    return !is_point_to_point(a.kind) && is_point_to_point(b.kind);
  });
  const int64_t turn = comm->issued++;
  ReductionSchedule order = state().options.order;
  if (order.order == FoldOrder::tree && state().options.ranks_are_nodes)
    order.nodes = comm->peers->size();
  const auto group = std::make_shared<CallGroup>(*comm->peers, std::move(calls), order);
  const auto late_polls = std::make_shared<int>(static_cast<int>(comm->random() % 4));
  const auto join = std::make_shared<StreamJoin>();
  const NcclStream stream = streams.front();
  join_streams(streams, join);
  const size_t others = streams.size() - 1;
  state().options.enqueue(
      stream,
      [comm, turn, join, others] {
        return comm->aborted || (comm->ended == turn && join->arrived == others);
      },
      [comm, group] {
        if (!comm->aborted) group->begin();
        return true;
      });
  const int failing_call = state().options.failing_call;
  const bool fails = failing_call != 0 && turn + 1 >= failing_call &&
                     comm->peers->rank() + 1 == comm->peers->size();
  const auto is_complete = [comm, group, late_polls, fails] {
    if (comm->aborted) return true;
    if (fails) fail_network(*comm);
    if (!fails && group->exchange()) return (*late_polls)-- <= 0;
    if (group->peer_has_exited()) comm->error = fail(kRemoteError, "a peer has exited");
    return false;
  };
  state().options.enqueue(stream, is_complete, [comm, group, join] {
    if (!comm->aborted) group->finish();
    ++comm->ended;
    join->ended = true;
    return true;
  });
}

// Writes a line for a group, as profilers show it; its calls are sorted, because they have no
// order.
void trace(const std::vector<OpenGroup::Call>& pending) {
  if (state().options.trace.empty() || pending.empty()) return;
  const bool several = !siblings_of(pending.front().comm).empty();
  std::set<int> ranks;
  std::vector<std::string> calls;
  for (const OpenGroup::Call& one : pending) {
    const std::string rank = std::to_string(one.comm->peers->rank());
    ranks.insert(one.comm->peers->rank());
    std::string call = several ? " " + rank + "." : " ";
    call += name(one.call.kind);
    if (is_point_to_point(one.call.kind)) call += "(" + std::to_string(one.call.peer) + ")";
    calls.push_back(std::move(call));
  }
  std::sort(calls.begin(), calls.end());
  std::string line = several ? "ranks" : "rank";
  for (const int rank : ranks) line += " " + std::to_string(rank);
  line += ":";
  for (const std::string& call : calls) line += call;
  line += "\n";
  const int file = ::open(state().options.trace.c_str(), O_WRONLY | O_APPEND | O_CREAT, 0644);
  SP_CHECK(::write(file, line.data(), line.size()) == static_cast<ssize_t>(line.size()),
           "no trace is written");
  ::close(file);
}

std::vector<NcclComm> comms_of(const std::vector<OpenGroup::Call>& pending) {
  std::vector<NcclComm> comms;
  for (const OpenGroup::Call& one : pending)
    if (std::find(comms.begin(), comms.end(), one.comm) == comms.end()) comms.push_back(one.comm);
  return comms;
}

// True if `other` is the matching call of `one` on another communicator of this thread.
bool matches(const OpenGroup::Call& one, const OpenGroup::Call& other, NcclComm sibling) {
  if (other.comm != sibling) return false;
  if (!is_point_to_point(one.call.kind)) return other.call.kind == one.call.kind;
  return is_point_to_point(other.call.kind) && other.call.kind != one.call.kind &&
         other.call.peer == one.comm->peers->rank();
}

// True if a call waits for another communicator of the thread that the group has no call for.
bool waits_for_own_thread(const std::vector<OpenGroup::Call>& pending) {
  for (const OpenGroup::Call& one : pending)
    for (const NcclComm sibling : siblings_of(one.comm)) {
      const bool takes_part =
          !is_point_to_point(one.call.kind) || one.call.peer == sibling->peers->rank();
      if (takes_part && std::none_of(pending.begin(), pending.end(), [&](const auto& other) {
            return matches(one, other, sibling);
          }))
        return true;
    }
  return false;
}

// The last communicator of a group decides whether its end blocks.
int end_group(NcclSimulation* simulation) {
  OpenGroup& open = open_group();
  if (open.depth == 0) return fail(nccl::kInvalidUsage, "ncclGroupEnd: not in a group call.");
  if (--open.depth > 0) return nccl::kSuccess;
  const std::vector<OpenGroup::Call> pending = std::exchange(open.calls, {});
  const std::vector<OpenGroup::Split> splits = std::exchange(open.splits, {});
  const int refused = std::exchange(open.refused, nccl::kSuccess);
  if (refused != nccl::kSuccess) return refused;
  SP_CHECK(pending.empty() || splits.empty(), "one group makes communicators and calls");
  if (!splits.empty()) return end_splits(splits);
  if (pending.empty()) return nccl::kSuccess;
  if (waits_for_own_thread(pending)) return refuse_one_by_one();
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
    for (const OpenGroup::Call& one : pending) {
      if (one.comm != comm) continue;
      if (one.one_sided) {
        group->calls.push_back(one.one_sided);
        continue;
      }
      if (std::find(streams.begin(), streams.end(), one.stream) == streams.end())
        streams.push_back(one.stream);
      calls.push_back(one.call);
    }
    if (!has_matching_sends_to_self(calls, comm->peers->rank()))
      return fail(nccl::kInvalidUsage, "Trying to send to self without a matching recv");
    group->polls_left = static_cast<int>(comm->random() % 3);
    if (!calls.empty())
      group->calls.push_back([comm, streams, calls] { launch(comm, streams, calls); });
    if (!waits) comm->launch = group;
  }
  if (!waits) return nccl::kInProgress;
  const auto begin = [group] {
    for (const auto& call : group->calls) call();
  };
  if (!FakeGpu::records(pending.front().stream, begin)) begin();
  return nccl::kSuccess;
}

int group_end() { return end_group(nullptr); }
int group_simulate_end(NcclSimulation* simulation) { return end_group(simulation); }

}  // namespace

int add_call(OpenGroup::Call call) {
  open_group().calls.push_back(std::move(call));
  if (open_group().depth > 0) return nccl::kSuccess;
  ++open_group().depth;
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

struct RawCall {
  CollectiveKind kind;
  const void* send;
  void* recv;
  size_t count;
  int type, op, peer;
};

int issue(const RawCall& raw, NcclComm comm, NcclStream stream) {
  if (const int code = refusal(comm); code != nccl::kSuccess) return code;
  if (FakeGpu::device_of(stream) != comm->device)
    return fail(nccl::kInvalidUsage, fmt::format("a stream of GPU {} on a communicator of GPU {}",
                                                 FakeGpu::device_of(stream), comm->device));
  if (const int selected = FakeGpu::selected_on_machine_of(stream); selected != comm->device)
    return fail(
        nccl::kInvalidUsage,
        fmt::format("the thread is at GPU {}, its communicator at GPU {}", selected, comm->device));
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
  if (const int code = refusal_of_algorithm(call); code != nccl::kSuccess) return code;
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
  if (const int code = refusal(comm); code != nccl::kSuccess) return code;
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
  api.path = "the fake NCCL";
  api.version = options.version;
  add_communicators(api);
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

}  // namespace shardproof::fake_gpu
