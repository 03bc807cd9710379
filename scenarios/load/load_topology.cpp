// Implements topology.h.
#include "shardproof/scenarios/model/topology.h"

#include "shardproof/localtensor/base/duration.h"
#include "shardproof/program/value/quantity.h"
#include "shardproof/scenarios/json/json_reader.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/load/unsupported_features.h"

namespace shardproof {
namespace {

constexpr const char* kFlat = "flat(latency='5 us', bandwidth='50 GB/s')";

struct Machine {
  std::optional<Duration> latency;
  std::optional<double> bandwidth;  // bytes per second
};

void set_field(Machine& machine, const std::string& key, const std::string& text) {
  if (key == "latency") {
    machine.latency = Duration{parse_quantity(text, Unit::time).whole};
  } else if (key == "bandwidth") {
    machine.bandwidth = parse_quantity(text, Unit::bandwidth).rate;
  } else {
    NearestName nearest(key);
    nearest.offer("latency");
    nearest.offer("bandwidth");
    throw_bad_input("unknown key \"{}\"{}", key, nearest.hint());
  }
}

std::shared_ptr<const CostModel> build(const Machine& machine) {
  if (!machine.latency || !machine.bandwidth) throw_bad_input("expected {}", kFlat);
  return flat_machine({*machine.latency, *machine.bandwidth});
}

std::shared_ptr<const CostModel> build_from_call(const Expr& call) {
  Machine machine;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    if (call.keys[i].empty() || arg.kind != ExprKind::text || !arg.name.plain())
      throw_bad_input("expected {}", kFlat);
    set_field(machine, call.keys[i], arg.name.texts[0]);
  }
  return build(machine);
}

std::shared_ptr<const CostModel> build_from_file(const std::string& file,
                                                 const std::string& folder) {
  const std::string path = folder.empty() || file.starts_with("/") ? file : folder + "/" + file;
  try {
    const JsonTree tree = read_json(read_file(path, file));
    const JsonReader reader(tree, "");
    Machine machine;
    for (const auto& [key, value] : reader.members())
      value.inside([&, &key = key, &value = value] {
        set_field(machine, key, value.text());
        return 0;
      });
    return build(machine);
  } catch (const Error& error) {
    throw error.inside({file, "", 0, 0});
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
  if (call.kind != ExprKind::call || call.symbol != "flat")
    throw_bad_input("expected \"ideal\", {} or a .json file, found \"{}\"", kFlat, text);
  return build_from_call(call);
}

}  // namespace shardproof
