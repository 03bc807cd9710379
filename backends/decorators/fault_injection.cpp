// Implements fault_injection.h.
//
// At each call the context counts the calls of its ranks and looks for faults that are due. Faults
// hang and die stop the host, delay lets time pass, slow scales work. Fault skip replaces the call
// by work that fills its output. Fault corrupt changes one element of the input, or of a received
// tensor.
#include <algorithm>
#include <cstring>
#include <deque>

#include "shardproof/backends/decorators/fault_injection.h"
#include "shardproof/backends/decorators/forwarding_context.h"

namespace shardproof {
namespace {

// Changes an element: x becomes -x-1, or -x+1 if it is negative. Integers and bool are inverted. In
// a complex number the real part changes.
void corrupt_element(std::byte* element, DType dtype) {
  if (dtype == DType::boolean) {
    store_i64(element, dtype, load_i64(element, dtype) == 0 ? 1 : 0);
    return;
  }
  if (is_integral(dtype)) {
    for (int64_t i = 0; i < size_of(dtype); ++i) element[i] = ~element[i];
    return;
  }
  const DType part = component_dtype(dtype);
  const double x = load_f64(element, part);
  store_f64(element, part, x < 0 ? -x + 1 : -x - 1);
}

// Changes the element with this index in the flat tensor.
void corrupt_at(std::byte* data, const Tensor& tensor, int64_t element) {
  if (element < tensor.elements())
    corrupt_element(data + element * size_of(tensor.dtype), tensor.dtype);
}

// Returns a tensor of the same form with a buffer of its own, without contents.
LocalTensor blank_of(const LocalTensor& tensor) {
  std::vector<Block> blocks = tensor.blocks();
  for (Block& block : blocks) {
    auto buffer = std::make_shared<Buffer>();
    buffer->lanes = block.lanes;
    buffer->slots = Slots::shared(block.lanes.size());
    buffer->bytes_per_lane = block.tensor.elements() * size_of(block.tensor.dtype);
    block.tensor.buffer = std::move(buffer);
    block.tensor.offset = 0;
  }
  return LocalTensor(std::move(blocks));
}

bool has_contents(const LocalTensor& tensor) {
  return !tensor.empty() && tensor.blocks()[0].tensor.buffer->bytes.size() != 0;
}

// Fills the one-lane `target` with the flat contents of `source` if they have its length, else
// zeros.
void overwrite(LocalTensor& target, const Tensor* source) {
  for (Block& block : target.blocks()) {
    Buffer& buffer = *block.tensor.buffer;
    const int64_t bytes = block.tensor.elements() * size_of(block.tensor.dtype);
    if (buffer.bytes.size() == 0) buffer.bytes = Bytes::zeros(buffer.bytes_per_lane);
    separate(buffer, block.lanes);
    if (bytes == 0) continue;
    std::byte* data = block.tensor.mutate(block.slot(0));
    const bool same = source != nullptr && source->elements() * size_of(source->dtype) == bytes;
    if (same) {
      std::memcpy(data, source->data(), static_cast<size_t>(bytes));
    } else {
      std::memset(data, 0, static_cast<size_t>(bytes));
    }
  }
}

class FaultyContext : public ForwardingContext {
 public:
  FaultyContext(ExecutionContext& inner, Lanes lanes, std::vector<Fault> faults)
      : ForwardingContext(inner), lanes_(std::move(lanes)), faults_(std::move(faults)) {
    fired_.assign(faults_.size(), false);
    brought_.assign(faults_.size(), -1);
  }

  CohortState state() override {
    return stopped_ == CohortState::running ? inner().state() : stopped_;
  }

  void finish() override {
    if (state() != CohortState::running) return;
    finished_ = true;
    inner().finish();
  }

  // Reports faults that did not happen although their rank has ended.
  void tell_unfired(std::vector<std::string>& texts) const {
    for (size_t i = 0; i < faults_.size() && finished_; ++i) {
      const Fault& fault = faults_[i];
      if (fired_[i] || fault.kind == FaultKind::slow) continue;
      texts.push_back(to_string(fault) + ": " +
                      (brought_[i] < 0 ? place_missed(fault) : element_missed(fault, brought_[i])));
    }
  }

  Ticket launch(Work work) override {
    for (const Fault& fault : faults_) {
      if (fault.kind != FaultKind::slow) continue;
      if (lanes_.size() > 1) halt(CohortState::hung);
      work.flops *= fault.factor;
      work.bytes *= fault.factor;
    }
    return inner().launch(std::move(work));
  }

  Ticket submit(std::span<Call> calls, StreamId stream) override {
    const std::vector<std::vector<Fault>> due = fire(calls);
    // A host that stops at one call of a group has started none of its calls.
    if (stopped_ != CohortState::running) return inner().submit(calls, stream);
    std::vector<Call> kept;
    std::vector<std::pair<LocalTensor, Fault>> arriving;
    Ticket ticket = kDone;
    for (size_t i = 0; i < calls.size(); ++i) {
      Call& call = calls[i];
      bool skipped = false;
      for (const Fault& fault : due[i]) {
        if (fault.kind == FaultKind::skip) skipped = true;
        if (fault.kind != FaultKind::corrupt) continue;
        if (call.collective.kind != CollectiveKind::recv) {
          corrupt_input(call, stream, fault.element);
        } else if (call.output != nullptr) {
          arriving.emplace_back(*call.output, fault);
        }
      }
      if (skipped) {
        ticket = substitute(call, stream);
      } else {
        kept.push_back(std::move(call));
      }
    }
    if (!kept.empty()) ticket = inner().submit(kept, stream);
    for (auto& [output, fault] : arriving) ticket = corrupt_arrived(output, stream, fault.element);
    return ticket;
  }

 private:
  // Returns the faults due at each call. Those that stop the host or take time have effect here.
  std::vector<std::vector<Fault>> fire(std::span<const Call> calls) {
    std::vector<std::vector<Fault>> due;
    for (const Call& call : calls)
      for (const Fault& fault : due.emplace_back(faults_of(call))) {
        if (lanes_.size() > 1 || fault.kind == FaultKind::hang) halt(CohortState::hung);
        if (fault.kind == FaultKind::die) halt(CohortState::dead);
        if (stopped_ != CohortState::running) return due;
        if (fault.kind == FaultKind::delay) inner().elapse(fault.by);
      }
    return due;
  }

  std::string place_missed(const Fault& fault) const {
    if (fault.call == 0)
      return fmt::format("rank {} makes no call at line {}", fault.rank, fault.line);
    const int64_t made = calls_[lanes_.index_of(fault.rank)];
    return fmt::format("rank {} makes {} call{}", fault.rank, made, made == 1 ? "" : "s");
  }

  static std::string element_missed(const Fault& fault, int64_t brought) {
    const std::string where = fault.call == 0 ? fmt::format("the call at line {}", fault.line)
                                              : fmt::format("call {}", fault.call);
    return fmt::format("{} of rank {} is about {} element{}", where, fault.rank, brought,
                       brought == 1 ? "" : "s");
  }

  // Returns the input elements of a rank in a call; for a receive, the elements that arrive.
  static int64_t elements_of(const Call& call, int32_t rank) {
    const bool arrives = call.collective.kind == CollectiveKind::recv;
    const LocalTensor* tensor = arrives ? call.output : call.input;
    if (tensor == nullptr || tensor->empty()) return 0;
    for (const Block& block : tensor->blocks())
      if (block.lanes.contains(rank)) return block.tensor.elements();
    return 0;
  }

  void halt(CohortState how) {
    if (stopped_ != CohortState::running) return;
    stopped_ = how;
    inner().stop(how);
  }

  static bool counts(const Collective& c) {
    const bool one_sided = c.kind == CollectiveKind::put || c.kind == CollectiveKind::signal ||
                           c.kind == CollectiveKind::wait_signal;
    return !one_sided && (c.group.size() > 1 || is_point_to_point(c.kind));
  }

  // Returns the faults due at this call. Each happens once.
  std::vector<Fault> faults_of(const Call& call) {
    std::vector<Fault> due;
    if (!counts(call.collective)) return due;
    for (int64_t i = 0; i < call.lanes.size(); ++i)
      ++calls_.at(lanes_.index_of(call.lanes[i]), lanes_.size());
    for (size_t i = 0; i < faults_.size(); ++i) {
      const Fault& fault = faults_[i];
      if (fired_[i] || fault.kind == FaultKind::slow || !call.lanes.contains(fault.rank)) continue;
      const bool here = fault.call != 0 ? calls_[lanes_.index_of(fault.rank)] == fault.call
                                        : call.site.line == fault.line;
      if (!here) continue;
      if (fault.kind == FaultKind::corrupt) {
        brought_[i] = elements_of(call, fault.rank);
        if (fault.element >= brought_[i]) continue;
      }
      fired_[i] = true;
      due.push_back(fault);
    }
    return due;
  }

  // The stream makes the corrupted copy when it reaches the call, because only then the input has
  // its contents.
  void corrupt_input(Call& call, StreamId stream, int64_t element) {
    if (call.input == nullptr || call.input->empty()) return;
    LocalTensor& copy = copies_.emplace_back(blank_of(*call.input));
    run(call, stream, [target = copy, source = *call.input, element]() mutable {
      if (!has_contents(source)) return;
      Tensor tensor = source.of_rank(source.blocks()[0].lanes[0]);
      corrupt_at(tensor.mutate(), tensor, element);
      overwrite(target, &tensor);
    });
    call.input = &copy;
  }

  Ticket corrupt_arrived(const LocalTensor& output, StreamId stream, int64_t element) {
    Work work;
    work.lanes = lanes_;
    work.stream = stream;
    work.body = [target = output, element]() mutable {
      if (!has_contents(target)) return;
      Block& block = target.blocks()[0];
      separate(*block.tensor.buffer, block.lanes);
      corrupt_at(block.tensor.mutate(block.slot(0)), block.tensor, element);
    };
    return inner().launch(std::move(work));
  }

  // Fills the output of a skipped call: with its input if that has the same length, else with
  // zeros.
  Ticket substitute(const Call& call, StreamId stream) {
    if (call.output == nullptr || call.output->empty()) return kDone;
    const LocalTensor source = call.input == nullptr ? LocalTensor() : *call.input;
    return run(call, stream, [target = *call.output, source]() mutable {
      if (!has_contents(source)) return overwrite(target, nullptr);
      const Tensor own = source.of_rank(source.blocks()[0].lanes[0]);
      overwrite(target, &own);
    });
  }

  Ticket run(const Call& call, StreamId stream, std::function<void()> body) {
    Work work;
    work.lanes = call.lanes;
    work.stream = stream;
    work.site = call.site;
    work.body = std::move(body);
    return inner().launch(std::move(work));
  }

  Lanes lanes_;
  std::vector<Fault> faults_;
  std::vector<bool> fired_;
  std::vector<int64_t> brought_;  // elements of the call that a corrupt fault met; -1: none
  PerLane<int64_t> calls_;
  std::deque<LocalTensor> copies_;
  CohortState stopped_ = CohortState::running;
  bool finished_ = false;
};

class FaultyWorld : public World {
 public:
  FaultyWorld(std::unique_ptr<World> world, std::vector<Fault> faults)
      : inner_(std::move(world)), faults_(std::move(faults)) {}
  ExecutionContext& open(const Lanes& cohort) override {
    std::vector<Fault> own;
    for (const Fault& fault : faults_)
      if (cohort.contains(fault.rank)) own.push_back(fault);
    if (own.empty()) return inner_->open(cohort);
    return contexts_.emplace_back(inner_->open(cohort), cohort, std::move(own));
  }
  bool progress() override { return inner_->progress(); }
  std::optional<std::vector<int32_t>> collect_ready_ranks() override {
    return inner_->collect_ready_ranks();
  }
  WorldReport close() override { return inner_->close(); }
  WorldProcesses* processes() override { return inner_->processes(); }
  std::vector<Record> measured_records() const override { return inner_->measured_records(); }
  std::vector<std::string> unfired_faults() const override {
    std::vector<std::string> texts;
    for (const FaultyContext& context : contexts_) context.tell_unfired(texts);
    return texts;
  }

 private:
  std::unique_ptr<World> inner_;
  std::vector<Fault> faults_;
  std::deque<FaultyContext> contexts_;
};

}  // namespace

std::vector<Fault> faults_of(const WorldOptions& options) {
  std::vector<Fault> faults = parse_faults(options.faults);
  for (const Fault& fault : faults)
    if (fault.rank >= options.ranks)
      throw_bad_input("fault \"{}\": the world has {} ranks", to_string(fault), options.ranks);
  return faults;
}

std::unique_ptr<World> faulty(std::unique_ptr<World> world, std::vector<Fault> faults) {
  return std::make_unique<FaultyWorld>(std::move(world), std::move(faults));
}

}  // namespace shardproof
