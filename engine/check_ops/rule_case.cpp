// Implements check_case and case_of of rule_case.h. A call that lowers to one op with the inputs in
// order may run with local sizes as attributes, or by the registry's own rule.
#include "shardproof/engine/check_ops/rule_case.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <map>
#include <optional>

#include "shardproof/engine/check_ops/shard_run.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr uint64_t kCaseSeed = 29;

struct SingleOp {
  const OpRecord* record = nullptr;
  Attrs attrs;
};

GlobalProgram lowered_lines(const std::vector<std::string>& lines,
                            const std::vector<TensorMeta>& inputs, const OpRegistry& ops) {
  GlobalContext context;
  context.ops = &ops;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].absent) context.inputs.emplace_back(fmt::format("x{}", i), inputs[i]);
  return lower_global(parse_listing(lines), context, "/program");
}

// Returns the op of a call that is one op of all inputs in their order.
std::optional<SingleOp> single_op(const std::vector<std::string>& lines,
                                  const std::vector<TensorMeta>& inputs, const OpRegistry& ops) {
  const GlobalProgram lowered = lowered_lines(lines, inputs, ops);
  if (lowered.instrs.size() != 1 || lowered.instrs[0].kind != GlobalKind::op) return std::nullopt;
  std::vector<ValueId> given;
  for (const ValueId id : lowered.instrs[0].inputs)
    if (id != kNoValue) given.push_back(id);
  if (given != lowered.inputs) return std::nullopt;
  return SingleOp{&ops.at(lowered.instrs[0].op), lowered.instrs[0].attrs};
}

// A backward is the line of a call, then that of its gradients. Returns the op of that call.
std::optional<SingleOp> differentiated_op(const RuleCase& rule, const OpRegistry& ops) {
  if (rule.kind != RuleKind::backward || rule.by_sizes || rule.lines.size() != 2)
    return std::nullopt;
  return single_op({rule.lines[0]}, {rule.inputs.begin(), rule.inputs.end() - 1}, ops);
}

// Returns the line of a call with other attributes.
std::string with_attrs(const std::string& line, const OpInstance& instance) {
  std::vector<std::string> names;
  for (size_t i = 0; i < instance.inputs.size(); ++i) names.push_back(fmt::format("x{}", i));
  return line.substr(0, line.find('=')) + "= " + call_text(instance, names);
}

// Returns a backward that draws the numbers of its call again, as a call of the cotangent alone;
// nullopt for other rules. Example: the gradient of dropout is dropout, with the same mask.
std::optional<RuleCase> random_call_of_cotangent(const RuleCase& rule, const OpRegistry& ops) {
  if (rule.kind != RuleKind::backward || rule.results.size() != 1) return std::nullopt;
  const GlobalProgram lowered = lowered_lines(rule.lines, rule.inputs, ops);
  // A gradient is moved to the placement of its value after all ops.
  const GlobalInstr* made = nullptr;
  for (ValueId id = lowered.names.at(rule.results[0]); made == nullptr;) {
    const auto maker =
        std::find_if(lowered.instrs.begin(), lowered.instrs.end(), [&](const GlobalInstr& instr) {
          return std::count(instr.outputs.begin(), instr.outputs.end(), id) > 0;
        });
    if (maker == lowered.instrs.end()) return std::nullopt;
    if (maker->kind == GlobalKind::redistribute)
      id = maker->inputs.at(0);
    else
      made = &*maker;
  }
  OpInstance instance;
  instance.record = made->kind == GlobalKind::op ? &ops.at(made->op) : nullptr;
  if (instance.record == nullptr || instance.record->family != "random") return std::nullopt;
  const auto is_other = [&](ValueId id) { return id != kNoValue && id != lowered.inputs.back(); };
  if (std::any_of(made->inputs.begin(), made->inputs.end(), is_other)) return std::nullopt;
  instance.attrs = made->attrs;
  instance.inputs = {rule.inputs.back()};
  RuleCase call = rule;
  call.kind = RuleKind::op;
  call.by_sizes = nullptr;
  call.lines = {with_attrs(rule.results[0] + " =", instance)};
  call.inputs = instance.inputs;
  call.fills = {rule.fills.empty() ? "" : rule.fills.back()};
  return call;
}

std::string verb_of(const std::string& line) {
  const size_t equals = line.find('='), open = line.find('(', equals);
  if (equals == std::string::npos || open == std::string::npos) return "";
  const size_t first = line.find_first_not_of(' ', equals + 1);
  return line.substr(first, open - first);
}

std::string fill_by_samples(const RuleCase& rule, size_t input, const OpRegistry& ops) {
  const TensorMeta& meta = rule.inputs[input];
  if (meta.dtype == DType::boolean) return "bools";
  const OpRecord* op = ops.find(verb_of(rule.lines[0]));
  if (!op || !is_floating(meta.dtype)) return "ints";
  // If a sample has any numbers, the op has no domain.
  std::string domain;
  for (const Sample& sample : op->samples()) {
    if (input >= sample.inputs.size() || !is_floating(sample.inputs[input].dtype)) continue;
    if (input >= sample.fills.size() ||
        !(sample.fills[input].starts_with("uniform") || sample.fills[input] == kDefiniteFill))
      return "ints";
    domain = sample.fills[input];
  }
  return domain.empty() ? "ints" : domain;
}

// Chooses fills for integral inputs that are indices. Legal indices are an interval from 0 on; its
// end is found by trying. Example: for gather(x[4, 6], index, dim=1) any index below 24 is tried,
// and "ints(0, 6)" is the result.
class IndexFills {
 public:
  IndexFills(const RuleCase& rule, const OpRegistry& ops, std::vector<std::string>& fills)
      : rule_(rule), fills_(fills), call_(computation_of(rule, ops)) {}

  // Sets the fills of these inputs. Returns false, and changes nothing, if one has no legal index.
  bool set(const std::vector<size_t>& indices) {
    const std::vector<std::string> before = fills_;
    for (const size_t i : indices) fills_[i] = "ints(0, 1)";
    for (const size_t i : indices) {
      int64_t legal = 0, tried = most_of(i) + 1;
      while (tried - legal > 1) {
        const int64_t middle = legal + (tried - legal) / 2;
        fills_[i] = fmt::format("ints({}, {})", middle - 1, middle);
        (computes() ? legal : tried) = middle;
      }
      if (legal == 0) {
        fills_ = before;
        return false;
      }
      fills_[i] = fmt::format("ints(0, {})", legal);
    }
    return true;
  }

  // True if one device computes the call on the fills.
  bool computes() const {
    std::vector<Tensor> tensors;
    try {
      for (size_t i = 0; i < rule_.inputs.size(); ++i) {
        const TensorMeta& meta = rule_.inputs[i];
        tensors.push_back(meta.absent ? Tensor{}
                                      : filled_by(fills_[i], meta.dtype, meta.shape, kCaseSeed));
      }
      call_.run_whole(rule_.inputs, tensors);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

 private:
  // An index is below the greatest size of the other inputs, or below their number of elements.
  int64_t most_of(size_t input) const {
    constexpr int64_t kMostElements = 64;
    int64_t most = rule_.inputs.size() == 1 ? kMostElements : 1;
    for (size_t i = 0; i < rule_.inputs.size(); ++i) {
      if (i == input) continue;
      const Dims& shape = rule_.inputs[i].shape;
      most = std::max(most, std::min(kMostElements, element_count(shape)));
      for (const int64_t size : shape) most = std::max(most, size);
    }
    return most;
  }

  const RuleCase& rule_;
  std::vector<std::string>& fills_;
  Computation call_;
};

// Sets the fills of integral inputs that state none. They are indices if the call takes no large
// integers; if it has floats, too, all of them are.
void fill_integers(const RuleCase& rule, const OpRegistry& ops, std::vector<std::string>& fills) {
  std::vector<size_t> integers;
  bool has_floats = false;
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    const DType dtype = rule.inputs[i].dtype;
    has_floats = has_floats || is_floating(dtype) || is_complex(dtype);
    if (fills[i].empty() && is_integral(dtype)) integers.push_back(i);
  }
  for (const size_t i : integers) fills[i] = "ints";
  if (integers.empty()) return;
  std::vector<std::string> large = fills;
  for (const size_t i : integers) large[i] = "ints(4096, 8192)";
  if (IndexFills(rule, ops, large).computes()) return;
  IndexFills choice(rule, ops, fills);
  if (has_floats) {
    choice.set(integers);
    return;
  }
  if (integers.size() > 1 && integers[0] == 0 && choice.set({integers.begin() + 1, integers.end()}))
    return;
  choice.set(integers);
}

// Returns which tensors the key `what` of a row places: " (3 inputs and the cotangent of the
// result)".
std::string placed_tensors_text(RuleKind kind, size_t count, const std::string& what) {
  if (kind != RuleKind::backward) return "";
  if (what == "out") return ", the gradients of the float inputs";
  return fmt::format(" ({} input{} and the cotangent of the result)", count - 1,
                     count == 2 ? "" : "s");
}

std::vector<Spec> specs_of(RuleKind kind, const Mesh& mesh, const std::vector<TensorMeta>& metas,
                           const std::vector<std::vector<Placement>>& placements,
                           const char* what) {
  if (placements.size() != metas.size())
    throw_bad_input("/{}: expected placements of {} tensor{}{}, found {}", what, metas.size(),
                    metas.size() == 1 ? "" : "s", placed_tensors_text(kind, metas.size(), what),
                    placements.size());
  std::vector<Spec> specs;
  for (size_t i = 0; i < metas.size(); ++i) {
    const Dims shape = metas[i].absent ? Dims{} : metas[i].shape;
    try {
      specs.emplace_back(mesh, placements[i], shape, metas[i].dtype);
    } catch (const Error& error) {
      throw_bad_input("/{}/{}: {}", what, i, error.message());
    }
  }
  return specs;
}

// Returns why no ranks can have parts of a result under its claimed placements, such as "avg cannot
// reduce bool"; "" if they can. Such a claim is wrong; an input with such placements is bad input.
std::string why_unreducible(const std::vector<TensorMeta>& results,
                            const std::vector<std::vector<Placement>>& placements) {
  for (size_t i = 0; i < std::min(results.size(), placements.size()); ++i)
    for (const Placement& p : placements[i])
      if (p.is_partial() && !is_reduction_allowed(p.partial().reduction.op, results[i].dtype))
        return fmt::format("{} cannot reduce {}", to_string(p.partial().reduction),
                           name(results[i].dtype));
  return "";
}

// True if local attributes differ from the written ones in the sizes of a result only. The end of a
// slice and the padding of a convolution are no such sizes: ranks run the call as it is written.
bool changes_sizes_only(const Attrs& local, const Attrs& written) {
  for (const auto& [name, value] : local.values()) {
    const auto found = written.values().find(name);
    if (found != written.values().end() && found->second == value) continue;
    const bool is_size = name == "shape" || name == "size" || name == "sizes";
    if (!is_size || found == written.values().end()) return false;
  }
  return true;
}

// Returns the unit roundoff of the least float that a line casts to by dtype=; 0 if no line does.
// Example: the gradient of softmax(x, 1, dtype=f32) has digits of f32 in all draws.
double unit_of_casts(const std::vector<std::string>& lines) {
  double unit = 0;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f8e4m3, DType::f8e5m2})
    for (const std::string& line : lines)
      if (line.find(fmt::format("dtype={}", name(dtype))) != line.npos)
        unit = std::max(unit, unit_roundoff(dtype));
  return unit;
}

// Returns the lines of a backward with 1/n of the cotangent, which is input `cotangent`.
std::vector<std::string> with_share_of_cotangent(std::vector<std::string> lines, size_t cotangent,
                                                 int64_t n) {
  lines.insert(lines.begin(), fmt::format("dy = x{} / {}", cotangent, n));
  std::string& last = lines.back();
  last = fmt::format("{}with=dy)", last.substr(0, last.rfind("with=")));
  return lines;
}

// Returns the different numbers in lines of the language: 3 and -2.5 of "clamp(x0, -2.5, 3)".
std::vector<double> numbers_in(const std::vector<std::string>& lines) {
  std::vector<double> numbers;
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  for (const std::string& line : lines)
    for (size_t at = 0; at < line.size();) {
      const char before = at == 0 ? ' ' : line[at - 1];
      const bool is_word = before == '_' || std::isalnum(static_cast<unsigned char>(before)) != 0;
      if (!is_digit(line[at]) || is_word) {
        ++at;
        continue;
      }
      char* end = nullptr;
      double number = std::strtod(line.c_str() + at, &end);
      if (before == '-') number = -number;
      if (std::find(numbers.begin(), numbers.end(), number) == numbers.end())
        numbers.push_back(number);
      at = static_cast<size_t>(end - line.c_str());
    }
  return numbers;
}

// True for a fill that states the domain of an input.
bool is_range(const std::string& fill) { return fill.starts_with("uniform("); }

class CaseCheck {
 public:
  CaseCheck(const RuleCase& rule, const OpRegistry& ops, const DrawCounts& counts = kRowDraws)
      : rule_(rule), ops_(ops) {
    const Computation computation = computation_of(rule, ops);
    outputs_ = computation.compile(rule.inputs).outputs();
    single_ = single_op(rule.lines, rule.inputs, ops);
    differentiated_ = differentiated_op(rule, ops);
    if (differentiated_ && differentiated_->record->family == "random")
      of_cotangent_ = random_call_of_cotangent(rule, ops);
    instance_.inputs = rule.inputs;
    instance_.tensors.resize(rule.inputs.size());
    instance_.fills = fills_of(rule, ops);
    instance_.landmarks = numbers_in(rule.lines);
    for (size_t i = 0; i < rule.fills.size(); ++i)
      instance_.keeps_fills =
          instance_.keeps_fills || (is_floating(rule.inputs[i].dtype) && is_range(rule.fills[i]));
    // A norm is never negative.
    for (size_t i = 0; i < rule.in.size() && i < rule.inputs.size(); ++i) {
      const auto is_norm = [](const Placement& p) {
        return p.is_partial() && p.partial().reduction.op == ReduceOp::norm;
      };
      if (std::none_of(rule.in[i].begin(), rule.in[i].end(), is_norm)) continue;
      instance_.fills[i] = "uniform(0, 4)";
      instance_.keeps_fills = true;
    }
    if (rule.by_own_rule) {
      if (!single_) throw_bad_input("{} is not one op with a rule of its own", rule.op);
      instance_.record = single_->record;
      instance_.attrs = single_->attrs;
      draws_ = draws_of_op(instance_, counts, kCaseSeed);
      return;
    }
    draws_ = draws_of(
        instance_, [&](const OpInstance&) { return computation; }, counts, kCaseSeed);
    if (rule.kind == RuleKind::backward)
      for (RuleDraw& draw : draws_) draw.unit_inside = unit_of_casts(rule.lines);
  }
  const std::vector<RuleDraw>& draws() const { return draws_; }

  ClaimAnswer answer(const CasePlacements& on) {
    mesh_ = on.mesh;
    in_ = specs_of(rule_.kind, on.mesh, rule_.inputs, on.in, "in");
    ClaimAnswer worst;
    worst.trouble = why_unreducible(outputs_, on.out);
    if (!worst.trouble.empty()) {
      worst.kind = ClaimAnswer::Kind::wrong;
      return worst;
    }
    out_ = specs_of(rule_.kind, on.mesh, outputs_, on.out, "out");
    averaged_over_ = on.averaged_over;
    of_ranks_ = computation_of_ranks(on.averaged_over);
    worst.reason = unjudged_reason(draws_);
    if (rule_.kind == RuleKind::inplace && in_[0].placements() != out_[0].placements()) {
      worst.kind = ClaimAnswer::Kind::wrong;
      worst.trouble = "an in-place op keeps the placement of its buffer, " + to_string(in_[0]);
      return worst;
    }
    if (rule_.kind == RuleKind::out && !fits_buffers(worst)) return worst;
    if (rule_.by_own_rule) return answer_by_own_rule();
    bool any_holds = false;
    for (const RuleDraw& draw : draws_) {
      if (!applies(draw, in_, out_) || multiplies_special(draw)) continue;
      ClaimAnswer one = answer_on(draw, false);
      if (one.kind != ClaimAnswer::Kind::holds && has_local_sizes()) {
        const ClaimAnswer local = answer_on(draw, true);
        if (local.kind == ClaimAnswer::Kind::holds ||
            (!one.trouble.empty() && local.trouble.empty()))
          one = local;
      }
      if (one.kind == ClaimAnswer::Kind::wrong)
        return draws_by_position() && (!of_cotangent_ || one.trouble.empty())
                   ? right_by_rule(on, one)
                   : one;
      if (one.kind == ClaimAnswer::Kind::holds)
        any_holds = true;
      else
        worst = std::move(one);
    }
    if (any_holds) worst.kind = ClaimAnswer::Kind::holds;
    return worst;
  }

 private:
  // False if a result has other placements than the buffer that it is written to.
  bool fits_buffers(ClaimAnswer& answer) const {
    for (size_t i = 0; i < out_.size(); ++i) {
      answer.kind = ClaimAnswer::Kind::wrong;
      try {
        const Spec buffer(mesh_, rule_.buffers[i], outputs_[i].shape, outputs_[i].dtype);
        answer.trouble = "an out= form keeps the placement of its buffer, " + to_string(buffer);
        if (buffer.placements() != out_[i].placements()) return false;
      } catch (const Error& error) {  // no tensor has such a placement
        answer.trouble = fmt::format("the buffer of {}: {}", rule_.results[i], error.message());
        return false;
      }
    }
    answer.kind = ClaimAnswer::Kind::undecided;
    answer.trouble.clear();
    return true;
  }
  // True if parts of a gradient may multiply an infinity by 0 where the whole does not.
  bool multiplies_special(const RuleDraw& draw) const {
    return rule_.kind == RuleKind::backward && draw.kind == DrawKind::special &&
           std::any_of(out_.begin(), out_.end(),
                       [](const Spec& spec) { return spec.has_partial(); });
  }

  // True if sizes among the arguments may become those of a rank's result.
  bool has_local_sizes() const {
    if (rule_.by_sizes) return rule_.by_sizes->states_result;
    const std::optional<SingleOp>& op = differentiated_ ? differentiated_ : single_;
    return op && op->record->rule.local_attrs;
  }

  // True for one op that draws random numbers. An element's number depends on its position in the
  // whole tensor, which the op's own rule passes to each rank.
  bool draws_by_position() const {
    return of_cotangent_ || (single_ && single_->record->family == "random");
  }
  // Returns the answer about the op's own rule if it claims these placements, else `raw`.
  ClaimAnswer right_by_rule(const CasePlacements& on, const ClaimAnswer& raw) const {
    RuleCase by_rule = of_cotangent_ ? *of_cotangent_ : rule_;
    by_rule.by_own_rule = true;
    CasePlacements placed = on;
    if (of_cotangent_) placed.in = {on.in.back()};
    try {
      return CaseCheck(by_rule, ops_).answer(placed);
    } catch (const Error&) {
      return raw;
    }
  }

  ClaimAnswer answer_by_own_rule() {
    MeshChoice on{mesh_, {}};
    for (int axis = 0; axis < mesh_.axis_count(); ++axis) {
      on.cuts.emplace_back();
      for (const Spec& spec : in_)
        if (spec.placement(axis).is_shard())
          on.cuts.back() = {spec.placement(axis).shard().split, spec.placement(axis).shard().sizes};
    }
    for (const RuleClaim& claim : claims_of(instance_, on))
      if (claim.inputs == in_ && claim.placed.outputs == out_)
        return check_claim(claim, draws_, ops_, cache_);
    throw_bad_input("the rule of {} does not claim this", single_->record->name);
  }

  // Returns what a rank computes if it has 1/n of the cotangent; null for n = 1.
  const Computation* computation_of_ranks(int64_t n) {
    if (n == 1) return nullptr;
    const auto [found, added] = of_shares_.try_emplace(n);
    if (!added) return &found->second;
    const auto lines = [rule = rule_, n](const std::vector<Dims>& sizes) {
      return with_share_of_cotangent(lines_for(rule, sizes), rule.inputs.size() - 1, n);
    };
    found->second = Computation::of_sizes(ops_, lines, rule_.results);
    return &found->second;
  }

  // Throws Error if the rule has no local attributes for these placements.
  std::vector<Computation> local_computations() const {
    std::vector<Computation> by_rank;
    // The cotangent of a backward has the sizes of the call's result.
    const Spec& of_result = rule_.kind == RuleKind::backward ? in_.back() : out_[0];
    if (rule_.by_sizes) {
      for (int64_t rank = 0; rank < mesh_.size(); ++rank)
        by_rank.push_back(Computation::of_sizes(
            ops_,
            [rule = rule_, result = of_result.local_shape(rank)](const std::vector<Dims>& sizes) {
              return lines_for(rule, sizes, &result);
            },
            rule_.results));
      return by_rank;
    }
    if (differentiated_) return local_backwards();
    const OpCall call{&single_->attrs, rule_.inputs};
    for (int64_t rank = 0; rank < mesh_.size(); ++rank) {
      Attrs local = single_->record->rule.local_attrs(call, in_, out_, rank);
      if (!changes_sizes_only(local, single_->attrs))
        throw_bad_input("the local attributes are not sizes");
      by_rank.push_back(Computation::of_op(*single_->record, std::move(local)));
    }
    return by_rank;
  }

  // The same of a backward, whose call has local attributes.
  std::vector<Computation> local_backwards() const {
    OpInstance instance;
    instance.record = differentiated_->record;
    instance.inputs = {rule_.inputs.begin(), rule_.inputs.end() - 1};
    const std::vector<Spec> in(in_.begin(), in_.end() - 1);
    const OpCall call{&differentiated_->attrs, instance.inputs};
    std::vector<Computation> by_rank;
    for (int64_t rank = 0; rank < mesh_.size(); ++rank) {
      instance.attrs = instance.record->rule.local_attrs(call, in, {in_.back()}, rank);
      if (!changes_sizes_only(instance.attrs, differentiated_->attrs))
        throw_bad_input("the local attributes are not sizes");
      std::vector<std::string> lines{with_attrs(rule_.lines[0], instance), rule_.lines[1]};
      if (averaged_over_ != 1)
        lines = with_share_of_cotangent(lines, rule_.inputs.size() - 1, averaged_over_);
      by_rank.push_back(Computation::of_lines(ops_, lines, rule_.results));
    }
    return by_rank;
  }

  ClaimAnswer answer_on(const RuleDraw& draw, bool with_local_sizes) {
    ClaimAnswer answer;
    answer.draw = draw.kind;
    answer.seed = draw.seed;
    answer.kind = ClaimAnswer::Kind::wrong;
    std::vector<const Slices*> inputs;
    double largest_part = 0;
    for (size_t i = 0; i < in_.size(); ++i) {
      inputs.push_back(&cache_.slices(in_[i]));
      largest_part =
          std::max(largest_part, cache_.contents(draw, i, *inputs.back()).placed.largest_part);
    }
    std::vector<Computation> local;
    std::vector<const Computation*> by_rank = {of_ranks_ ? of_ranks_ : draw.computation.get()};
    try {
      if (with_local_sizes) {
        local = local_computations();
        by_rank.clear();
        for (const Computation& one : local) by_rank.push_back(&one);
      }
    } catch (const Error& error) {
      answer.trouble = error.message();
      return answer;
    }
    const ShardResults results = run_on_shards(draw, by_rank, inputs, cache_);
    answer.trouble = results.trouble;
    if (!answer.trouble.empty()) return answer;
    answer.kind = ClaimAnswer::Kind::holds;
    for (size_t o = 0; o < draw.outputs.size(); ++o) {
      Disagreement first;
      const Slices& out = cache_.slices(out_[o]);
      // Integers are exact. Floats that ranks compute from them are rounded, and may cancel.
      const double parts = std::max(largest_part, results.largest(o));
      const Agreement one = judge_output(draw, o, out, results, parts, &first);
      if (one == Agreement::agrees) continue;
      answer.output = o;
      answer.first = first;
      answer.kind =
          one == Agreement::differs ? ClaimAnswer::Kind::wrong : ClaimAnswer::Kind::undecided;
      if (one == Agreement::differs) break;
      answer.reason = kNeitherReason;
    }
    return answer;
  }

  const RuleCase& rule_;
  const OpRegistry& ops_;
  std::vector<TensorMeta> outputs_;
  Mesh mesh_;  // of the placements that are judged, as the next three are
  std::vector<Spec> in_, out_;
  const Computation* of_ranks_ = nullptr;  // what each rank runs in place of the computation
  std::map<int64_t, Computation> of_shares_;
  int64_t averaged_over_ = 1;
  std::optional<SingleOp> single_, differentiated_;
  std::optional<RuleCase> of_cotangent_;  // a backward that draws random numbers
  OpInstance instance_;
  std::vector<RuleDraw> draws_;
  ShardCache cache_;
};

}  // namespace

std::vector<std::string> fills_of(const RuleCase& rule, const OpRegistry& ops) {
  std::vector<std::string> fills = rule.fills;
  fills.resize(rule.inputs.size());
  for (size_t i = 0; i < fills.size(); ++i)
    if (fills[i].empty() && !is_integral(rule.inputs[i].dtype))
      fills[i] = fill_by_samples(rule, i, ops);
  fill_integers(rule, ops, fills);
  return fills;
}

std::vector<std::string> lines_for(const RuleCase& rule, const std::vector<Dims>& inputs,
                                   const Dims* result) {
  if (!rule.by_sizes) return rule.lines;
  std::vector<std::string> lines = rule.by_sizes->lines(inputs, result);
  for (size_t i = rule.by_sizes->count; i < rule.lines.size(); ++i) lines.push_back(rule.lines[i]);
  return lines;
}

void update_lines(RuleCase& rule) {
  if (!rule.by_sizes) return;
  std::vector<Dims> sizes;
  for (const TensorMeta& meta : rule.inputs) sizes.push_back(meta.shape);
  const size_t added = rule.lines.size() - rule.by_sizes->count;
  std::vector<std::string> lines = lines_for(rule, sizes);
  CallBySizes call = *rule.by_sizes;
  call.count = lines.size() - added;
  rule.lines = std::move(lines);
  rule.by_sizes = std::make_shared<const CallBySizes>(std::move(call));
}

Computation computation_of(const RuleCase& rule, const OpRegistry& ops) {
  if (!rule.by_sizes) return Computation::of_lines(ops, rule.lines, rule.results);
  return Computation::of_sizes(
      ops, [rule](const std::vector<Dims>& inputs) { return lines_for(rule, inputs); },
      rule.results);
}

void check_legal(const RuleCase& rule, const OpRegistry& ops) {
  const LocalProgram program = computation_of(rule, ops).compile(rule.inputs);
  specs_of(rule.kind, rule.mesh, rule.inputs, rule.in, "in");
  if (why_unreducible(program.outputs(), rule.out).empty())
    specs_of(rule.kind, rule.mesh, program.outputs(), rule.out, "out");
}

std::vector<RuleDraw> draws_of_case(const RuleCase& rule, const OpRegistry& ops,
                                    const DrawCounts& counts) {
  return CaseCheck(rule, ops, counts).draws();
}

ClaimAnswer check_case(const RuleCase& rule, const OpRegistry& ops) {
  return CaseCheck(rule, ops).answer({rule.mesh, rule.in, rule.out, rule.averaged_over});
}

std::vector<ClaimAnswer> check_cases(const RuleCase& rule, const std::vector<CasePlacements>& list,
                                     const OpRegistry& ops, const DrawCounts& counts) {
  std::vector<ClaimAnswer> answers;
  CaseCheck check(rule, ops, counts);
  for (const CasePlacements& on : list) answers.push_back(check.answer(on));
  return answers;
}

bool has_gradient(const TensorMeta& meta) {
  return !meta.absent && !meta.weak && (is_floating(meta.dtype) || is_complex(meta.dtype));
}

void make_backward(RuleCase& rule, const OpRegistry& ops) {
  const std::vector<TensorMeta> results = computation_of(rule, ops).compile(rule.inputs).outputs();
  if (results.size() != 1) throw_bad_input("a backward needs a call of one result");
  std::string inputs, gradients;
  std::vector<std::string> names;
  for (size_t i = 0; i < rule.inputs.size(); ++i) {
    const TensorMeta& meta = rule.inputs[i];
    if (!has_gradient(meta)) continue;
    names.push_back(fmt::format("g{}", i));
    inputs += fmt::format("{}x{}", inputs.empty() ? "" : ", ", i);
    gradients += fmt::format("{}{}", gradients.empty() ? "" : ", ", names.back());
  }
  if (names.empty()) throw_bad_input("a backward needs a float input");
  rule.kind = RuleKind::backward;
  rule.fills.resize(rule.inputs.size());
  rule.lines.push_back(fmt::format("{} = grad({}, [{}], with=x{})", gradients, rule.results[0],
                                   inputs, rule.inputs.size()));
  rule.results = std::move(names);
  rule.inputs.push_back({results[0].dtype, results[0].shape});
  rule.fills.emplace_back("ints");
}

RuleCase case_of(const WrongClaim& wrong) {
  RuleCase rule;
  rule.op = wrong.instance.record->name;
  rule.by_own_rule = true;
  rule.mesh = wrong.claim.inputs.front().mesh();
  std::string targets;
  for (size_t i = 0; i < wrong.claim.placed.outputs.size(); ++i) {
    rule.results.push_back(fmt::format("y{}", i));
    targets += (i == 0 ? "" : ", ") + rule.results.back();
    rule.out.push_back(wrong.claim.placed.outputs[i].placements());
  }
  std::vector<std::string> names;
  for (size_t i = 0; i < wrong.instance.inputs.size(); ++i) names.push_back(fmt::format("x{}", i));
  rule.lines = {targets + " = " + call_text(wrong.instance, names)};
  rule.inputs = wrong.instance.inputs;
  rule.fills = wrong.instance.fills;
  for (const Spec& spec : wrong.claim.inputs) rule.in.push_back(spec.placements());
  return rule;
}

}  // namespace shardproof
