// Implements scenario_keys.h. Keys that this version refuses are known, too: their message states
// that they are not supported.
#include "shardproof/scenarios/load/scenario_keys.h"

namespace shardproof {

const std::vector<std::string_view>& root_keys() {
  static const std::vector<std::string_view> kKeys = {
      "version", "about",    "mesh",     "world",     "let",     "dtype",    "tensors",
      "program", "ranks",    "model",    "truth",     "outputs", "groups",   "explicit",
      "train",   "parallel", "topology", "faults",    "data",    "resident", "phases",
      "sweep",   "expect",   "moves",    "peak_limit"};
  return kKeys;
}

const std::vector<std::string_view>& phase_keys() {
  static const std::vector<std::string_view> kKeys = {"mesh",    "program", "ranks",  "truth",
                                                      "outputs", "train",   "faults", "expect"};
  return kKeys;
}

const std::vector<std::string_view>& tensor_keys() {
  static const std::vector<std::string_view> kKeys = {"shape", "dtype", "placements", "fill",
                                                      "on",    "mesh",  "values"};
  return kKeys;
}

const std::vector<std::string_view>& train_keys() {
  static const std::vector<std::string_view> kKeys = {"loss",  "params", "optimizer", "steps",
                                                      "fresh", "clip",   "accumulate"};
  return kKeys;
}

const std::vector<std::string_view>& expect_keys() {
  static const std::vector<std::string_view> kKeys = {
      "verdict",     "findings", "undecided", "precision", "line",   "ranks",      "name",
      "ratio",       "call",     "error",     "bytes",     "values", "placements", "local",
      "collectives", "time",     "peak",      "exposed",   "bubble", "slowdown"};
  return kKeys;
}

}  // namespace shardproof
