// The nouns of a run on the wire: lanes, groups, calls, tensors, reports. A group is said once and
// then named by its number, so that both ends keep a book of them; so is a text of the program.
#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>

#include "shardproof/backends/api/benchmark.h"
#include "shardproof/backends/api/execution_context.h"
#include "shardproof/backends/api/worker_pool.h"
#include "shardproof/backends/remote/wire/wire.h"

namespace shardproof {

// What a process announces to the one that coordinates.
enum class WorkerMessage : uint8_t {
  hello,        // version, process, processes, pid, invitation, names and values of its terms
  want,         // a world: its options, for the coordinator to see that they are its own
  open,         // door, lanes
  stream,       // door, name
  submit,       // door, stream, ticket, calls
  launch,       // door, stream, ticket, lanes, flops, bytes, name, line, instance
  allocate,     // door, lanes, bytes, category
  release,      // the same
  order,        // door, stream, ticket
  host_wait,    // door, ticket
  elapse,       // door, picoseconds
  stop,         // door, state
  finish,       // door
  idle,         // orders that have ended: nothing moves here until another comes
  value,        // a value that was made: id, tensor
  final_value,  // a value at the end: id, tensor
  measured,     // records with measured times
  at,           // orders that have ended so far; something moves here
  joined,       // the invitation was good
  unfit,        // process, why it is of no use; also instead of a hello
  conclude,     // orders that have ended; the hosts here have come to their end: finished, errors
  close,        // orders that have ended; awaits the report
  case_done,    // what went wrong, or nothing
  repeated,     // what was measured
  window,       // how what is put travels from here on: words
  state,        // of a worker, by its keeper: process, words (none while it lives), flight page
  beat,         // this process lives: what it is about
  trouble,      // no exchange ends here any more: what its transport says
  leaving,      // all is done here, and the transport is left
};

// What a process is about, as its beats tell.
enum class Activity : uint8_t { computes, waits };

// What it is told.
enum class CoordinatorCommand : uint8_t {
  begin_case,  // index
  leave_case,  // the case is over, wherever you are
  quit,        //
  join,        // the invitation
  form,        // teams: processes of each
  window,      // bytes: room in every process for what is put there
  start,       // a world: ranks
  run,         // ticket: the work at the head of its stream
  meet,        // parts of one collective: (ticket, party, lane) ...
  pair,        // a send and its receive
  put,         // a put and its target
  end_part,    // ticket, party, lane: nothing moves
  group,       // some of these four, as texts: they start together and end together
  fail,        // ticket
  still,       // nothing moves anywhere
  concluded,   // agreed: finished, errors
  report,      // of the world
};

// Groups and texts that have been said.
class WireDictionary {
 public:
  void write_group(WireWriter& out, const Group& group);
  const Group& read_group(WireReader& in);
  void write_text(WireWriter& out, std::string_view text);
  std::string_view read_text(WireReader& in);

 private:
  std::map<std::pair<std::string, std::string>, int64_t> said_groups_;
  std::deque<Group> groups_;
  std::map<std::string, int64_t, std::less<>> said_texts_;
  std::deque<std::string> texts_;
};

void write_lanes(WireWriter& out, const Lanes& lanes);
Lanes read_lanes(WireReader& in);

// Views of the call's tensors travel as their lanes and sizes, without contents.
void write_call(WireWriter& out, WireDictionary& book, const Call& call);
// `tensors` holds what the call points to.
Call read_call(WireReader& in, WireDictionary& book, std::deque<LocalTensor>& tensors);

// With contents, as far as there are any; each stored copy once.
void write_tensor(WireWriter& out, const LocalTensor& tensor);
LocalTensor read_tensor(WireReader& in);

void write_repeated(WireWriter& out, const Repeated& repeated);
Repeated read_repeated(WireReader& in);

// Without the cost model.
void write_options(WireWriter& out, const WorldOptions& options);
WorldOptions read_options(WireReader& in);

void write_conclusion(WireWriter& out, const HostResult& conclusion);
HostResult read_conclusion(WireReader& in);

// Without records, which stay where they were made or are sent apart.
void write_report(WireWriter& out, const WorldReport& report);
WorldReport read_report(WireReader& in);

}  // namespace shardproof
