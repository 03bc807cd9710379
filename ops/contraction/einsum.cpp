// Registers einsum: products of tensors named by letters. One or two operands are one contraction.
// More are contracted from left to right, and each intermediate is rounded to the dtype.
#include <algorithm>
#include <cctype>
#include <map>

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/contraction/product_gradients.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
  std::map<char, int64_t> sizes;
};

void add_character(const OpCall& call, Equation& equation, char c) {
  if (c == ',')
    equation.inputs.emplace_back();
  else if (std::isalpha(static_cast<unsigned char>(c)))
    equation.inputs.back() += c;
  else if (c != ' ')
    refuse("einsum", call, "expected letters, ',', '->' or '...', found '{}'", c);
}

void read_output(const OpCall& call, Equation& equation, const std::string& text, size_t arrow) {
  std::map<char, int> seen;
  for (const std::string& term : equation.inputs)
    for (char c : term) ++seen[c];
  if (arrow == std::string::npos) {  // the letters that occur once, sorted
    for (auto [c, count] : seen)
      if (count == 1) equation.output += c;
    return;
  }
  for (char c : text.substr(arrow + 2)) {
    if (c == ' ') continue;
    if (!seen.contains(c)) refuse("einsum", call, "letter '{}' of the output is in no input", c);
    if (equation.output.find(c) != std::string::npos)
      refuse("einsum", call, "letter '{}' occurs twice in the output", c);
    equation.output += c;
  }
}

// Replaces '...' by unused letters, aligned from the last dim of each input. The output gets the
// letters of the input with the most dims. If the equation has no output, it begins with these
// letters.
std::string without_ellipsis(const OpCall& call, std::string text) {
  if (text.find("...") == std::string::npos) return text;
  std::erase(text, ' ');
  std::string free;
  for (char c = 'z'; c >= 'A'; --c)
    if (std::isalpha(static_cast<unsigned char>(c)) && text.find(c) == std::string::npos) free += c;
  const size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow), result, longest;
  std::map<char, int> seen;
  size_t input = 0;
  for (size_t at = 0; at <= left.size(); ++input) {
    const size_t end = std::min(left.find(',', at), left.size());
    std::string term = left.substr(at, end - at);
    for (const char c : term)
      if (c != '.') ++seen[c];
    const size_t dots = term.find("...");
    if (dots != std::string::npos && input < call.inputs.size()) {
      const int64_t named = static_cast<int64_t>(term.size()) - 3;
      const int64_t more = call.inputs[input].shape.size() - named;
      if (more < 0 || more > static_cast<int64_t>(free.size()))
        refuse("einsum", call, "'{}' names {} dims, input {} has {}", term, named, input + 1,
               call.inputs[input].shape.size());
      std::string letters = free.substr(0, static_cast<size_t>(more));
      std::reverse(letters.begin(), letters.end());
      if (letters.size() > longest.size()) longest = letters;
      term.replace(dots, 3, letters);
    }
    result += (at > 0 ? "," : "") + term;
    at = end + 1;
  }
  std::string output;
  if (arrow != std::string::npos) {
    output = text.substr(arrow + 2);
    const size_t dots = output.find("...");
    if (dots != std::string::npos) output.replace(dots, 3, longest);
  } else {
    output = longest;
    for (const auto& [c, count] : seen)
      if (count == 1) output += c;
  }
  return result + "->" + output;
}

Equation read_equation(const OpCall& call) {
  const std::string text = without_ellipsis(call, call.attrs->text("equation"));
  Equation equation;
  equation.inputs.emplace_back();
  size_t arrow = text.find("->");
  for (char c : text.substr(0, arrow)) add_character(call, equation, c);
  read_output(call, equation, text, arrow);
  if (equation.inputs.size() != call.inputs.size())
    refuse("einsum", call, "'{}' names {} tensors, found {}", text, equation.inputs.size(),
           call.inputs.size());
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    const std::string& term = equation.inputs[i];
    const Dims& shape = call.inputs[i].shape;
    if (static_cast<int>(term.size()) != shape.size())
      refuse("einsum", call, "'{}' names {} dims, input {} has {}", term, term.size(), i + 1,
             shape.size());
    for (int d = 0; d < shape.size(); ++d) {
      auto [known, fresh] = equation.sizes.emplace(term[static_cast<size_t>(d)], shape[d]);
      if (!fresh && known->second == 1) known->second = shape[d];
      if (shape[d] != known->second && shape[d] != 1)
        refuse("einsum", call, "letter '{}' has the sizes {} and {}", known->first, known->second,
               shape[d]);
    }
  }
  if (equation.output.size() > kMaxDims)
    refuse("einsum", call, "the result would have more than {} dims", kMaxDims);
  return equation;
}

// Returns the dims of an operand that a letter steps through. Dims of size 1 broadcast and do not
// count.
std::vector<int> dims_of(char letter, const std::string& term, const Dims& shape, int64_t size) {
  std::vector<int> dims;
  for (int d = 0; d < shape.size(); ++d)
    if (term[static_cast<size_t>(d)] == letter && (shape[d] == size)) dims.push_back(d);
  return dims;
}

struct Step {
  std::string a, b, output;
  TensorMeta left, right, result;
  std::vector<ContractionLetter> letters;
};

Step make_step(const Equation& equation, Step step) {
  std::string all = step.output;
  for (char c : step.a + step.b)
    if (all.find(c) == std::string::npos) all += c;
  for (char c : all) {
    int64_t size = equation.sizes.at(c);
    ContractionLetter letter{size, dims_of(c, step.a, step.left.shape, size),
                             dims_of(c, step.b, step.right.shape, size), -1};
    size_t at = step.output.find(c);
    if (at != std::string::npos) {
      letter.result = static_cast<int>(at);
      step.result.shape.push_back(size);
    }
    step.letters.push_back(letter);
  }
  return step;
}

// Returns the letters of `term` that later inputs or the output use.
std::string kept(const Equation& equation, const std::string& term, size_t from) {
  std::string later = equation.output, result;
  for (size_t i = from; i < equation.inputs.size(); ++i) later += equation.inputs[i];
  for (char c : term)
    if (later.find(c) != std::string::npos && result.find(c) == std::string::npos) result += c;
  return result;
}

std::vector<Step> steps_of(const OpCall& call) {
  Equation equation = read_equation(call);
  DType dtype = call.inputs[0].dtype;
  std::vector<Step> steps;
  Step first{equation.inputs[0], "", equation.output, call.inputs[0], {dtype, {}}, {dtype, {}}, {}};
  if (call.inputs.size() == 1) return {make_step(equation, first)};
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    Step step = first;
    if (i > 1) {
      step.a = steps.back().output;
      step.left = steps.back().result;
    }
    step.b = equation.inputs[i];
    step.right = call.inputs[i];
    if (i + 1 < call.inputs.size()) step.output = kept(equation, step.a + step.b, i + 1);
    if (step.output.size() > Dims::kCapacity)
      refuse("einsum", call, "an intermediate result would have more than {} dims",
             Dims::kCapacity);
    steps.push_back(make_step(equation, step));
  }
  return steps;
}

std::vector<TensorMeta> infer_einsum(const OpCall& call) {
  if (call.inputs.empty()) refuse("einsum", call, "needs at least one tensor");
  std::vector<int> all;
  for (size_t i = 0; i < call.inputs.size(); ++i) all.push_back(static_cast<int>(i));
  if (same_dtype("einsum", call, all) == DType::boolean)
    refuse("einsum", call, "a product of bool is not defined; cast to an integer dtype");
  return {steps_of(call).back().result};
}

// Returns the number 1 as bytes: the right operand of a single tensor.
std::vector<std::byte> one_of(DType dtype) {
  std::vector<std::byte> one(16);
  store_f64(one.data(), dtype, 1);
  return one;
}

LaneView dense_lane_view(const TensorMeta& meta, std::byte* base) {
  LaneView view;
  view.base = base;
  view.dtype = meta.dtype;
  view.shape = meta.shape;
  view.strides = contiguous_strides(meta.shape);
  return view;
}

// Returns a kernel without `run` for one contraction.
Kernel kernel_of(const Contraction& contraction) {
  Kernel kernel;
  kernel.workspace_bytes = contraction.workspace_bytes();
  kernel.accepts_strides = contraction.accepts_strides();
  return kernel;
}

Kernel prepare_single(const OpCall& call) {
  Step step = steps_of(call).front();
  Contraction contraction(step.letters, step.left, step.right, step.result);
  Kernel kernel = kernel_of(contraction);
  kernel.run = [contraction, step, one = one_of(step.right.dtype)](const KernelCall& k) {
    LaneView right = dense_lane_view(step.right, const_cast<std::byte*>(one.data()));
    contraction.run({k.lanes, &(*k.inputs)[0], &right, nullptr, &(*k.outputs)[0], k.workspace});
  };
  return kernel;
}

Kernel prepare_pair(const OpCall& call) {
  Step step = steps_of(call).front();
  Contraction contraction(step.letters, step.left, step.right, step.result);
  Kernel kernel = kernel_of(contraction);
  kernel.plan = share_plan(ContractionPlan{step.letters, contraction_dtype(step.result.dtype)});
  kernel.run = [contraction](const KernelCall& k) {
    contraction.run(
        {k.lanes, &(*k.inputs)[0], &(*k.inputs)[1], nullptr, &(*k.outputs)[0], k.workspace});
  };
  return kernel;
}

Kernel prepare_chain(const OpCall& call) {
  constexpr int64_t kAlignment = 64;
  auto steps = steps_of(call);
  std::vector<Contraction> contractions;
  std::vector<int64_t>
      places;  // offsets of the intermediates, after the contractions' own workspace
  int64_t own = 0, extra = 0;
  for (const Step& step : steps) {
    contractions.emplace_back(step.letters, step.left, step.right, step.result);
    own = std::max(own, contractions.back().workspace_bytes());
    places.push_back(extra);
    int64_t bytes = element_count(step.result.shape) * size_of(step.result.dtype);
    extra += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  Kernel kernel;
  kernel.workspace_bytes = own + extra;
  kernel.run = [=](const KernelCall& k) {
    for (int64_t lane = 0; lane < k.lanes; ++lane) {
      LaneView left = dense_lane_view(steps[0].left, (*k.inputs)[0].at(lane));
      for (size_t i = 0; i < steps.size(); ++i) {
        LaneView right = dense_lane_view(steps[i].right, (*k.inputs)[i + 1].at(lane));
        bool last = i + 1 == steps.size();
        LaneView result = dense_lane_view(
            steps[i].result, last ? (*k.outputs)[0].at(lane) : k.workspace + own + places[i]);
        contractions[i].run({1, &left, &right, nullptr, &result, k.workspace});
        left = result;
      }
    }
  };
  return kernel;
}

Kernel prepare_einsum(const OpCall& call, const std::vector<TensorMeta>&) {
  if (call.inputs.size() == 1) return prepare_single(call);
  return call.inputs.size() == 2 ? prepare_pair(call) : prepare_chain(call);
}

std::vector<Strategy> einsum_strategies(const OpCall& call, const std::vector<TensorMeta>&,
                                        int64_t) {
  Equation equation = read_equation(call);
  std::string notation;
  FactorOptions options;
  std::vector<ReduceOp> ops = {ReduceOp::sum};
  if (!is_integral(call.inputs[0].dtype)) ops.push_back(ReduceOp::avg);
  for (size_t i = 0; i < equation.inputs.size(); ++i) {
    std::string term = equation.inputs[i];
    for (int d = 0; d < call.inputs[i].shape.size(); ++d) {
      char& c = term[static_cast<size_t>(d)];
      if (call.inputs[i].shape[d] != equation.sizes.at(c)) c = '1';
    }
    notation += (i > 0 ? "," : "") + term;
    for (PartialPropagation& rule : joint_partial_rules(ops, {static_cast<int>(i)}))
      options.partials.push_back(std::move(rule));
  }
  return factor_strategies(notation_of(notation, equation.output), options);
}

OpCost einsum_cost(const OpCall& call, const std::vector<TensorMeta>& outputs) {
  OpCost total;
  for (const Step& step : steps_of(call)) {
    double flops = call.inputs.size() == 1 ? 1 : 2;
    for (const auto& letter : step.letters) flops *= static_cast<double>(letter.size);
    total.flops += flops;
  }
  auto add = [&](const TensorMeta& meta) {
    total.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  };
  for (const TensorMeta& input : call.inputs) add(input);
  add(outputs[0]);
  return total;
}

std::vector<Sample> einsum_samples() {
  std::vector<Sample> found;
  auto add = [&](std::vector<Dims> shapes, std::string equation, DType dtype = DType::f32) {
    found.push_back(sample_of({std::move(shapes), dtype}, {{"equation", std::move(equation)}}));
  };
  add({{2, 5, 3}, {3, 4, 2}}, "bsd,dhk->bhsk");
  add({{2, 4, 5, 2}, {4, 2, 3}}, "bhsk,hkd->bsd");
  add({{3, 2, 5}, {3, 4, 5}}, "bij,bkj->bik", DType::bf16);
  add({{5}, {3}}, "i,j->ij", DType::i64);
  add({{4, 3}}, "ij->ji");
  add({{4, 3, 2}}, "ijk->j", DType::f64);
  add({{3, 3}}, "ii->i");
  add({{5, 3}, {3, 4}, {4, 2}}, "ab,bc,cd->ad");
  add({{5, 3}, {5, 3}}, "ij,ij->");
  return found;
}

}  // namespace

void add_einsum_ops(OpRegistry& ops) {
  OpRecord einsum;
  einsum.name = "einsum";
  einsum.family = "matmul";
  einsum.summary = "einsum('bsd,dhk->bhsk', x, w): sums over the letters that the output lacks";
  einsum.params = {params::required("equation", ParamKind::text), params::tensors("operands")};
  einsum.infer = infer_einsum;
  einsum.prepare = prepare_einsum;
  einsum.gradient = gradient_together([](Gradient& g) {
    const Equation equation = read_equation(g.call);
    return einsum_gradient(g, equation.inputs, equation.output);
  });
  einsum.rule.strategies = einsum_strategies;
  einsum.cost = einsum_cost;
  einsum.samples = einsum_samples;
  ops.add(std::move(einsum));
}

}  // namespace shardproof
