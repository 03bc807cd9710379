// Repetition: one collective over all ranks, made again and again so that it can be timed. Nothing
// else runs: no host, and in real processes no gate, so that contents go the way they go in a run
// without asking anybody. In simulation it is the simulator that is timed.
#pragma once

#include "shardproof/backends/api/execution_context.h"

namespace shardproof {

// Whether what a rank gets takes the place of what it brings, as NCCL's in-place calls do.
enum class Placing : uint8_t { apart, in_place };
// Whether a last, untimed one is compared with `reference`.
enum class Checking : uint8_t { none, reference };
// An answer in place of what is still to be sent has no meaning.
bool can_be_checked(CollectiveKind kind, Placing placing);

struct Repetition {
  // Over Group::world. A `send` stands for: each rank sends to the next one, round the ring.
  Collective collective;
  Placing placing = Placing::apart;
  int warmup = 1, times = 20;
  Checking checking = Checking::reference;
};

struct Repeated {
  double seconds = 0;                      // of one of the timed ones
  int64_t wrong = 0;                       // elements of answers
  TimedBy clock = TimedBy::world;          // on which the time was taken
  std::optional<double> expected_seconds;  // by the library that exchanges, if it says so
};

// All ranks of a backend that has them in this process; else this process's own, while every other
// process of the crew does the same.
Repeated repeat(Backend& backend, const Repetition& repetition);

// Elements that a member brings, and gets.
int64_t brought_elements(const Collective& collective);
int64_t taken_elements(const Collective& collective, int64_t member);

}  // namespace shardproof
