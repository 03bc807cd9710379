// Implements round_numbers.h.
#include "shardproof/engine/reference/round_numbers.h"

#include <cmath>

namespace shardproof {
namespace {

// Returns false if the number is one of f32, or beyond its range.
bool round_one(double& number) {
  const auto rounded = static_cast<double>(static_cast<float>(number));
  if (rounded == number || !std::isfinite(rounded)) return false;
  number = rounded;
  return true;
}

bool round_attributes(Attrs& attrs) {
  const Attrs written = attrs;
  bool changed = false;
  for (const auto& [name, value] : written.values()) {
    AttrValue rounded = value;
    bool one = false;
    if (auto* number = std::get_if<double>(&rounded)) one = round_one(*number);
    if (auto* list = std::get_if<std::vector<double>>(&rounded))
      for (double& number : *list) one = round_one(number) || one;
    if (one) attrs.set(name, std::move(rounded));
    changed = changed || one;
  }
  return changed;
}

}  // namespace

bool round_numbers(GlobalProgram& program) {
  bool changed = false;
  for (GlobalValue& value : program.values) {
    if (!value.weak || !value.number.is_double()) continue;
    double number = value.number.real();
    if (!round_one(number)) continue;
    value.number = Number(number);
    changed = true;
  }
  for (GlobalInstr& instr : program.instrs) changed = round_attributes(instr.attrs) || changed;
  return changed;
}

bool round_numbers(SpmdProgram& program) {
  bool changed = false;
  for (SpmdListing& listing : program.listings)
    for (Instr& instr : listing.instrs) {
      if (auto* number = std::get_if<NumberValue>(&instr.action))
        for (double& value : number->values) changed = round_one(value) || changed;
      if (auto* compute = std::get_if<Compute>(&instr.action))
        for (LaneAttrs& entry : compute->attrs) changed = round_attributes(entry.attrs) || changed;
    }
  return changed;
}

}  // namespace shardproof
