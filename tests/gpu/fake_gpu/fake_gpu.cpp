// Implements FakeGpu and its CudaApi: every function of the table queues work on the machine.
#include "shardproof/tests/gpu/fake_gpu/fake_gpu.h"

#include <algorithm>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/tensor/device_memory.h"
#include "shardproof/tests/gpu/fake_gpu/machine.h"

namespace shardproof {
namespace {

using Machine = FakeGpu::Machine;
using MachinePointer = std::shared_ptr<Machine>;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDriver = 35, kInvalidHandle = 400,
              kNotReady = 600, kCaptureUnsupported = 900, kCaptureIsolation = 905,
              kCapturedEvent = 907;
constexpr int kPoison = 0xAB;
constexpr size_t kMostPoison = 64 << 10;  // bytes: touched pages make every opening slower

FakeGpuEvent& event_of(void* event) { return *static_cast<FakeGpuEvent*>(event); }

void describe_devices(CudaApi& api, const MachinePointer& m) {
  api.oldest_capability = 80;
  api.driver_version = [m](int* version) { return *version = m->options.driver_version, 0; };
  api.runtime_version = [](int* version) { return *version = 13000, 0; };
  api.device_count = [m](int* count) {
    return m->options.driver_version == 0 ? kNoDriver : (*count = m->options.devices, 0);
  };
  api.device_facts = [m](int ordinal, CudaDeviceFacts* facts) {
    *facts = {"fake GPU", m->options.device_bytes, m->options.capability / 10,
              m->options.capability % 10};
    return ordinal < m->options.devices ? 0 : kInvalidValue;
  };
  api.set_device = [m](int ordinal) {
    const std::lock_guard guard(m->lock);
    m->selected[std::this_thread::get_id()] = ordinal;
    return ordinal < m->options.devices ? 0 : kInvalidValue;
  };
  api.error_text = [](int status) { return fmt::format("status {}", status); };
  api.last_error = [] { return 0; };
  api.keep_in_pool = [](int, uint64_t) { return 0; };
  api.trim_pool = [](int) { return 0; };
}

int copy(Machine* m, void* to, const void* from, size_t bytes, CudaCopy way, void* stream) {
  const std::lock_guard guard(m->lock);
  if (way != CudaCopy::on_device && stream_of(stream).recorded_by != nullptr)
    return kCaptureUnsupported;
  if (m->record(stream_of(stream), [=] { copy(m, to, from, bytes, way, stream); })) return 0;
  // Pageable memory of the host is read at once; the copy may wait for its stream.
  if (way == CudaCopy::to_device) m->drain(stream_of(stream));
  std::vector<std::byte> staged;
  if (way == CudaCopy::to_device)
    staged.assign(static_cast<const std::byte*>(from), static_cast<const std::byte*>(from) + bytes);
  const auto size = static_cast<int64_t>(bytes);
  const auto run = [=, arena = &m->arena_of(stream_of(stream)), staged = std::move(staged)] {
    SP_CHECK(way == CudaCopy::to_host || arena->holds(to, size),
             "a copy to an address that is not device memory");
    SP_CHECK(way == CudaCopy::to_device || arena->holds(from, size),
             "a copy from an address that is not device memory");
    std::memcpy(to, way == CudaCopy::to_device ? staged.data() : from, bytes);
    return true;
  };
  m->enqueue(stream_of(stream), {{}, run});
  if (way == CudaCopy::to_host) m->drain(stream_of(stream));
  return 0;
}

int copy_rows(Machine* m, const MatrixCopy& rows, void* stream) {
  const std::lock_guard guard(m->lock);
  if (rows.to_pitch < rows.width || rows.from_pitch < rows.width) return kInvalidValue;
  if (m->record(stream_of(stream), [=] { copy_rows(m, rows, stream); })) return 0;
  const auto run = [rows, arena = &m->arena_of(stream_of(stream))] {
    const int64_t before_last = rows.rows - 1;
    SP_CHECK(arena->holds(rows.to, before_last * rows.to_pitch + rows.width) &&
                 arena->holds(rows.from, before_last * rows.from_pitch + rows.width),
             "rows are copied to or from an address that is not device memory");
    for (int64_t i = 0; i < rows.rows; ++i)
      std::memcpy(rows.to + i * rows.to_pitch, rows.from + i * rows.from_pitch,
                  static_cast<size_t>(rows.width));
    return true;
  };
  m->enqueue(stream_of(stream), {{}, run});
  return 0;
}

int clear(Machine* m, void* to, size_t bytes, void* stream) {
  const std::lock_guard guard(m->lock);
  if (m->record(stream_of(stream), [=] { clear(m, to, bytes, stream); })) return 0;
  const auto run = [=, arena = &m->arena_of(stream_of(stream))] {
    SP_CHECK(arena->holds(to, static_cast<int64_t>(bytes)),
             "an address that is not device memory is cleared");
    std::memset(to, 0, bytes);
    return true;
  };
  m->enqueue(stream_of(stream), {{}, run});
  return 0;
}

void hold_memory(CudaApi& api, const MachinePointer& m) {
  api.allocate = [m](void** memory, size_t bytes, void* stream) {
    const std::lock_guard guard(m->lock);
    if (bytes == 0) return kInvalidValue;
    Arena& arena = m->arena_of(stream_of(stream));
    // Freed memory is available only when its queue has reached the free.
    *memory = arena.allocate(static_cast<int64_t>(bytes));
    SP_CHECK(stream_of(stream).device == m->selected_by_this_thread(),
             "memory is allocated on a stream of another device");
    if (*memory == nullptr) return kOutOfMemory;
    // No stream may use it that is not ordered after this.
    const auto poison = [memory = *memory, bytes = std::min(bytes, kMostPoison)] {
      std::memset(memory, kPoison, bytes);
      return true;
    };
    m->enqueue(stream_of(stream), {{}, poison});
    return 0;
  };
  api.release = [m](void* memory, void* stream) {
    const std::lock_guard guard(m->lock);
    const auto run = [arena = &m->arena_of(stream_of(stream)), memory] {
      return arena->release(memory), true;
    };
    m->enqueue(stream_of(stream), {{}, run});
    return 0;
  };
  api.copy = [m](void* to, const void* from, size_t bytes, CudaCopy way, void* stream) {
    return copy(m.get(), to, from, bytes, way, stream);
  };
  api.copy_rows = [m](const MatrixCopy& rows, void* stream) {
    return copy_rows(m.get(), rows, stream);
  };
  api.clear = [m](void* to, size_t bytes, void* stream) {
    return clear(m.get(), to, bytes, stream);
  };
}

void order_streams(CudaApi& api, const MachinePointer& m) {
  api.make_stream = [m](void** stream) {
    const std::lock_guard guard(m->lock);
    auto made = std::make_unique<FakeGpuStream>();
    made->machine = m.get();
    made->device = m->selected_by_this_thread();
    made->number = m->made_streams++;
    *stream = m->streams.emplace_back(std::move(made)).get();
    return 0;
  };
  api.drop_stream = [m](void* stream) {
    const std::lock_guard guard(m->lock);
    m->drain(stream_of(stream));
    for (const auto& event : m->events)
      if (event->stream == stream) event->stream = nullptr;
    std::erase_if(m->streams, [&](const auto& each) { return each.get() == stream; });
    return 0;
  };
  api.synchronize_stream = [m](void* stream) {
    const std::lock_guard guard(m->lock);
    if (stream_of(stream).recorded_by != nullptr) return kCaptureUnsupported;
    m->drain(stream_of(stream));
    return 0;
  };
}

int record_event(Machine* m, void* event, void* stream) {
  const std::lock_guard guard(m->lock);
  FakeGpuEvent& recorded = event_of(event);
  SP_CHECK(recorded.device == stream_of(stream).device,
           "an event of GPU {} is recorded in a stream of GPU {}", recorded.device,
           stream_of(stream).device);
  recorded.recorded_by = stream_of(stream).recorded_by;
  recorded.stream = &stream_of(stream);
  if (recorded.recorded_by != nullptr) {
    recorded.item = recorded.recorded_by->items.size();
    recorded.in_graph = &m->make_event(recorded.device);
    m->record(stream_of(stream), [=, own = recorded.in_graph] { record_event(m, own, stream); });
    return 0;
  }
  const int64_t number = ++recorded.records;
  m->write_trace(stream_of(stream), fmt::format("record {}.{}", recorded.number, number));
  const auto reach = [&recorded, number, m] {
    recorded.reached.insert(number);
    recorded.time = m->clock;
    return true;
  };
  m->enqueue(stream_of(stream), {reach, {}});
  return 0;
}

int wait_event(Machine* m, void* stream, void* event) {
  const std::lock_guard guard(m->lock);
  FakeGpuEvent& recorded = event_of(event);
  FakeGpuStream& waiting = stream_of(stream);
  if (waiting.recorded_by == nullptr) waiting.recorded_by = recorded.recorded_by;
  if (FakeGpuGraph* const graph = waiting.recorded_by; graph != nullptr) {
    if (recorded.recorded_by != graph) return kCaptureIsolation;
    if (graph->origin == &waiting) graph->joined[recorded.stream] = recorded.item;
    m->record(waiting, [=, own = recorded.in_graph] { wait_event(m, stream, own); });
    return 0;
  }
  m->write_trace(waiting, fmt::format("wait {}.{}", recorded.number, recorded.records));
  if (!m->options.waits) return 0;
  const auto reached = [&recorded, number = recorded.records] {
    return number == 0 || recorded.reached.contains(number);
  };
  m->enqueue(waiting, {reached, {}});
  return 0;
}

void record_events(CudaApi& api, const MachinePointer& m) {
  api.make_event = [m](void** event) {
    const std::lock_guard guard(m->lock);
    *event = &m->make_event(m->selected_by_this_thread());
    return 0;
  };
  // Queued work may still name the event, so the machine keeps it.
  api.drop_event = [](void*) { return 0; };
  api.record_event = [m](void* event, void* stream) {
    return record_event(m.get(), event, stream);
  };
  api.wait_event = [m](void* stream, void* event) { return wait_event(m.get(), stream, event); };
  api.query_event = [m](void* event, bool* reached) {
    const std::lock_guard guard(m->lock);
    if (event_of(event).recorded_by != nullptr) return kCapturedEvent;
    m->advance_by_chance(event_of(event).stream);
    *reached =
        event_of(event).records == 0 || event_of(event).reached.contains(event_of(event).records);
    return 0;
  };
  api.elapsed = [m](float* milliseconds, void* from, void* to) {
    const std::lock_guard guard(m->lock);
    SP_CHECK(event_of(from).device == event_of(to).device, "a time between events of two GPUs");
    for (void* const event : {from, to}) {
      const FakeGpuEvent& recorded = event_of(event);
      m->advance_by_chance(recorded.stream);
      if (recorded.records == 0) return kInvalidHandle;
      if (!recorded.reached.contains(recorded.records)) return kNotReady;
    }
    *milliseconds = static_cast<float>(event_of(to).time - event_of(from).time);
    return 0;
  };
}

}  // namespace

FakeGpu::FakeGpu(const FakeGpuOptions& options) : machine_(std::make_shared<Machine>(options)) {}

CudaApi FakeGpu::api() const {
  CudaApi api;
  api.absent.clear();
  describe_devices(api, machine_);
  hold_memory(api, machine_);
  order_streams(api, machine_);
  record_events(api, machine_);
  multiply_matrices(api, machine_);
  record_graphs(api, machine_);
  return api;
}

int64_t FakeGpu::products_of_widened() const {
  const std::lock_guard guard(machine_->lock);
  return machine_->products_of_widened;
}

int64_t FakeGpu::products_of_8_bits() const {
  const std::lock_guard guard(machine_->lock);
  return machine_->products_of_8_bits;
}

int64_t FakeGpu::products() const {
  const std::lock_guard guard(machine_->lock);
  return machine_->products;
}

int64_t FakeGpu::bytes_in_use() const {
  const std::lock_guard guard(machine_->lock);
  int64_t bytes = 0;
  for (const auto& arena : machine_->arenas) bytes += arena->in_use();
  return bytes;
}

}  // namespace shardproof
