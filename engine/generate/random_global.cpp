// Implements random_global.h.
//
// 1. Draw a mesh, sizes and input tensors.
// 2. Add forms of lines one by one until the program has the drawn number of lines. A candidate
//    that GlobalDraft refuses is dropped.
// 3. For programs that are not well conditioned, redistribute P values to R before lines where they
// would meet
//    an infinity (unsafe_partials.h).
#include "shardproof/engine/generate/random_global.h"

#include <algorithm>
#include <regex>

#include "shardproof/engine/generate/forms/claim_forms.h"
#include "shardproof/engine/generate/forms/draw_placements.h"
#include "shardproof/engine/generate/forms/line_forms.h"
#include "shardproof/engine/generate/unsafe_partials.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr double kClaimShare = 0.2, kRedistributeShare = 0.1;
constexpr int kRepairs = 12;

// Returns the number of lines: up to 15 for half of the programs, up to 180 for the longest.
int64_t draw_line_count(Draw& draw, int64_t most) {
  const double share = draw.uniform();
  const int64_t limit = share < 0.5 ? 15 : share < 0.85 ? 50 : 180;
  return draw.between(std::min<int64_t>(3, most), std::min(limit, most));
}

struct InputShape {
  const char* name;
  Dims shape;
  DType dtype;
  double share;  // share of the programs that have it
};

std::vector<InputShape> draw_input_shapes(Draw& draw, DType dtype) {
  const std::vector<int64_t> sizes = {2, 3, 4, 4, 5, 6, 6, 7, 8, 8, 9, 12};
  const int64_t rows = draw.chance(0.08) ? 1 : draw.from(sizes);
  const int64_t inner = draw.chance(0.08) ? 1 : draw.from(sizes);
  const int64_t columns = draw.from(sizes);
  return {{"x", Dims{rows, inner}, dtype, 1},
          {"w", Dims{inner, columns}, dtype, 0.8},
          {"u", Dims{columns, inner}, dtype, 0.4},
          {"q", Dims{inner, inner}, dtype, 0.5},
          {"b", Dims{columns}, dtype, 0.6},
          {"g", Dims{inner}, dtype, 0.6},
          {"y", Dims{rows, inner}, dtype, 0.5},
          {"c", Dims{2, rows, inner}, dtype, 0.3},
          {"t", Dims{}, dtype, 0.2},
          {"ids", Dims{rows}, DType::i64, 0.4},
          {"keep", Dims{rows, inner}, DType::boolean, 0.3},
          {"n", Dims{rows, inner}, DType::i32, 0.15},
          {"z", Dims{rows, inner}, DType::c64, 0.15},
          {"e4", Dims{rows, inner}, DType::f8e4m3, 0.12},
          {"e5", Dims{inner, columns}, DType::f8e5m2, 0.12}};
}

class GlobalGenerator {
 public:
  GlobalGenerator(RandomProgram& program, int attempt, const OpRegistry& ops)
      : program_(program),
        ops_(ops),
        draw_(program.seed, fmt::format("global {}", attempt)),
        draft_(draw_mesh(draw_), program.text.dtype, program.conditioning, ops),
        writer_(draft_, draw_) {}

  bool generate(int64_t max_lines) {
    add_inputs();
    const int64_t lines = draw_line_count(draw_, max_lines);
    for (int64_t tries = 20 * lines; tries > 0 && draft_.line_count() < lines; --tries) add_lines();
    if (draft_.line_count() == 0) return false;
    program_.text = draft_.text();
    return is_well_conditioned() || repair();
  }

 private:
  bool is_well_conditioned() const { return program_.conditioning <= Conditioning::well; }

  void add_inputs() {
    for (const InputShape& input : draw_input_shapes(draw_, draft_.dtype())) {
      if (!draw_.chance(input.share)) continue;
      const std::vector<Placement> placements =
          draw_placements(draw_, draft_.mesh(), input.shape, input.dtype, PlacementChoice::any);
      draft_.add_tensor(
          draw_,
          {input.name, input.dtype, input.shape, all_axes_text(draft_.mesh(), placements), {}},
          program_.conditioning);
    }
  }

  void add_lines() {
    const double share = draw_.uniform();
    if (share < kClaimShare) return add_claim();
    if (share < kClaimShare + kRedistributeShare) return add_redistribute();
    const std::vector<LineForm>& forms =
        is_well_conditioned() ? well_conditioned_forms() : all_forms();
    const LineForm& form = draw_form(forms);
    if (writer_.is_whole() && !form.whole) return;
    const Lines lines = with_names(form.write(writer_));
    if (!lines.empty() && draft_.add(draw_, lines)) program_.forms.push_back(form.name);
  }

  const LineForm& draw_form(const std::vector<LineForm>& forms) {
    double sum = 0;
    for (const LineForm& form : forms) sum += form.weight;
    double at = draw_.uniform() * sum;
    for (const LineForm& form : forms)
      if ((at -= form.weight) < 0) return form;
    return forms.back();
  }

  // Replaces "$0" by a name that may be bound already, "$a" and "$b" by new names.
  Lines with_names(Lines lines) {
    if (lines.empty()) return lines;
    const std::string target = writer_.target(), a = writer_.fresh(), b = writer_.fresh();
    for (std::string& line : lines)
      for (const auto& [hole, name] : {std::pair{"$0", target}, {"$a", a}, {"$b", b}})
        for (size_t at = line.find(hole); at != std::string::npos; at = line.find(hole))
          line.replace(at, 2, name);
    return lines;
  }

  void add_claim() {
    const std::optional<Claim> claim = draw_claim(writer_);
    if (!claim) return;
    const std::string text = all_axes_text(draft_.mesh(), claim->placements);
    Lines lines = claim->before;
    lines.push_back(fmt::format("{} = {} as {}", claim->name, claim->expression, text));
    if (!draft_.add(draw_, lines)) return;
    for (const auto& [name, placements] : claim->placed) draft_.set_placements(name, placements);
    draft_.set_placements(claim->name, text);
    program_.forms.emplace_back("claim");
    program_.sites.push_back(
        {static_cast<int>(draft_.line_count()), claim->name, claim->expression, text});
  }

  void add_redistribute() {
    const DraftValue* x = writer_.any_of([](const DraftValue&) { return true; });
    if (x == nullptr) return;
    std::vector<Placement> placements =
        draw_placements(draw_, draft_.mesh(), x->shape, x->dtype, PlacementChoice::any_cut);
    // Parts of a maximum or an average cannot become parts of a sum.
    const bool may_add = x->is_finite && is_plain_float(x->dtype) && x->placements &&
                         x->placements->find("P(") == std::string::npos;
    const bool adds = draw_.chance(0.15) && may_add;
    for (Placement& placement : placements)
      if (adds && placement.is_replicate()) placement = P();
    const std::string name = writer_.fresh(), text = all_axes_text(draft_.mesh(), placements);
    if (!draft_.add(draw_, {fmt::format("{} = redistribute({}, {})", name, x->name, text)})) return;
    draft_.set_placements(name, text);
    program_.forms.emplace_back("redistribute");
  }

  // Redistributes P values to R before each unsafe line. Returns false if lines stay unsafe.
  bool repair() {
    for (int repairs = 0; repairs < kRepairs; ++repairs) {
      const std::vector<UnsafeLine> unsafe = find_unsafe_partials(program_.text, ops_);
      if (unsafe.empty()) return true;
      if (!make_whole(unsafe.front(), repairs)) return false;
    }
    return false;
  }

  bool make_whole(const UnsafeLine& unsafe, int repairs) {
    const auto at = static_cast<size_t>(unsafe.line - 1);
    std::string& line = program_.text.program[at];
    const bool is_claim =
        std::any_of(program_.sites.begin(), program_.sites.end(),
                    [&](const PlantingSite& site) { return site.line == unsafe.line; });
    if (is_claim || unsafe.partials.empty() || line.starts_with(" ")) return false;
    Lines before;
    const size_t equals = line.find('=');
    std::string expression = line.substr(equals);
    for (size_t i = 0; i < unsafe.partials.size(); ++i) {
      const std::string whole = fmt::format("r{}_{}", repairs, i);
      before.push_back(fmt::format("{} = redistribute({}, R)", whole, unsafe.partials[i]));
      expression =
          std::regex_replace(expression, std::regex("\\b" + unsafe.partials[i] + "\\b"), whole);
    }
    line = line.substr(0, equals) + expression;
    program_.text.program.insert(program_.text.program.begin() + static_cast<ptrdiff_t>(at),
                                 before.begin(), before.end());
    for (PlantingSite& site : program_.sites)
      if (site.line > unsafe.line) site.line += static_cast<int>(before.size());
    return true;
  }

  RandomProgram& program_;
  const OpRegistry& ops_;
  Draw draw_;
  GlobalDraft draft_;
  LineWriter writer_;
};

}  // namespace

bool draw_global_program(RandomProgram& program, int64_t max_lines, int attempt,
                         const OpRegistry& ops) {
  program.sites.clear();
  program.forms.clear();
  return GlobalGenerator(program, attempt, ops).generate(max_lines);
}

}  // namespace shardproof
