// Implements smallest_failing of fuzz.h by delta debugging (Zeller and Hildebrandt, 2002). It
// removes runs of lines, from half of them down to one, then tensors that no line reads. Last it
// replicates tensors and gives axes the size 1. Outputs and whole steps are removed from rank
// programs, and gradients of values before the last are tried. A change is kept if the same oracle
// still fails; an error must stay the same except its place and its numbers.
#include <algorithm>
#include <cctype>

#include "shardproof/engine/generate/fuzz.h"
#include "shardproof/engine/generate/shrink_ranks.h"

namespace shardproof {
namespace {

constexpr int kMostTrials = 300;

// Returns the letters of a message, without its place and its numbers. "/program line 2, column 3:
// dim 0 .." and "/program line 1, column 9: dim 1 .." are the same error.
std::string kind_of_error(const std::string& message) {
  const size_t place = message.find(": ");
  std::string kind;
  for (const char c : message.substr(place == std::string::npos ? 0 : place))
    if (std::isalpha(static_cast<unsigned char>(c))) kind += c;
  return kind;
}

class ProgramShrinker {
 public:
  ProgramShrinker(const FuzzTrial& failed, uint64_t seed, const Registries& registries)
      : failed_(failed), seed_(seed), registries_(registries) {}

  ProgramText shrink(ProgramText text) {
    best_ = std::move(text);
    if (best_.is_global()) {
      remove_lines();
      remove_tensors();
    } else {
      differentiate_earlier();
      remove_values();
      remove_outputs();
      remove_values();
    }
    replicate_tensors();
    shorten_axes();
    return std::move(best_);
  }

 private:
  bool accept(ProgramText text) {
    if (++trials_ > kMostTrials) return false;
    const FuzzTrial trial = try_program(text, seed_, registries_);
    if (trial.oracle != failed_.oracle) return false;
    if (trial.oracle == "error" && kind_of_error(trial.message) != kind_of_error(failed_.message))
      return false;
    best_ = std::move(text);
    return true;
  }

  void remove_lines() {
    for (size_t run = std::max<size_t>(1, best_.program.size() / 2); run > 0; run /= 2)
      for (size_t end = best_.program.size(); end >= run && end > 0; --end) {
        if (end > best_.program.size() || best_.program.size() <= run) continue;
        ProgramText fewer = best_;
        const auto last = fewer.program.begin() + static_cast<std::ptrdiff_t>(end);
        fewer.program.erase(last - static_cast<std::ptrdiff_t>(run), last);
        accept(std::move(fewer));
      }
  }

  void remove_tensors() {
    for (size_t i = best_.tensors.size(); i-- > 0;) {
      ProgramText fewer = best_;
      fewer.tensors.erase(fewer.tensors.begin() + static_cast<std::ptrdiff_t>(i));
      accept(std::move(fewer));
    }
  }

  // Tries the outputs in their order, because the lines after a value can then be removed.
  void differentiate_earlier() {
    const ProgramText text = best_;
    for (const auto& [name, placements] : text.outputs) {
      ProgramText earlier = with_gradients_of(text, name);
      if (earlier.truth == text.truth) return;
      if (accept(std::move(earlier))) return;
    }
  }

  void remove_values() {
    for (const std::string& name : names_of_ranks(best_)) {
      ProgramText fewer = without_value(best_, name);
      if (fewer.ranks.size() < best_.ranks.size() || fewer.tensors.size() < best_.tensors.size())
        accept(std::move(fewer));
    }
  }

  void remove_outputs() {
    for (size_t i = best_.outputs.size(); i-- > 0 && best_.outputs.size() > 1;) {
      ProgramText fewer = best_;
      fewer.outputs.erase(fewer.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      accept(std::move(fewer));
    }
  }

  void replicate_tensors() {
    for (size_t i = 0; i < best_.tensors.size(); ++i) {
      if (best_.tensors[i].placements.empty() || !best_.is_global()) continue;
      ProgramText simpler = best_;
      simpler.tensors[i].placements.clear();
      accept(std::move(simpler));
    }
  }

  void shorten_axes() {
    const Mesh mesh = Mesh::parse(best_.mesh);
    for (int axis = 0; axis < mesh.axis_count(); ++axis)
      for (int64_t size = 1; size < mesh.axis_size(axis); ++size) {
        ProgramText smaller = best_;
        std::vector<std::pair<std::string, int64_t>> axes;
        const Mesh now = Mesh::parse(best_.mesh);
        for (int a = 0; a < now.axis_count(); ++a)
          axes.emplace_back(now.axes()[static_cast<size_t>(a)].name,
                            a == axis ? size : now.axis_size(a));
        smaller.mesh = to_string(Mesh::make(axes));
        if (accept(std::move(smaller))) break;
      }
  }

  const FuzzTrial& failed_;
  uint64_t seed_;
  const Registries& registries_;
  ProgramText best_;
  int trials_ = 0;
};

}  // namespace

ProgramText smallest_failing(const ProgramText& text, const FuzzTrial& failed, uint64_t seed,
                             const Registries& registries) {
  return ProgramShrinker(failed, seed, registries).shrink(text);
}

}  // namespace shardproof
