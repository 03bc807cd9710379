// Implements topology.h.
#include "shardproof/scenarios/model/topology.h"

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/program/value/quantity.h"
#include "shardproof/scenarios/json/json_reader.h"
#include "shardproof/scenarios/json/json_spans.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/load/unsupported_features.h"

namespace shardproof {
namespace {

constexpr const char* kFlat = "flat(latency='5 us', bandwidth='50 GB/s')";
constexpr const char* kRates = "compute='50 GFLOP/s', memory='20 GB/s'";

struct Machine {
  std::optional<Duration> latency;
  std::optional<double> bandwidth;        // bytes per second
  std::optional<double> compute, memory;  // operations and bytes per second
};

// Returns the unit of a field. Throws Error(bad_input) for an unknown key.
Unit unit_of(const std::string& key) {
  if (key == "latency") return Unit::time;
  if (key == "bandwidth" || key == "memory") return Unit::bandwidth;
  if (key == "compute") return Unit::arithmetic;
  NearestName nearest(key);
  for (const char* known : {"latency", "bandwidth", "compute", "memory"}) nearest.offer(known);
  throw_bad_input("unknown key \"{}\"{}", key, nearest.hint());
}

void set_field(Machine& machine, const std::string& key, const std::string& text) {
  const Quantity quantity = parse_quantity(text, unit_of(key));
  if (key == "latency") machine.latency = Duration{quantity.whole};
  if (key == "bandwidth") machine.bandwidth = quantity.rate;
  if (key == "compute") machine.compute = quantity.rate;
  if (key == "memory") machine.memory = quantity.rate;
}

std::optional<Roofline> device_of(const Machine& machine) {
  if (machine.compute.has_value() != machine.memory.has_value())
    throw_bad_input("expected both rates of a device or none, such as {}", kRates);
  if (!machine.compute) return std::nullopt;
  return Roofline{*machine.compute, *machine.memory};
}

std::shared_ptr<const CostModel> flat_of(const Machine& machine) {
  if (!machine.latency || !machine.bandwidth)
    throw_bad_input("flat needs {}, as in {}", machine.latency ? "bandwidth" : "latency", kFlat);
  return flat_machine({*machine.latency, *machine.bandwidth}, device_of(machine));
}

std::shared_ptr<const CostModel> ideal_of(const Machine& machine) {
  if (machine.latency || machine.bandwidth)
    throw_bad_input("communication of \"ideal\" takes no time; expected {} alone", kRates);
  return ideal_machine(device_of(machine));
}

std::shared_ptr<const CostModel> build_from_call(const Expr& call) {
  Machine machine;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    if (call.keys[i].empty() || arg.kind != ExprKind::text || !arg.name.plain())
      throw_bad_input("expected arguments with keys and quoted quantities, as in {}, found {}",
                      kFlat, to_string(arg));
    try {
      set_field(machine, call.keys[i], arg.name.texts[0]);
    } catch (const Error& error) {
      // A column of the error counts in the quoted text, which begins after its quote.
      const int column = error.where().column > 0 ? arg.place.column + error.where().column
                                                  : call.key_places[i].column;
      throw Error(error.kind(), error.message(), Where{"", "", 0, column});
    }
  }
  return call.symbol == "flat" ? flat_of(machine) : ideal_of(machine);
}

std::shared_ptr<const CostModel> build_from_file(const std::string& file,
                                                 const std::string& folder) {
  const std::string path = folder.empty() || file.starts_with("/") ? file : folder + "/" + file;
  std::string text;
  try {
    text = read_file(path, file);
  } catch (const Error& error) {
    // The place is that of the text which names the file.
    throw Error(error.kind(), fmt::format("{}: {}", file, error.message()));
  }
  try {
    const JsonTree tree = read_json(text);
    const JsonReader reader(tree, "");
    Machine machine;
    reader.check_keys({"latency", "bandwidth", "compute", "memory"});
    for (const auto& [key, value] : reader.members())
      value.inside([&, &key = key, &value = value] {
        const Unit unit = unit_of(key);
        set_field(machine, key,
                  value.text(fmt::format("{} such as \"{}\"", name(unit), example(unit))));
        return 0;
      });
    return flat_of(machine);
  } catch (const Error& error) {
    Where where = error.where();
    where.file = file;
    if (where.file_line == 0) where = JsonSpans(text).placed(where);
    throw Error(error.kind(), error.message(), where);
  }
}

}  // namespace

std::shared_ptr<const CostModel> parse_topology(const std::string& text,
                                                const std::string& folder) {
  if (text == "ideal") return ideal_machine();
  if (text.ends_with(".json")) return build_from_file(text, folder);
  if (text.find(" x ") != std::string::npos)
    refuse_unsupported(fmt::format("the topology preset \"{}\"", text), {});
  Expr call;
  try {
    call = parse_expression(text);
  } catch (const Error&) {
    call.kind = ExprKind::name;  // refused below, with an example
  }
  if (call.kind != ExprKind::call || (call.symbol != "flat" && call.symbol != "ideal"))
    throw_bad_input("expected \"ideal\", {} or a .json file, found \"{}\"", kFlat, text);
  return build_from_call(call);
}

}  // namespace shardproof
