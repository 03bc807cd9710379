// Implements check_expected_names and check_limited_values of load_context.h. Names of an `expect`
// are looked up among inputs, outputs and the names that listings bind. A name with holes (h{i})
// matches every name that has this form.
#include <algorithm>

#include "shardproof/engine/check/check.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/listing_names.h"
#include "shardproof/scenarios/load/load_context.h"

namespace shardproof {
namespace {

// True if some filling of the holes of `bound`, such as h{i}, gives `name`.
bool matches_template(const NameTemplate& bound, const std::string& name) {
  size_t at = 0, least = bound.holes.size();  // each hole gives at least one character
  for (const std::string& text : bound.texts) least += text.size();
  if (name.size() < least) return false;
  for (const std::string& text : bound.texts) {
    const size_t found = name.find(text, at);
    if (found == std::string::npos || (at == 0 && found > 0)) return false;
    at = found + text.size();
  }
  return !bound.plain() ? name.ends_with(bound.texts.back()) : at == name.size();
}

std::string unbound_text(const std::string& name, const NearestName& nearest) {
  return fmt::format("expected the name of a value, found {}, which no line binds{}",
                     quoted_json(name), nearest.hint());
}

class KnownNames {
 public:
  explicit KnownNames(const Job& job) {
    for (const JobInput& input : job.inputs) plain_.push_back(input.name);
    for (const JobOutput& output : job.outputs) plain_.push_back(output.name);
    if (job.program) add(*job.program);
    if (job.truth) add(*job.truth);
    for (const JobListing& listing : job.ranks) add(listing.listing);
  }
  void check(const std::string& name, const JsonReader& reader) const {
    if (std::find(plain_.begin(), plain_.end(), name) != plain_.end()) return;
    for (const NameTemplate& bound : with_holes_)
      if (matches_template(bound, name)) return;
    NearestName nearest(name);
    for (const std::string& known : plain_) nearest.offer(known);
    reader.refuse(unbound_text(name, nearest));
  }

 private:
  void add(const Listing& listing) {
    for (const NameTemplate& name : names_bound(listing))
      if (name.plain())
        plain_.push_back(name.texts[0]);
      else
        with_holes_.push_back(name);
  }

  std::vector<std::string> plain_;
  std::vector<NameTemplate> with_holes_;
};

bool binds(const Listing& listing, const std::string& name) {
  const std::vector<NameTemplate> bound = names_bound(listing);
  return std::any_of(bound.begin(), bound.end(),
                     [&](const NameTemplate& one) { return matches_template(one, name); });
}

// Refuses a limit on a value that one device does not compute.
void check_has_truth(const std::string& name, const Job& job, const JsonReader& reader) {
  if (!job.program && !job.truth)
    reader.refuse("precision is compared with one device; add a \"truth\"");
  if (!binds(job.program ? *job.program : *job.truth, name))
    reader.refuse(
        fmt::format("the {} does not compute {}; limit the precision of a name that it "
                    "binds",
                    job.program ? "program" : "truth", name));
}

void check_axes(const JsonReader& placements, const Job& job) {
  for (const PlacementText& one : parse_placements(placements.text())) {
    if (one.axis.empty()) continue;  // a single R for all axes
    NearestName nearest(one.axis);
    bool known = false;
    for (const auto& [key, mesh] : job.meshes)
      for (const MeshAxis& axis : mesh.axes()) {
        known = known || axis.name == one.axis;
        nearest.offer(axis.name);
      }
    if (!known) placements.refuse(fmt::format("unknown axis {}{}", one.axis, nearest.hint()));
  }
}

int64_t most_lines(const Job& job) {
  size_t most = job.program ? job.program->lines.size() : 0;
  for (const JobListing& listing : job.ranks) most = std::max(most, listing.listing.lines.size());
  return static_cast<int64_t>(most);
}

}  // namespace

void check_expected_names(const JsonReader& reader, const Expect& expect, const Job& job) {
  // A case that is refused has no values.
  if (expect.verdict == Verdict::bad_input) return;
  const KnownNames known(job);
  if (reader.has("name")) known.check(expect.name, reader.at("name"));
  for (const char* key : {"values", "local", "placements"}) {
    if (!reader.has(key)) continue;
    for (const auto& [name, entry] : reader.at(key).members()) {
      known.check(name, entry);
      if (std::string_view(key) == "placements") check_axes(entry, job);
    }
  }
  if (reader.has("precision") && reader.at("precision").kind() == JsonKind::object)
    for (const auto& [name, entry] : reader.at("precision").members()) {
      known.check(name, entry);
      check_has_truth(name, job, entry);
    }
  if (!expect.line) return;
  const int64_t lines = most_lines(job);
  bool met = false;
  for (int64_t line = 1; line <= lines; ++line) met = met || expect.line->holds(line);
  if (!met)
    reader.at("line").refuse(
        fmt::format("expected a line from 1 to {}, found {}", lines, to_string(*expect.line)));
}

void check_limited_values(const Job& job, const LoweredJob& lowered) {
  for (const PrecisionLimit& limit : job.precision_limits) {
    if (limit.name.empty()) continue;
    const auto refuse = [&](const std::string& message) {
      throw Error(ErrorKind::bad_input, message, {"", limit.path, 0, 0});
    };
    const auto found = lowered.dtypes.find(limit.name);
    if (found == lowered.dtypes.end()) {
      if (job.truth && binds(*job.truth, limit.name)) continue;  // only the truth binds it
      NearestName nearest(limit.name);
      for (const auto& [known, dtype] : lowered.dtypes) nearest.offer(known);
      refuse(unbound_text(limit.name, nearest));
    }
    const DType dtype = found->second;
    if (!is_floating(dtype) && !is_complex(dtype))
      refuse(fmt::format("{} is {}, which has no rounding; limit the precision of floats only",
                         limit.name, name(dtype)));
    if (dtype == DType::f64 || dtype == DType::c128)
      refuse(fmt::format("{} is {}; limit the precision of dtypes narrower than f64 only",
                         limit.name, name(dtype)));
  }
}

}  // namespace shardproof
