// Implements plant_error.h. Lines are tried in random order:
//
// 1. scale planted_d for the line, and build the program and its twin;
// 2. measure the loss of one device on the twin;
// 3. refuse the line if the loss is too large compared with the error, or no bit of the result
// differs.
#include "shardproof/engine/generate/plant_error.h"

#include <algorithm>
#include <cmath>

#include "shardproof/engine/compare/f64_judge.h"
#include "shardproof/engine/generate/forms/draw_placements.h"
#include "shardproof/engine/generate/forms/one_device.h"
#include "shardproof/engine/generate/run_on_ranks.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kMostSites = 12;  // lines tried in one program
// Largest loss of one device, in units of the error. The judge finds no error within kSpreadFactor
// movements of f64.
constexpr double kMostLoss = 4, kMostLossOfF64 = 1 / kSpreadFactor;

// The term that a line adds, and the tensors that make it right or wrong.
struct Addition {
  std::string term;
  std::vector<TensorText> clean;  // tensors of the twin, without planted_d
  std::vector<TensorText> wrong;  // tensors of the wrong program, without planted_d
  double factor = 1;              // error of the line divided by planted_d
};

class Planter {
 public:
  Planter(const RandomProgram& program, double size, const Registries& registries)
      : program_(program),
        size_(size),
        registries_(registries),
        ops_(registries.ops),
        draw_(program.seed, "plant"),
        mesh_(Mesh::parse(program.text.mesh)) {}

  std::optional<PlantedProgram> plant() {
    std::vector<PlantingSite> sites = program_.sites;
    if (sites.empty()) return std::nullopt;
    const Job job = job_of(program_.text);
    one_device_ = lower_one_device(job, ops_);
    values_ = run_one_device(one_device_, ops_, input_tensors(job));
    for (int tries = 0; tries < kMostSites && !sites.empty(); ++tries) {
      const auto at = sites.begin() + draw_.below(std::ssize(sites));
      if (std::optional<PlantedProgram> planted = plant_on(*at)) return planted;
      sites.erase(at);
    }
    return std::nullopt;
  }

 private:
  std::optional<PlantedProgram> plant_on(const PlantingSite& site) {
    const ValueId id = value_of(site);
    const Tensor& value = values_[static_cast<size_t>(id)];
    const std::optional<Addition> addition = addition_on(site, value.dtype);
    if (value.dtype != program_.text.dtype || !addition) return std::nullopt;
    const ErrorPattern pattern = draw_pattern();
    const std::optional<TensorText> d = scaled_d(site, value, pattern, addition->factor);
    if (!d) return std::nullopt;
    PlantedProgram planted{program_.text, program_.text, {site.line, site.name, 0, 0, pattern}};
    add_to(planted.text, site, *d, addition->wrong, addition->term);
    if (program_.kind == ProgramKind::global)
      add_to(planted.twin, site, *d, addition->clean, addition->term);
    double largest_d = 0;
    for (const double element : d->values) largest_d = std::max(largest_d, std::abs(element));
    const LineLoss line = measure_losses(job_of(planted.twin), ops_).at(id_in_twin(planted, site));
    const double error = largest_d * addition->factor;
    const double most = value.dtype == DType::f64 ? kMostLossOfF64 : kMostLoss;
    if (!line.is_finite || line.largest == 0 || line.loss >= most * error) return std::nullopt;
    planted.error.size = error / line.largest;
    planted.error.loss = line.loss / line.largest;
    // The twin's term may have changed the largest element.
    if (planted.error.size < size_ * 0.999 || !is_visible(planted)) return std::nullopt;
    return planted;
  }

  // True if the ranks hold other bits than one device. Not tested for narrow floats.
  bool is_visible(const PlantedProgram& planted) const {
    if (precision_bits(program_.text.dtype) < precision_bits(DType::f32)) return true;
    for (const HeldValue& held : run_on_ranks(job_of(planted.text), registries_))
      if (held.name == planted.error.name && held.line == planted.error.line)
        return !bit_equal(held.ranks, 0, held.one_device, 0);
    return false;
  }

  ValueId id_in_twin(const PlantedProgram& planted, const PlantingSite& site) const {
    return find_value(lower_one_device(job_of(planted.twin), ops_), site);
  }

  ValueId value_of(const PlantingSite& site) const { return find_value(one_device_, site); }

  ValueId find_value(const GlobalProgram& program, const PlantingSite& site) const {
    if (program_.kind == ProgramKind::ranks) return program.names.at(site.name);
    for (size_t id = 0; id < program.values.size(); ++id)
      if (program.values[id].name == site.name && program.values[id].origin.line == site.line)
        return static_cast<ValueId>(id);
    SP_UNREACHABLE("line {} does not bind {}", site.line, site.name);
  }

  ErrorPattern draw_pattern() {
    return draw_.from({ErrorPattern::uniform, ErrorPattern::one_element, ErrorPattern::proportional,
                       ErrorPattern::random_signs});
  }

  std::optional<Addition> addition_on(const PlantingSite& site, DType dtype) {
    if (program_.kind == ProgramKind::ranks) return Addition{"planted_d", {}, {}, 1};
    const std::vector<PlacementText> placements = parse_placements(site.placements);
    std::vector<int> partial, others;
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      if (mesh_.axis_size(axis) < 2) continue;
      const Placement& placement = placements[static_cast<size_t>(axis)].placement;
      (placement.is_partial() ? partial : others).push_back(axis);
    }
    if (partial.size() > 1) return std::nullopt;  // more than one axis would decide
    const int axis = partial.empty() ? draw_.from(others) : partial.front();
    const int64_t ranks = mesh_.axis_size(axis);
    std::vector<Placement> cut(mesh_.axes().size(), R());
    const std::string whole_text = all_axes_text(mesh_, cut);
    cut[static_cast<size_t>(axis)] = S(0);
    TensorText e{"planted_e", dtype, Dims{ranks}, whole_text,
                 std::vector<double>(static_cast<size_t>(ranks), 1)};
    TensorText cut_e = e;
    cut_e.placements = all_axes_text(mesh_, cut);
    const auto n = static_cast<double>(ranks);
    if (partial.empty()) return Addition{"planted_d * sum(planted_e)", {e}, {cut_e}, n - 1};
    return Addition{"planted_d * sum(planted_e)", {cut_e}, {e}, n * (n - 1)};
  }

  // Returns planted_d, scaled so that its largest element makes an error of the wanted size.
  std::optional<TensorText> scaled_d(const PlantingSite& site, const Tensor& value,
                                     ErrorPattern pattern, double factor) {
    const std::vector<double> elements = values_of(value);
    double largest = 0;
    for (const double element : elements) {
      if (!std::isfinite(element)) return std::nullopt;
      largest = std::max(largest, std::abs(element));
    }
    if (largest == 0) return std::nullopt;
    const double step = std::ldexp(1.0, 1 - precision_bits(value.dtype));
    const double d = size_ * largest / factor * (1 + 2 * step) * 1.01;
    TensorText tensor{"planted_d", value.dtype, Dims{}, "", {d}};
    if (pattern != ErrorPattern::uniform) {
      tensor.shape = value.shape;
      tensor.placements = placements_of_d(site);
      tensor.values = pattern_values(pattern, elements, largest, d);
    }
    tensor.values = rounded_values(value.dtype, tensor.values);
    const double most =
        std::abs(*std::max_element(tensor.values.begin(), tensor.values.end(),
                                   [](double a, double b) { return std::abs(a) < std::abs(b); }));
    // Refuses subnormal numbers, which are not precise enough, and overflow.
    if (most < d / (1 + 4 * step) || most * factor > max_finite(value.dtype) / 4)
      return std::nullopt;
    return tensor;
  }

  std::vector<double> pattern_values(ErrorPattern pattern, const std::vector<double>& elements,
                                     double largest, double d) {
    std::vector<double> values(elements.size(), 0);
    if (pattern == ErrorPattern::one_element) {
      values[static_cast<size_t>(draw_.below(std::ssize(values)))] = d;
      return values;
    }
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = pattern == ErrorPattern::proportional ? d * elements[i] / largest
                  : draw_.chance(0.5)                   ? d
                                                        : -d;
    return values;
  }

  // Returns the placements of the line, with R in place of P.
  std::string placements_of_d(const PlantingSite& site) const {
    std::vector<Placement> placements;
    for (const PlacementText& text : parse_placements(site.placements))
      placements.push_back(text.placement.is_partial() ? R() : text.placement);
    return all_axes_text(mesh_, placements);
  }

  void add_to(ProgramText& text, const PlantingSite& site, const TensorText& d,
              const std::vector<TensorText>& tensors, const std::string& term) const {
    text.tensors.push_back(d);
    text.tensors.insert(text.tensors.end(), tensors.begin(), tensors.end());
    const bool is_global = program_.kind == ProgramKind::global;
    std::string& line = (is_global ? text.program : text.ranks)[static_cast<size_t>(site.line - 1)];
    line = fmt::format("{} = ({}) + {}", site.name, site.expression, term);
    if (is_global) line += " as " + site.placements;
  }

  const RandomProgram& program_;
  double size_;
  const Registries& registries_;
  const OpRegistry& ops_;
  Draw draw_;
  Mesh mesh_;
  GlobalProgram one_device_;
  std::vector<Tensor> values_;
};

}  // namespace

std::string_view name(ErrorPattern pattern) {
  switch (pattern) {
    case ErrorPattern::uniform: return "uniform";
    case ErrorPattern::one_element: return "one element";
    case ErrorPattern::proportional: return "proportional";
    case ErrorPattern::random_signs: return "random signs";
  }
  return "";
}

std::optional<PlantedProgram> plant_error(const RandomProgram& program, double size,
                                          const Registries& registries) {
  return Planter(program, size, registries).plant();
}

}  // namespace shardproof
