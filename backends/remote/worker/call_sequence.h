// CallSequence: the work and commands that one process has carried out in a world, as steps that it
// can repeat without the coordinator. Internal to backends/remote.
//
// A step is a work or a command, in the order in which the process has carried them out. All
// processes have carried out the commands in one order. So the sequences of all processes can run
// at the same time: no exchange waits for a later one.
//
// Contents of buffers: a provided buffer has contents before the first step; if the sequence
// overwrites them, restore() copies them back. Every other buffer gets its contents from a step.
// Once the program has discarded it, they are dropped after the last step that uses it, while the
// sequence is recorded and in each repetition. So a repetition needs no more memory than the run.
//
// Not thread-safe. Shares the buffers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "shardproof/backends/remote/exchange/exchange.h"
#include "shardproof/sim/call/submission.h"

namespace shardproof {

class CallSequence {
 public:
  using Buffers = std::vector<std::shared_ptr<Buffer>>;
  struct Step {
    bool is_command = false;
    int line = 0;                              // of the work; 0: none
    std::vector<Ticket> tickets;               // this step is part of their time
    std::vector<std::function<void()>> local;  // steps that need no other process, in order
    std::vector<ExchangeOperation> moving;     // exchanges that start together, after `here`
    Buffers dropped;                           // buffers whose contents end with this step
  };

  // --- recording
  void provide(const LocalTensor& value, std::shared_ptr<DeviceMemory> memory);
  void discard(const LocalTensor& value);
  // Names buffers that an issued item will use, and those that an item of the last step has used.
  void issue(const Buffers& buffers);
  void add_use(const Buffers& buffers);
  Step& add_step();
  // Returns the last command. Requires that there is one.
  Step& command() { return steps_[command_]; }
  Step& add_command();
  // Takes over a submission to which steps refer.
  void retain(std::unique_ptr<Submission> submission) {
    submissions_.push_back(std::move(submission));
  }
  // Ends the recording: finds the provided buffers that the sequence overwrites.
  void end_recording();

  // --- repeating
  std::vector<Step>& steps() { return steps_; }
  // Restores the provided contents and drops those that no step has dropped. Copies in the current
  // stream of a device.
  void restore();
  void drop_results();
  // A copy on a device that restores provided contents where they lie now.
  struct InputCopy {
    DeviceMemory* memory = nullptr;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    int64_t bytes = 0;
  };
  // Returns the copies that restore() makes. They are valid as long as the memory of the buffers.
  // Requires that restore() was called last. Leaves out contents on the host.
  std::vector<InputCopy> copies_to_restore() const;
  // Returns a hash of each buffer that has contents after the last step, in a fixed order.
  std::vector<uint64_t> hash_results() const;

 private:
  struct Usage {
    std::shared_ptr<Buffer> buffer;
    int64_t pending = 0;  // issued items that have not used it
    size_t last_step = 0;
    bool is_discarded = false, is_provided = false;
  };
  struct ProvidedBuffer {
    std::shared_ptr<Buffer> buffer;
    Slots slots;
    Bytes contents;
    std::shared_ptr<DeviceMemory> memory;  // null: the host
  };
  Usage& usage_of(const std::shared_ptr<Buffer>& buffer);
  void drop(Usage& usage);

  std::vector<Step> steps_;
  size_t command_ = 0;
  std::vector<std::unique_ptr<Submission>> submissions_;
  std::map<Buffer*, Usage> usages_;
  std::vector<ProvidedBuffer> provided_;  // after end_recording(): only those that are overwritten
  Buffers results_;                       // not provided, and not dropped by a step
};

// Returns the buffers that the calls of a submission read and write.
CallSequence::Buffers buffers_of(const Submission& submission);

}  // namespace shardproof
