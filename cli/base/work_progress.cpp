// Implements work_progress.h. One thread sleeps between two lines.
#include "shardproof/cli/base/work_progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "shardproof/cli/base/console.h"

namespace shardproof {
namespace {

constexpr std::chrono::milliseconds kRedraw{200}, kNextLine{10'000};
constexpr size_t kMostNames = 4;
constexpr int kColumns = 78;  // of a line on a terminal

}  // namespace

WorkProgress::WorkProgress(std::string command, std::string unit, size_t total)
    : command_(std::move(command)),
      unit_(std::move(unit)),
      total_(total),
      redraws_(stdout_redraws() && isatty(STDERR_FILENO) == 1),
      thread_([this] { show_until_done(); }) {}

WorkProgress::~WorkProgress() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void WorkProgress::begin(const std::string& name) {
  const std::lock_guard lock(mutex_);
  ++running_[name];
}

void WorkProgress::end(const std::string& name) {
  const std::lock_guard lock(mutex_);
  ++done_;
  if (--running_[name] == 0) running_.erase(name);
}

std::string WorkProgress::line() const {
  const std::lock_guard lock(mutex_);
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start_);
  std::string text =
      fmt::format("{}: {} of {} {}, {} s", command_, done_, total_, unit_, seconds.count());
  size_t shown = 0;
  for (const auto& [name, count] : running_) {
    if (++shown > kMostNames) break;
    text += (shown == 1 ? "; now " : ", ") + name;
  }
  if (running_.size() > kMostNames) text += ", ..";
  return text;
}

void WorkProgress::show_until_done() {
  bool shown = false;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, redraws_ ? kRedraw : kNextLine, [&] { return ends_; })) break;
    }
    const std::string text = line();
    if (redraws_)
      fmt::print(stderr, "\r{:<{}.{}}", text, kColumns, kColumns);
    else
      fmt::print(stderr, "{}\n", text);
    std::fflush(stderr);
    shown = true;
  }
  if (redraws_ && shown) fmt::print(stderr, "\r{:{}}\r", "", kColumns);
}

}  // namespace shardproof
