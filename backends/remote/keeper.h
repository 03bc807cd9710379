// The keeper: a process that does nothing but watch one worker, its child, and tell the
// coordinator how that ended. Only a parent learns by which signal.
#pragma once

#include <string>

namespace shardproof {

// Forks; returns in the child, which becomes the worker and ends when its keeper does. Before any
// thread is started.
void keep_worker(const std::string& address, int process);

}  // namespace shardproof
