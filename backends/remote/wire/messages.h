// Messages between the coordinator and the workers of a run, and the encoding of their fields. A
// message is a number, its kind (WorkerMessage or CoordinatorCommand), followed by the fields
// below. wire.h defines the form of numbers, reals, texts and bytes; "n x" is a count n followed by
// n items.
//
// Values:
//
// | value      | fields                                                                           |
// |------------|----------------------------------------------------------------------------------|
// | lanes      | 1, first rank, last rank + 1; or 0, n x rank                                     |
// | group      | number; at first use also: 0, name, n x rank; or siblings, n x (axis name, size),|
// |            | ranks of all siblings                                                            |
// | text*      | number; at first use also the text (a text of the program, sent once)            |
// | sizes      | -1: no tensor; or n x (lanes, dtype, elements)                                   |
// | call       | group, kind, reduction, dtype, count, root, peer, slot, repeat, order, protocol, |
// |            | channels, nodes, NCCL version, row elements, line, scalar (real),                |
// |            | send counts, receive counts, lanes, peers, n x send counts, n x receive counts,  |
// |            | text*, instance*, sizes of input, sizes of output                                |
// | tensor     | n x (lanes, dtype, shape, copies, [copy of each lane: i32 each, if copies > 1],  |
// |            | contiguous bytes of each copy)                                                   |
// | options    | ranks, schedule kind, seed, n x fault                                            |
// | conclusion | finished, n x (error kind, message, file, path, line, column), n x unfired fault |
// | report     | n x finding, timed, unpriced work, broken, time (ps), n x rank time (ps), peak   |
// |            | bytes, n x bytes of a category, rank of the peak                                 |
// | repeated   | seconds (real), wrong elements, clock, has expected, expected seconds (real)     |
// | part       | ticket, index of the call in its submission, lane                                |
//
// Groups and texts are sent once for each direction and then named by number, so both ends keep a
// dictionary (WireDictionary). Readers throw Error(io) if a message ends early. Tickets are those
// of the worker, in both directions.
#pragma once

#include <deque>
#include <map>
#include <string>

#include "shardproof/backends/api/benchmark.h"
#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/wire/wire.h"

namespace shardproof {

// Messages of a worker to the coordinator. `cohort` is the index of a cohort in its worker; `ended`
// is the number of commands of this world that have ended in the worker.
enum class WorkerMessage : uint8_t {
  hello,        // wire version, process, processes, pid, invitation, n x (name, value) of its terms
  want,         // options of the world that it starts; the coordinator compares them with its own
  open,         // cohort, lanes
  stream,       // cohort, name
  submit,       // cohort, stream, ticket, n x call
  launch,       // cohort, stream, ticket, lanes, flops, bytes (reals), name*, line, instance*
  allocate,     // cohort, lanes, bytes, category
  release,      // cohort, lanes, bytes, category
  order,        // cohort, stream, ticket
  host_wait,    // cohort, ticket
  elapse,       // cohort, picoseconds
  stop,         // cohort, CohortState
  finish,       // cohort
  idle,         // ended; nothing can continue in the worker until another command arrives
  value,        // value id, tensor: a value when it was made
  final_value,  // value id, tensor: a value at the end of the program
  measured,     // n x record with measured times
  at,           // ended; work or exchanges are in progress
  joined,       // no fields: its transport has joined the others
  unfit,        // process, reason why it cannot take part; may replace hello
  conclude,     // ended, conclusion of its hosts
  close,        // ended; the worker waits for the report
  case_done,    // error text; empty: none
  repeated,     // repeated: the repetitions of this world have ended
  window,       // text that states how later puts move their contents
  state,        // by the monitor: process, state (empty: it runs), begun, done, line (ProgressPage)
  heartbeat,    // HeartbeatActivity, begun, done, line (ProgressPage): the process exists
  transport_error,  // error text of the transport; exchanges of this worker no longer complete
  leaving,          // no fields: all cases are done, the worker closes its transport
};

// The activity of a worker, as its heartbeats report.
enum class HeartbeatActivity : uint8_t { computes, waits };

// Commands of the coordinator to a worker.
enum class CoordinatorCommand : uint8_t {
  begin_case,  // index of the case
  leave_case,  // no fields: the case is over, wherever the worker is
  quit,        // no fields: the run is over
  join,        // invitation of the transport
  form,        // n x (n x endpoint): teams that get a communicator
  window,      // bytes of the window that each process opens for puts
  start,       // no fields: the world may start
  run,         // ticket of the work at the head of its stream
  collective,  // n x part
  message,     // number, endpoint of the other end, sender here?, [part], receiver here?, [part]
  put,        // number, endpoint of the other end, source here?, [part], target here?, target rank,
              // slot, bytes, offset in the window (-1: none)
  end_part,   // part: a call that moves no contents
  group,      // siblings of one call?, n x text, each a collective, message, put or end_part: they
              // start and end together
  fail,       // ticket
  stalled,    // no fields: no worker can continue, and no command is under way
  concluded,  // conclusion of all workers
  report,     // report of the world
};

// Returns a message of this kind; the caller adds its fields.
inline WireWriter message_of(WorkerMessage kind) {
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  return message;
}
inline WireWriter message_of(CoordinatorCommand kind) {
  WireWriter message;
  message.add(static_cast<int64_t>(kind));
  return message;
}

// Groups and texts that were sent and received over one connection. Each end needs one; writing and
// reading number independently. Returned references stay valid as long as the dictionary.
class WireDictionary {
 public:
  void write_group(WireWriter& out, const Group& group);
  const Group& read_group(WireReader& in);
  void write_text(WireWriter& out, std::string_view text);
  std::string_view read_text(WireReader& in);

 private:
  std::map<std::pair<std::string, std::string>, int64_t> sent_groups_;
  std::deque<Group> groups_;
  std::map<std::string, int64_t, std::less<>> sent_texts_;
  std::deque<std::string> texts_;
};

void write_lanes(WireWriter& out, const Lanes& lanes);
Lanes read_lanes(WireReader& in);

// Writes a call without the contents of its tensors.
void write_call(WireWriter& out, WireDictionary& dictionary, const Call& call);
// Reads a call; its tensors are added to `tensors`, which must outlive it.
Call read_call(WireReader& in, WireDictionary& dictionary, std::deque<LocalTensor>& tensors);

// Writes each stored copy once; a tensor without contents has no copies.
void write_tensor(WireWriter& out, const LocalTensor& tensor);
LocalTensor read_tensor(WireReader& in);

void write_benchmark_result(WireWriter& out, const BenchmarkResult& repeated);
BenchmarkResult read_benchmark_result(WireReader& in);

// Write and read the fields that both ends compare; not the cost model or the device.
void write_options(WireWriter& out, const WorldOptions& options);
WorldOptions read_options(WireReader& in);

void write_conclusion(WireWriter& out, const HostResult& conclusion);
HostResult read_conclusion(WireReader& in);

// Writes all of a report except its records, which WorkerMessage::measured carries.
void write_report(WireWriter& out, const WorldReport& report);
WorldReport read_report(WireReader& in);

}  // namespace shardproof
