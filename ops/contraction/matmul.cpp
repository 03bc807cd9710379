// Registers matmul, bmm, addmm, linear: products of matrices. Each is one contraction
// (ops/contraction/contraction.h).
#include <algorithm>

#include "shardproof/ops/contraction/contraction.h"
#include "shardproof/ops/contraction/product_gradients.h"
#include "shardproof/ops/core/families.h"
#include "shardproof/ops/core/params.h"
#include "shardproof/ops/core/shape_errors.h"

namespace shardproof {
namespace {

// Roles of a product's dims: letters for the contraction, and factor notation for the rule.
struct Product {
  Dims shape;
  std::vector<ContractionLetter> letters;
  std::string notation;  // "mk,kn->mn"
};

class ProductBuilder {
 public:
  explicit ProductBuilder(int dims_a, int dims_b)
      : left_(static_cast<size_t>(dims_a), '1'), right_(static_cast<size_t>(dims_b), '1') {}
  // Adds a letter of `size`. An operand whose dim is -1 does not have it.
  void add(char letter, int64_t size, int a, int b, bool summed = false) {
    ContractionLetter entry{size, {}, {}, -1};
    if (a >= 0) entry.a.push_back(a), left_[static_cast<size_t>(a)] = letter;
    if (b >= 0) entry.b.push_back(b), right_[static_cast<size_t>(b)] = letter;
    if (!summed) {
      entry.result = product_.shape.size();
      product_.shape.push_back(size);
      out_ += a < 0 && b < 0 ? '1' : letter;
    }
    product_.letters.push_back(entry);
  }
  Product finish(const std::string& bias = "") {
    product_.notation = left_ + "," + right_ + (bias.empty() ? "" : "," + bias) + "->" + out_;
    return product_;
  }

 private:
  Product product_;
  std::string left_, right_, out_;
};

void check_product_dtype(std::string_view op, const OpCall& call, const std::vector<int>& inputs) {
  if (same_dtype(op, call, inputs) == DType::boolean)
    refuse(op, call, "a product of bool is not defined; cast to an integer dtype");
}

Product matmul_product(const OpCall& call) {
  const Dims &a = input_shape(call, 0), &b = input_shape(call, 1);
  if (a.empty() || b.empty()) refuse("matmul", call, "each input must have at least 1 dim");
  int batch_a = std::max(a.size() - 2, 0), batch_b = std::max(b.size() - 2, 0);
  int64_t inner_a = a.back(), inner_b = b[b.size() == 1 ? 0 : batch_b];
  if (inner_a != inner_b)
    refuse("matmul", call, "the inner sizes differ, {} and {}", inner_a, inner_b);
  ProductBuilder product(a.size(), b.size());
  int batch = std::max(batch_a, batch_b);
  for (int d = 0; d < batch; ++d) {
    int da = d - (batch - batch_a), db = d - (batch - batch_b);
    int64_t size_a = da < 0 ? 1 : a[da], size_b = db < 0 ? 1 : b[db];
    if (size_a != size_b && size_a != 1 && size_b != 1)
      refuse("matmul", call, "the batch sizes {} and {} do not broadcast", size_a, size_b);
    int64_t size = size_a == 1 ? size_b : size_a;
    product.add(static_cast<char>('a' + d), size, da >= 0 && size_a == size ? da : -1,
                db >= 0 && size_b == size ? db : -1);
  }
  if (a.size() > 1) product.add('m', a[batch_a], batch_a, -1);
  product.add('k', inner_a, a.size() - 1, b.size() == 1 ? 0 : batch_b, true);
  if (b.size() > 1) product.add('n', b.back(), -1, b.size() - 1);
  return product.finish();
}

Product bmm_product(const OpCall& call) {
  require_dims("bmm", call, 0, 3);
  require_dims("bmm", call, 1, 3);
  const Dims &a = input_shape(call, 0), &b = input_shape(call, 1);
  if (a[0] != b[0]) refuse("bmm", call, "the batch sizes differ, {} and {}", a[0], b[0]);
  if (a[2] != b[1]) refuse("bmm", call, "the inner sizes differ, {} and {}", a[2], b[1]);
  ProductBuilder product(3, 3);
  product.add('b', a[0], 0, 0);
  product.add('m', a[1], 1, -1);
  product.add('k', a[2], 2, 1, true);
  product.add('n', b[2], -1, 2);
  return product.finish();
}

// Returns the letters of a bias under a result with the letters `names`: right-aligned, '1' where
// it is repeated.
std::string bias_letters(std::string_view op, const OpCall& call, int bias_input,
                         const Dims& result, const std::string& names) {
  const Dims& bias = input_shape(call, bias_input);
  std::string text;
  int lead = result.size() - bias.size();
  bool fits = lead >= 0;
  for (int d = 0; fits && d < bias.size(); ++d) {
    fits = bias[d] == result[lead + d] || bias[d] == 1;
    text += bias[d] == result[lead + d] ? names[static_cast<size_t>(lead + d)] : '1';
  }
  if (!fits)
    refuse(op, call, "the bias {} does not broadcast to the product {}", to_string(bias),
           to_string(result));
  return text;
}

Product addmm_product(const OpCall& call) {
  require_dims("addmm", call, 1, 2);
  require_dims("addmm", call, 2, 2);
  const Dims &a = input_shape(call, 1), &b = input_shape(call, 2);
  if (a[1] != b[0]) refuse("addmm", call, "the inner sizes differ, {} and {}", a[1], b[0]);
  ProductBuilder product(2, 2);
  product.add('m', a[0], 0, -1);
  product.add('k', a[1], 1, 0, true);
  product.add('n', b[1], -1, 1);
  Product done = product.finish();
  done.notation = bias_letters("addmm", call, 0, done.shape, "mn") + "," + done.notation;
  return done;
}

Product linear_product(const OpCall& call) {
  require_dims("linear", call, 1, 2);
  const Dims &x = input_shape(call, 0), &w = input_shape(call, 1);
  if (x.empty()) refuse("linear", call, "the input must have at least 1 dim");
  if (x.back() != w[1]) refuse("linear", call, "the inner sizes differ, {} and {}", x.back(), w[1]);
  ProductBuilder product(x.size(), 2);
  std::string names = letters(x.size() - 1) + "n";
  for (int d = 0; d + 1 < x.size(); ++d) product.add(names[static_cast<size_t>(d)], x[d], d, -1);
  product.add('n', w[0], -1, 0);
  product.add('k', w[1], x.size() - 1, 1, true);
  Product done = product.finish();
  std::string bias = present(call, 2) ? bias_letters("linear", call, 2, done.shape, names) : "";
  auto arrow = done.notation.find("->");
  done.notation.insert(arrow, "," + bias);
  return done;
}

// One op of the family: the indices of its operands, and its product.
struct ProductOp {
  std::string name;
  Product (*product)(const OpCall&) = nullptr;
  int a = 0, b = 1, bias = -1;
  std::vector<int> same_dtypes;
  int inner_b = 0;  // the dim of b that is summed
};

bool has_bias(const ProductOp& op, const OpCall& call) {
  return op.bias >= 0 && present(call, op.bias);
}

std::vector<TensorMeta> infer_product(const ProductOp& op, const OpCall& call) {
  for (const int operand : {op.a, op.b})
    if (input_meta(call, operand).weak)
      refuse(op.name, call, "expected tensors, found a number; write x * 2 to multiply by one");
  check_product_dtype(op.name, call, op.same_dtypes);
  return {{input_meta(call, op.a).dtype, op.product(call).shape}};
}

Kernel prepare_product(const ProductOp& op, const OpCall& call,
                       const std::vector<TensorMeta>& outputs) {
  ContractionBias bias;
  if (has_bias(op, call)) {
    const TensorMeta& meta = input_meta(call, op.bias);
    bias = {true, meta.shape, meta.dtype, number_or(call, "alpha", 1), number_or(call, "beta", 1)};
  }
  const std::vector<ContractionLetter> letters = op.product(call).letters;
  Contraction contraction(letters, input_meta(call, op.a), input_meta(call, op.b), outputs[0],
                          bias);
  Kernel kernel;
  kernel.workspace_bytes = contraction.workspace_bytes();
  kernel.accepts_strides = contraction.accepts_strides() && !bias.present;
  kernel.plan = share_plan(ContractionPlan{letters, contraction_dtype(outputs[0].dtype), bias, op.a,
                                           op.b, bias.present ? op.bias : -1});
  kernel.run = [contraction, a = op.a, b = op.b,
                c = bias.present ? op.bias : -1](const KernelCall& k) {
    const auto& inputs = *k.inputs;
    contraction.run({k.lanes, &inputs[static_cast<size_t>(a)], &inputs[static_cast<size_t>(b)],
                     c < 0 ? nullptr : &inputs[static_cast<size_t>(c)], &(*k.outputs)[0],
                     k.workspace});
  };
  return kernel;
}

std::vector<ReduceOp> linear_reductions(DType dtype) {
  if (is_integral(dtype)) return {ReduceOp::sum};  // not avg: an integer average truncates
  return {ReduceOp::sum, ReduceOp::avg};
}

// With a bias, only batch, rows and columns are sharded freely. Under a P(sum) product a bias
// counts once per rank, so a sharded inner dim needs a bias that is P(sum) itself.
std::vector<Strategy> product_strategies(const ProductOp& op, const OpCall& call) {
  Product product = op.product(call);
  FactorOptions options;
  const auto ops = linear_reductions(input_meta(call, op.a).dtype);
  const auto pass = [&](const std::vector<int>& together) {
    for (PartialPropagation& rule : joint_partial_rules(ops, together))
      options.partials.push_back(std::move(rule));
  };
  if (!has_bias(op, call)) {
    pass({op.a});
    pass({op.b});
    return factor_strategies(product.notation, options);
  }
  options.whole = "k";
  pass({op.a, op.bias});
  pass({op.b, op.bias});
  auto found = factor_strategies(product.notation, options);
  Strategy inner;
  inner.inputs.assign(call.inputs.size(), R());
  inner.inputs[static_cast<size_t>(op.a)] = S(input_shape(call, op.a).size() - 1);
  inner.inputs[static_cast<size_t>(op.b)] = S(op.inner_b);
  inner.inputs[static_cast<size_t>(op.bias)] = P();
  inner.outputs = {P()};
  found.push_back(inner);
  return found;
}

OpCost product_cost(const ProductOp& op, const OpCall& call,
                    const std::vector<TensorMeta>& outputs) {
  OpCost total;
  total.flops = 2;
  for (const auto& letter : op.product(call).letters)
    total.flops *= static_cast<double>(letter.size);
  auto add = [&](const TensorMeta& meta) {
    if (!meta.absent)
      total.bytes += static_cast<double>(element_count(meta.shape) * size_of(meta.dtype));
  };
  for (const TensorMeta& input : call.inputs) add(input);
  add(outputs[0]);
  return total;
}

OpRecord product_record(const ProductOp& op, std::string summary, std::vector<Param> params) {
  OpRecord record;
  record.name = op.name;
  record.family = "matmul";
  record.summary = std::move(summary);
  record.params = std::move(params);
  record.infer = [op](const OpCall& call) { return infer_product(op, call); };
  record.prepare = [op](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return prepare_product(op, call, outputs);
  };
  record.rule.strategies = [op](const OpCall& call, const std::vector<TensorMeta>&, int64_t) {
    return product_strategies(op, call);
  };
  record.cost = [op](const OpCall& call, const std::vector<TensorMeta>& outputs) {
    return product_cost(op, call, outputs);
  };
  return record;
}

Sample product_sample(std::vector<Dims> shapes, DType dtype = DType::f32, Attrs attrs = {}) {
  return sample_of({std::move(shapes), dtype}, std::move(attrs));
}

std::vector<Sample> matmul_samples() {
  std::vector<Sample> found = {product_sample({{4, 6}, {6, 8}}),
                               product_sample({{5, 3}, {3, 7}}, DType::bf16),
                               product_sample({{5, 3}, {3, 7}}, DType::f64),
                               product_sample({{5, 3}, {3, 7}}, DType::i64),
                               product_sample({{7}, {7}}),
                               product_sample({{5}, {5, 3}}),
                               product_sample({{5, 3}, {3}}),
                               product_sample({{2, 5, 3}, {3, 4}}),
                               product_sample({{2, 1, 4, 3}, {5, 3, 2}}),
                               product_sample({{1, 5}, {5, 1}}),
                               product_sample({{0, 3}, {3, 2}}),
                               product_sample({{3, 0}, {0, 2}}),
                               product_sample({{4, 6}, {6, 4}}, DType::c64)};
  Sample inexact = product_sample({{5, 9}, {9, 3}});
  inexact.fills = {"uniform(-1, 1)", "uniform(-1, 1)"};
  found.push_back(inexact);
  return found;
}

}  // namespace

void add_matmul_ops(OpRegistry& ops) {
  OpRecord matmul =
      product_record({"matmul", matmul_product, 0, 1, -1, {0, 1}},
                     "matrix product; 1-d inputs are vectors, leading dims are a broadcast batch",
                     {params::tensor("input"), params::tensor("other")});
  matmul.infix = "@";
  matmul.gradient = matmul_gradient();
  matmul.samples = matmul_samples;
  ops.add(std::move(matmul));

  OpRecord bmm = product_record({"bmm", bmm_product, 0, 1, -1, {0, 1}}, "batch of matrix products",
                                {params::tensor("input"), params::tensor("mat2")});
  bmm.gradient = matmul_gradient();
  bmm.samples = [] {
    return std::vector<Sample>{product_sample({{3, 4, 5}, {3, 5, 2}}),
                               product_sample({{4, 1, 3}, {4, 3, 6}}),
                               product_sample({{2, 5, 3}, {2, 3, 4}}, DType::bf16)};
  };
  ops.add(std::move(bmm));

  OpRecord addmm = product_record(
      {"addmm", addmm_product, 1, 2, 0, {0, 1, 2}}, "beta * input + alpha * (mat1 @ mat2)",
      {params::tensor("input"), params::tensor("mat1"), params::tensor("mat2"),
       params::number("beta", 1.0), params::number("alpha", 1.0)});
  addmm.gradient = addmm_gradient();
  addmm.samples = [] {
    Attrs plain{{"beta", 1.0}, {"alpha", 1.0}}, scaled{{"beta", 0.5}, {"alpha", 2.0}};
    return std::vector<Sample>{product_sample({{7}, {5, 3}, {3, 7}}, DType::f32, plain),
                               product_sample({{5, 1}, {5, 4}, {4, 2}}, DType::bf16, plain),
                               product_sample({{4, 6}, {4, 2}, {2, 6}}, DType::f32, scaled)};
  };
  ops.add(std::move(addmm));

  OpRecord linear = product_record(
      {"linear", linear_product, 0, 1, 2, {0, 1, 2}, 1}, "input @ weight.T + bias",
      {params::tensor("input"), params::tensor("weight"), params::optional_tensor("bias")});
  linear.gradient = linear_gradient();
  linear.samples = [] {
    Sample bare = product_sample({{5, 3}, {6, 3}, {}});
    bare.inputs[2] = absent_input();
    return std::vector<Sample>{product_sample({{2, 5, 3}, {7, 3}, {7}}),
                               product_sample({{3}, {4, 3}, {4}}),
                               product_sample({{4, 6}, {8, 6}, {8}}, DType::bf16), bare};
  };
  ops.add(std::move(linear));
}

}  // namespace shardproof
