// Compares the values and findings of one program under four schedules of the simulator: fifo,
// adversarial, side-first and main-first. A program whose streams are ordered computes the same
// bits under all. Internal to the engine.
//
// Equal results do not prove that a race is absent: four orders of many are tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"
#include "shardproof/engine/job/registries.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

// True if the order of work on some rank depends on the schedule. Such a rank uses several streams,
// or reads a slot into which other ranks put.
bool depends_on_schedule(const SpmdProgram& program);

struct ScheduleResult {
  std::optional<Finding> race;
  std::string note;  // what the comparison states; empty if there is a race
};

// Runs the program on simulated ranks under these schedules. The result is the finding `race` if a
// value or a finding differs. If two streams access one value without an order, the finding has the
// line of the later access and the name of that value. Otherwise it has those of the first
// differing value. `inputs` are the ranks' parts of the job's inputs. Throws Error(bad_input) if
// the run under fifo does.
ScheduleResult compare_schedules(const SpmdProgram& program, const Job& job,
                                 const std::vector<LocalTensor>& inputs,
                                 const Registries& registries);

}  // namespace shardproof
