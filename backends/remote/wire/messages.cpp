// Implements messages.h: writes and reads each value field by field, in the order of the table
// there.
#include <cstring>

#include "shardproof/backends/remote/wire/messages.h"
#include "shardproof/localtensor/tensor/copy_strided.h"

namespace shardproof {

// --- lanes, groups, texts ------------------------------------------------------------------------

void write_lanes(WireWriter& out, const Lanes& lanes) {
  if (lanes.is_range()) {
    const int64_t first = lanes.empty() ? 0 : lanes[0];
    out.add(int64_t{1});
    out.add(first);
    out.add(first + lanes.size());
    return;
  }
  out.add(int64_t{0});
  out.add(lanes.size());
  for (int64_t i = 0; i < lanes.size(); ++i) out.add(int64_t{lanes[i]});
}

Lanes read_lanes(WireReader& in) {
  if (in.number() == 1) {
    const int64_t first = in.number();
    return Lanes::range(first, in.number());
  }
  std::vector<int32_t> ranks(static_cast<size_t>(in.number()));
  for (int32_t& rank : ranks) rank = static_cast<int32_t>(in.number());
  return Lanes::of(std::move(ranks));
}

namespace {

// Makes a group of mesh axes from its siblings. The mesh has one axis more, for the siblings. So
// the group has the same name and key as the sender's, whatever mesh that was cut from.
Group group_of_siblings(WireReader& in, int64_t count) {
  std::vector<std::pair<std::string, int64_t>> sizes{{"siblings", count}};
  std::vector<int> axes(static_cast<size_t>(in.number()));
  int64_t all = count;
  for (size_t i = 0; i < axes.size(); ++i) {
    axes[i] = static_cast<int>(i) + 1;
    std::string name(in.text());
    if (name == sizes[0].first) sizes[0].first += "_of_it";
    sizes.emplace_back(std::move(name), in.number());
    all *= sizes.back().second;
  }
  std::vector<int32_t> ranks(static_cast<size_t>(all));
  for (int32_t& rank : ranks) rank = static_cast<int32_t>(in.number());
  return Group::of_axes(Mesh::make(std::move(sizes), std::move(ranks)), std::move(axes));
}

}  // namespace

void WireDictionary::write_group(WireWriter& out, const Group& group) {
  const auto [sent, fresh] = sent_groups_.emplace(std::pair(group.key(), group.name()),
                                                  static_cast<int64_t>(sent_groups_.size()));
  out.add(sent->second);
  if (!fresh) return;
  const bool listed = group.axes().empty();
  out.add(listed ? int64_t{0} : group.count());
  if (listed) {
    out.add(group.name());
    out.add(group.size());
  } else {
    out.add(static_cast<int64_t>(group.axes().size()));
    for (int axis : group.axes()) {
      const MeshAxis& mesh_axis = group.mesh().axes()[static_cast<size_t>(axis)];
      out.add(mesh_axis.name);
      out.add(mesh_axis.size);
    }
  }
  for (int64_t sibling = 0; sibling < group.count(); ++sibling)
    for (int32_t rank : group.members(sibling)) out.add(int64_t{rank});
}

const Group& WireDictionary::read_group(WireReader& in) {
  const auto number = static_cast<size_t>(in.number());
  if (number < groups_.size()) return groups_[number];
  if (const int64_t count = in.number(); count != 0)
    return groups_.emplace_back(group_of_siblings(in, count));
  std::string name(in.text());
  std::vector<int32_t> ranks(static_cast<size_t>(in.number()));
  for (int32_t& rank : ranks) rank = static_cast<int32_t>(in.number());
  return groups_.emplace_back(Group::of_ranks(std::move(name), std::move(ranks)));
}

void WireDictionary::write_text(WireWriter& out, std::string_view text) {
  const auto known = sent_texts_.find(text);
  if (known != sent_texts_.end()) return out.add(known->second);
  const auto number = static_cast<int64_t>(sent_texts_.size());
  sent_texts_.emplace(text, number);
  out.add(number);
  out.add(text);
}

std::string_view WireDictionary::read_text(WireReader& in) {
  const auto number = static_cast<size_t>(in.number());
  if (number < texts_.size()) return texts_[number];
  return texts_.emplace_back(in.text());
}

// --- calls ---------------------------------------------------------------------------------------

namespace {

void write_sizes(WireWriter& out, const LocalTensor* tensor) {
  if (tensor == nullptr) return out.add(int64_t{-1});
  out.add(static_cast<int64_t>(tensor->blocks().size()));
  for (const Block& block : tensor->blocks()) {
    write_lanes(out, block.lanes);
    out.add(static_cast<int64_t>(block.tensor.dtype));
    out.add(block.tensor.elements());
  }
}

Block bare_block(Lanes lanes, DType dtype, const Dims& shape) {
  auto buffer = std::make_shared<Buffer>();
  buffer->lanes = lanes;
  buffer->slots = Slots::shared(lanes.size());
  buffer->bytes_per_lane = element_count(shape) * size_of(dtype);
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.strides = contiguous_strides(shape);
  tensor.buffer = std::move(buffer);
  return {std::move(lanes), std::move(tensor)};
}

LocalTensor* read_sizes(WireReader& in, std::deque<LocalTensor>& tensors) {
  const int64_t count = in.number();
  if (count < 0) return nullptr;
  std::vector<Block> blocks;
  for (int64_t i = 0; i < count; ++i) {
    Lanes lanes = read_lanes(in);
    const DType dtype = static_cast<DType>(in.number());
    blocks.push_back(bare_block(std::move(lanes), dtype, Dims{in.number()}));
  }
  return &tensors.emplace_back(blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks)));
}

void write_tables(WireWriter& out, const std::vector<std::vector<int64_t>>& tables) {
  out.add(static_cast<int64_t>(tables.size()));
  for (const std::vector<int64_t>& table : tables) out.add(table);
}

std::vector<std::vector<int64_t>> read_tables(WireReader& in) {
  std::vector<std::vector<int64_t>> tables(static_cast<size_t>(in.number()));
  for (std::vector<int64_t>& table : tables) table = in.numbers();
  return tables;
}

}  // namespace

void write_call(WireWriter& out, WireDictionary& dictionary, const Call& call) {
  const Collective& c = call.collective;
  dictionary.write_group(out, c.group);
  for (const int64_t value :
       {static_cast<int64_t>(c.kind), static_cast<int64_t>(c.reduction.op),
        static_cast<int64_t>(c.dtype), c.count, c.root, c.peer, c.slot, c.repeat,
        static_cast<int64_t>(c.schedule.order), static_cast<int64_t>(c.schedule.protocol),
        int64_t{c.schedule.channels}, int64_t{c.schedule.nodes}, int64_t{c.schedule.nccl},
        call.row_elements, static_cast<int64_t>(call.site.line)})
    out.add(value);
  out.add_real(c.reduction.scalar);
  out.add(c.send_counts);
  out.add(c.recv_counts);
  write_lanes(out, call.lanes);
  out.add(call.peers);
  write_tables(out, call.send_counts);
  write_tables(out, call.recv_counts);
  dictionary.write_text(out, call.site.text);
  dictionary.write_text(out, call.site.instance);
  write_sizes(out, call.input);
  write_sizes(out, call.output);
}

Call read_call(WireReader& in, WireDictionary& dictionary, std::deque<LocalTensor>& tensors) {
  Call call;
  Collective& c = call.collective;
  c.group = dictionary.read_group(in);
  c.kind = static_cast<CollectiveKind>(in.number());
  c.reduction.op = static_cast<ReduceOp>(in.number());
  c.dtype = static_cast<DType>(in.number());
  c.count = in.number();
  c.root = in.number();
  c.peer = in.number();
  c.slot = in.number();
  c.repeat = in.number();
  c.schedule.order = static_cast<FoldOrder>(in.number());
  c.schedule.protocol = static_cast<NcclProtocol>(in.number());
  c.schedule.channels = static_cast<int>(in.number());
  c.schedule.nodes = static_cast<int>(in.number());
  c.schedule.nccl = static_cast<int>(in.number());
  call.row_elements = in.number();
  call.site.line = static_cast<int>(in.number());
  c.reduction.scalar = in.real();
  c.send_counts = in.numbers();
  c.recv_counts = in.numbers();
  call.lanes = read_lanes(in);
  call.peers = in.numbers();
  call.send_counts = read_tables(in);
  call.recv_counts = read_tables(in);
  call.site.text = dictionary.read_text(in);
  call.site.instance = dictionary.read_text(in);
  call.input = read_sizes(in, tensors);
  call.output = read_sizes(in, tensors);
  return call;
}

// --- tensors -------------------------------------------------------------------------------------

namespace {

// Returns the copies of the buffer that the block's lanes read, in order of first use. Appends to
// `table` the index of the copy that each lane reads.
std::vector<int64_t> copies_of(const Block& block, std::vector<int32_t>& table) {
  std::vector<int64_t> copies;
  std::map<int64_t, int32_t> known;
  for (int64_t i = 0; i < block.lanes.size(); ++i) {
    const auto [at, fresh] = known.emplace(block.slot(i), static_cast<int32_t>(copies.size()));
    if (fresh) copies.push_back(block.slot(i));
    table.push_back(at->second);
  }
  return copies;
}

}  // namespace

void write_tensor(WireWriter& out, const LocalTensor& value) {
  out.add(static_cast<int64_t>(value.blocks().size()));
  for (const Block& block : value.blocks()) {
    const Tensor& tensor = block.tensor;
    write_lanes(out, block.lanes);
    out.add(static_cast<int64_t>(tensor.dtype));
    out.add(std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end()));
    const int64_t bytes = tensor.elements() * size_of(tensor.dtype);
    std::vector<int32_t> table;
    std::vector<int64_t> copies;
    const bool empty = tensor.buffer->bytes.size() == 0 || bytes == 0;
    if (!empty) copies = copies_of(block, table);
    out.add(static_cast<int64_t>(copies.size()));
    if (copies.size() > 1) out.add_bytes(table.data(), table.size() * sizeof(int32_t));
    std::string dense(static_cast<size_t>(empty ? 0 : bytes), '\0');
    for (const int64_t copy : copies) {
      copy_strided(tensor.data(copy), tensor.strides, reinterpret_cast<std::byte*>(dense.data()),
                   contiguous_strides(tensor.shape), tensor.shape, size_of(tensor.dtype));
      out.add_bytes(dense.data(), dense.size());
    }
  }
}

LocalTensor read_tensor(WireReader& in) {
  std::vector<Block> blocks(static_cast<size_t>(in.number()));
  for (Block& block : blocks) {
    Lanes lanes = read_lanes(in);
    const DType dtype = static_cast<DType>(in.number());
    const std::vector<int64_t> shape = in.numbers();
    block = bare_block(std::move(lanes), dtype, Dims(std::span<const int64_t>(shape)));
    Buffer& buffer = *block.tensor.buffer;
    const int64_t copies = in.number();
    if (copies == 0) continue;
    if (copies > 1) {
      std::vector<int32_t> table(static_cast<size_t>(block.lanes.size()));
      const std::string_view bytes = in.read_bytes(table.size() * sizeof(int32_t));
      std::memcpy(table.data(), bytes.data(), bytes.size());
      buffer.slots = Slots::table(std::move(table));
    }
    const std::string_view bytes =
        in.read_bytes(static_cast<size_t>(copies * buffer.bytes_per_lane));
    buffer.bytes = Bytes::uninitialized(static_cast<int64_t>(bytes.size()));
    std::memcpy(buffer.bytes.mutate(), bytes.data(), bytes.size());
  }
  return blocks.empty() ? LocalTensor() : LocalTensor(std::move(blocks));
}

// --- errors and reports --------------------------------------------------------------------------

void write_benchmark_result(WireWriter& out, const BenchmarkResult& repeated) {
  out.add_real(repeated.seconds);
  out.add(repeated.wrong);
  out.add(static_cast<int64_t>(repeated.clock));
  out.add(int64_t{repeated.expected_seconds.has_value()});
  out.add_real(repeated.expected_seconds.value_or(0));
  out.add(repeated.not_captured);
  out.add(repeated.other_bits);
}

BenchmarkResult read_benchmark_result(WireReader& in) {
  BenchmarkResult repeated;
  repeated.seconds = in.real();
  repeated.wrong = in.number();
  repeated.clock = static_cast<TimedBy>(in.number());
  const bool expected = in.number() != 0;
  const double seconds = in.real();
  if (expected) repeated.expected_seconds = seconds;
  repeated.not_captured = in.text();
  repeated.other_bits = in.number();
  return repeated;
}

void write_options(WireWriter& out, const WorldOptions& options) {
  out.add(options.ranks);
  out.add(static_cast<int64_t>(options.schedule.kind));
  out.add(static_cast<int64_t>(options.schedule.seed));
  out.add(static_cast<int64_t>(options.faults.size()));
  for (const std::string& fault : options.faults) out.add(fault);
}

WorldOptions read_options(WireReader& in) {
  WorldOptions options;
  options.ranks = in.number();
  options.schedule.kind = static_cast<ScheduleKind>(in.number());
  options.schedule.seed = static_cast<uint64_t>(in.number());
  for (int64_t count = in.number(); count > 0; --count) options.faults.emplace_back(in.text());
  return options;
}

namespace {

void write_error(WireWriter& out, const Error& error) {
  out.add(static_cast<int64_t>(error.kind()));
  out.add(error.message());
  out.add(error.where().file);
  out.add(error.where().path);
  out.add(int64_t{error.where().line});
  out.add(int64_t{error.where().column});
}

Error read_error(WireReader& in) {
  const ErrorKind kind = static_cast<ErrorKind>(in.number());
  std::string message(in.text());
  Where where;
  where.file = in.text();
  where.path = in.text();
  where.line = static_cast<int>(in.number());
  where.column = static_cast<int>(in.number());
  return {kind, std::move(message), std::move(where)};
}

}  // namespace

void write_conclusion(WireWriter& out, const HostResult& conclusion) {
  out.add(int64_t{conclusion.finished});
  out.add(static_cast<int64_t>(conclusion.errors.size()));
  for (const Error& error : conclusion.errors) write_error(out, error);
  out.add(static_cast<int64_t>(conclusion.unfired_faults.size()));
  for (const std::string& fault : conclusion.unfired_faults) out.add(fault);
}

HostResult read_conclusion(WireReader& in) {
  HostResult conclusion;
  conclusion.finished = in.number() != 0;
  for (int64_t count = in.number(); count > 0; --count) conclusion.errors.push_back(read_error(in));
  for (int64_t count = in.number(); count > 0; --count)
    conclusion.unfired_faults.emplace_back(in.text());
  return conclusion;
}

void write_report(WireWriter& out, const WorldReport& report) {
  out.add(static_cast<int64_t>(report.findings.size()));
  for (const Finding& finding : report.findings) out.add(to_string(finding));
  out.add(int64_t{report.timed});
  out.add(int64_t{report.unpriced_work});
  out.add(int64_t{report.broken});
  out.add(report.time.ps);
  out.add(static_cast<int64_t>(report.rank_times.size()));
  for (const Duration time : report.rank_times) out.add(time.ps);
  out.add(report.peak_bytes);
  out.add(report.peak_by_category);
  out.add(report.peak_rank);
}

WorldReport read_report(WireReader& in) {
  WorldReport report;
  for (int64_t count = in.number(); count > 0; --count)
    report.findings.push_back(parse_finding(in.text()));
  report.timed = in.number() != 0;
  report.unpriced_work = in.number() != 0;
  report.broken = in.number() != 0;
  report.time.ps = in.number();
  report.rank_times.resize(static_cast<size_t>(in.number()));
  for (Duration& time : report.rank_times) time.ps = in.number();
  report.peak_bytes = in.number();
  report.peak_by_category = in.numbers();
  report.peak_rank = in.number();
  return report;
}

}  // namespace shardproof
