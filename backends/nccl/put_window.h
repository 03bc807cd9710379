// PutWindow: memory of the same size in all processes, into which other processes put without the
// receiver's help, over a communicator of its own. The first half receives puts; the second half
// holds contents to be sent, because NCCL puts only from a window. Either all processes have one or
// none: after each step of opening they exchange their errors. Internal to the nccl backend.
#pragma once

#include <memory>

#include "shardproof/backends/cuda/device.h"
#include "shardproof/backends/nccl/nccl_session.h"
#include "shardproof/backends/remote/exchange/transport.h"

namespace shardproof {

class PutWindow {
 public:
  // Opens it in every process of the session at once. Uses the device's current stream.
  PutWindow(NcclSession& session, std::shared_ptr<Device> device, int64_t bytes);
  ~PutWindow();
  PutWindow(const PutWindow&) = delete;
  PutWindow& operator=(const PutWindow&) = delete;

  // Returns why there is none, the same text in all processes; empty: it is open.
  const std::string& error() const { return error_; }
  NcclComm comm() const { return comm_; }
  // Issues a put or the wait for one on the current stream. Returns NCCL's code.
  int issue(const Exchange& exchange);
  // Copies a put that has landed out of the window; enqueue it after the wait.
  void copy_out(const Exchange& exchange);

 private:
  void make_communicator();
  void allocate_window();
  void register_window();
  void signal_next();
  void await_signal();
  void await(int code);
  bool ends(NcclComm comm, int code);
  bool exchange_errors();
  void close() noexcept;

  NcclSession& session_;
  std::shared_ptr<Device> device_;
  int64_t bytes_;
  std::string error_;
  NcclComm comm_ = nullptr;
  NcclWindowHandle* window_ = nullptr;
  void* memory_ = nullptr;
};

}  // namespace shardproof
