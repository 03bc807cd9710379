// Implements impossible_expectations.h.
#include "shardproof/scenarios/run/impossible_expectations.h"

#include <algorithm>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/sim/cost/cost_model.h"

namespace shardproof {
namespace {

[[noreturn]] void refuse_at(const std::string& path, const std::string& message) {
  throw Error(ErrorKind::bad_input, message, Where{"", path, 0, 0});
}

[[noreturn]] void refuse_unpriced_time(const Expect& expect) {
  refuse_at(expect.time_path,
            "\"time\" of a step with work needs the rates of a device; add compute='50 GFLOP/s', "
            "memory='20 GB/s' to the topology, or measure this machine: shardproof bench "
            "--machine FILE");
}

bool computes(const Instr& instr, const SpmdProgram& program, const OpRegistry& ops) {
  const auto* const compute = std::get_if<Compute>(&instr.action);
  if (compute == nullptr || (ops.at(compute->op.str()).view && compute->into == kNoValue))
    return false;
  const auto has_elements = [](const LocalShape& local) { return element_count(local.shape) > 0; };
  return std::any_of(compute->outputs.begin(), compute->outputs.end(), [&](ValueId id) {
    const LocalShapes& shapes = program.values[static_cast<size_t>(id)].shapes;
    return std::any_of(shapes.begin(), shapes.end(), has_elements);
  });
}

bool holds_work(const SpmdProgram& program, const OpRegistry& ops) {
  for (const SpmdListing& listing : program.listings)
    for (const Instr& instr : listing.instrs)
      if (computes(instr, program, ops)) return true;
  return false;
}

void check_expected_placements(const Expect& expect, const Outcome& outcome) {
  for (const ExpectPlacements& wanted : expect.placements) {
    const auto found = outcome.values.find(wanted.name);
    if (found == outcome.values.end() || !found->second.spec) continue;
    const Spec& got = *found->second.spec;
    try {
      Spec::parse(wanted.text, got.mesh(), got.shape(), got.dtype());
    } catch (const Error& error) {
      refuse_at(wanted.path, fmt::format("{} is {}{}: {}", wanted.name, name(got.dtype()),
                                         to_string(got.shape()), error.message()));
    }
  }
}

void check_expected_local(const Expect& expect, const Outcome& outcome) {
  for (const ExpectShapes& wanted : expect.local) {
    const auto found = outcome.values.find(wanted.name);
    if (found == outcome.values.end() || found->second.shapes.empty()) continue;
    for (size_t i = 0; i < wanted.shapes.size(); ++i) {
      const Dims& shape = wanted.shapes[i].shape;
      const auto has_its_dims = [&](const LocalShape& got) {
        return got.shape.size() == shape.size();
      };
      const std::vector<LocalShape>& shapes = found->second.shapes;
      if (std::none_of(shapes.begin(), shapes.end(), has_its_dims))
        refuse_at(wanted.paths[i],
                  fmt::format("expected local shapes of {} with {} dims, found {} with {}",
                              wanted.name, shapes[0].shape.size(), to_string(shape), shape.size()));
    }
  }
}

// Returns the shapes of the values that a name has; several if ranks have different ones.
std::vector<Dims> shapes_of(const ValueInfo& info) {
  if (info.value) return {info.value->shape};
  std::vector<Dims> shapes;
  for (const RecordedShard& copy : info.copies) shapes.push_back(copy.tensor.shape);
  return shapes;
}

void check_expected_values(const Expect& expect, const Outcome& outcome) {
  for (const ExpectValues& wanted : expect.values) {
    const auto found = outcome.values.find(wanted.name);
    if (found == outcome.values.end()) continue;
    const ValueInfo& info = found->second;
    const std::vector<Dims> shapes = shapes_of(info);
    if (shapes.empty()) continue;
    if (!wanted.each && !wanted.all &&
        std::find(shapes.begin(), shapes.end(), wanted.shape) == shapes.end())
      refuse_at(wanted.path,
                fmt::format("expected values of shape {}, as {} is {}{}; found values of shape {}",
                            to_string(shapes[0]), wanted.name, name(info.dtype),
                            to_string(shapes[0]), to_string(wanted.shape)));
    if (!wanted.imaginary.empty() && !is_complex(info.dtype))
      refuse_at(wanted.path, fmt::format("expected real numbers, as {} is {}; found complex ones",
                                         wanted.name, name(info.dtype)));
  }
}

}  // namespace

void refuse_impossible_expectations(const Expect& expect, const Outcome& outcome) {
  if (expect.time && outcome.world.unpriced_work) refuse_unpriced_time(expect);
  check_expected_placements(expect, outcome);
  if (!outcome.findings.empty()) return;
  check_expected_local(expect, outcome);
  check_expected_values(expect, outcome);
}

void refuse_time_without_rates(const Expect& expect, const Job& job, const SpmdProgram& program,
                               const OpRegistry& ops) {
  if (expect.time && job.cost != nullptr && !job.cost->has_rates() && holds_work(program, ops))
    refuse_unpriced_time(expect);
}

}  // namespace shardproof
