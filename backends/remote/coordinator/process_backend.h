// CoordinatedBackend and WorkerBackend: the two forms of a backend of several processes, over its
// common base (name, availability). The first runs in the process that coordinates, the second in
// each worker. Internal to backends of real processes.
#pragma once

#include <utility>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/remote/coordinator/coordinator.h"
#include "shardproof/backends/remote/worker/worker.h"

namespace shardproof {

// Owns the coordinator, and with it the processes.
template <typename Base>
class CoordinatedBackend : public Base {
 public:
  // `base`: arguments of Base's constructor.
  template <typename... Args>
  CoordinatedBackend(const WorkerPoolOptions& options, std::unique_ptr<Starter> starter,
                     Args&&... base)
      : Base(std::forward<Args>(base)...), coordinator_(options, std::move(starter)) {}
  std::unique_ptr<World> start(const WorldOptions& options) override {
    faults_of(options);  // throws for bad faults before a process is started
    return coordinator_.start(options);
  }
  WorkerPool* pool() override { return &coordinator_; }

 protected:
  const Coordinator& coordinator() const { return coordinator_; }

 private:
  Coordinator coordinator_;
};

// Owns the connection to the coordinator, and the transport.
template <typename Base>
class WorkerBackend : public Base {
 public:
  template <typename... Args>
  WorkerBackend(const WorkerPoolOptions& options, std::unique_ptr<Transport> transport,
                Args&&... base)
      : Base(std::forward<Args>(base)...), link_(options, std::move(transport)) {}
  std::optional<std::string> not_viable() const override { return std::nullopt; }
  std::unique_ptr<World> start(const WorldOptions& options) override {
    return worker_world(link_, options);
  }
  WorkerPool* pool() override { return &link_; }

 private:
  WorkerLink link_;
};

}  // namespace shardproof
