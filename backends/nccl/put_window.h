// PutWindow: the same room in all processes, into which they put without the others' help, over a
// communicator of its own. Half of it is for what arrives, the other half for what is on its way:
// NCCL puts only from a window. All processes have one, or none has: after each step of opening it
// they tell each other what trouble they have. Internal to the nccl backend.
#pragma once

#include <memory>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/nccl/nccl_session.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

class PutWindow {
 public:
  // In every process of the session. `stream` is the device's current one.
  PutWindow(NcclSession& session, std::shared_ptr<Device> device, int64_t bytes);
  ~PutWindow();
  PutWindow(const PutWindow&) = delete;
  PutWindow& operator=(const PutWindow&) = delete;

  // Why there is none, in words that are the same in all processes; empty: there is one.
  const std::string& trouble() const { return trouble_; }
  NcclComm comm() const { return comm_; }
  // A put or the wait for one, on the current stream. Gives NCCL's code.
  int issue(const Exchange& exchange);
  // What has landed, behind the wait for it.
  void take_out(const Exchange& exchange);

 private:
  void split_off();
  void take_memory();
  void register_it();
  void signal_next();
  void await_signal();
  void await(int code);
  bool ends(NcclComm comm, int code);
  bool all_are_well();
  void close() noexcept;

  NcclSession& session_;
  std::shared_ptr<Device> device_;
  int64_t bytes_;
  std::string trouble_;
  NcclComm comm_ = nullptr;
  NcclWindowHandle* window_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace shardproof
