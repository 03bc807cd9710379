// Values of ops, against PyTorch's record: each forward row that our ops can express is run on one
// device and must lie within its own propagated error bound of the recorded truth (which is printed
// with seven digits).
#include <cmath>
#include <functional>
#include <optional>

#include "shardproof/ops/run_once.h"
#include "shardproof/tests/conformance/cases.h"

namespace shardproof::conformance {
namespace {

// Why a row is not run.
struct Skip {
  std::string why;
};

// A value and how far it may be off.
struct Value {
  Tensor tensor;
  Bound bound;
};

// The fill rules of torch/README.md; "unit" is the rule's remainder over 32.
Value filled_input(const Json& input, int number) {
  const std::string kind = input.value("kind", "");
  const Dims shape = dims_of(input["shape"]);
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const auto step = static_cast<double>((37 * i + 11 * number) % 23);
    double value = (step - 11) / 4;
    if (kind == "pos")
      value = (step + 1) / 4;
    else if (kind == "unit")
      value = step / 32;
    else if (kind == "b")
      value = (5 * i + number) % 3 == 0 ? 1 : 0;
    else if (kind.starts_with("i"))
      value = static_cast<double>((7 * i + 3 * number) % std::stoll(kind.substr(1)));
    else if (kind != "f")
      throw Skip{"an input of kind " + kind};
    values.push_back(value);
  }
  const DType dtype = kind == "b"             ? DType::boolean
                      : kind.starts_with("i") ? DType::i64
                                              : DType::f32;
  Value value{tensor_of(dtype, shape, values), {}};
  value.bound = Bound::exact_of(value.tensor);
  return value;
}

class Runner {
 public:
  Runner(const OpRegistry& ops, const Json& row) : ops_(ops), attrs_(row["attrs"]) {
    int number = 0;
    for (const Json& input : row["inputs"]) inputs.push_back(filled_input(input, number++));
  }

  std::vector<Value> all(const std::string& op, const std::vector<Value>& given,
                         Attrs attrs) const {
    const OpRecord* record = ops_.find(op);
    if (!record) throw Skip{"no op " + op};
    size_t tensors = 0;
    for (const Param& param : record->params) {
      tensors += param.kind == ParamKind::tensor || param.kind == ParamKind::optional_tensor;
      const bool absent = !attrs.has(param.name) && !param.required;
      if (absent && param.kind != ParamKind::optional_tensor) attrs.set(param.name, param.fallback);
    }
    OpCall call;
    call.attrs = &attrs;
    std::vector<const Tensor*> pointers;
    BoundCall bound;
    for (size_t i = 0; i < std::max(given.size(), tensors); ++i) {
      const bool present = i < given.size();
      pointers.push_back(present ? &given[i].tensor : nullptr);
      bound.input_bounds.push_back(present ? &given[i].bound : nullptr);
      TensorMeta meta;
      if (present) meta = {given[i].tensor.dtype, given[i].tensor.shape};
      meta.absent = !present;
      call.inputs.push_back(meta);
    }
    std::vector<Tensor> outputs = run_once(*record, call, pointers);
    bound.call = &call;
    bound.inputs = pointers;
    for (const Tensor& output : outputs) bound.outputs.push_back(&output);
    std::vector<Bound> bounds = record->bound(bound);
    std::vector<Value> values;
    for (size_t i = 0; i < outputs.size(); ++i) values.push_back({outputs[i], bounds[i]});
    return values;
  }
  Value one(const std::string& op, const std::vector<Value>& given, Attrs attrs = {}) const {
    return all(op, given, std::move(attrs)).front();
  }

  bool has(const char* name) const { return attrs_.contains(name); }
  int64_t integer(const char* name) const { return attrs_.at(name).get<int64_t>(); }
  double number(const char* name) const { return attrs_.at(name).get<double>(); }
  std::string text(const char* name) const { return attrs_.at(name).get<std::string>(); }
  std::vector<int64_t> list(const char* name) const {
    const Json& value = attrs_.at(name);
    if (value.is_array()) return value.get<std::vector<int64_t>>();
    return {value.get<int64_t>()};
  }
  const Json& attributes() const { return attrs_; }
  const OpRegistry& ops() const { return ops_; }

  std::vector<Value> inputs;

 private:
  const OpRegistry& ops_;
  Json attrs_;
};

using Run = std::function<std::vector<Value>(const Runner&)>;
using L = std::vector<int64_t>;

// An attribute of the record, for a parameter of ours of the same name.
void carry(const Runner& r, const OpRecord& record, const std::string& name, Attrs& attrs) {
  for (const Param& param : record.params) {
    if (param.name != name) continue;
    const Json& value = r.attributes().at(name);
    if (name == "dim" && value.is_string()) return;  // "all"
    switch (param.kind) {
      case ParamKind::integer: attrs.set(name, value.get<int64_t>()); return;
      case ParamKind::integers: attrs.set(name, r.list(name.c_str())); return;
      case ParamKind::number: attrs.set(name, value.get<double>()); return;
      case ParamKind::boolean: attrs.set(name, value.get<bool>()); return;
      case ParamKind::text: attrs.set(name, value.get<std::string>()); return;
      default: break;
    }
  }
  throw Skip{record.name + " has no attribute " + name};
}

// Our op with the row's inputs and attributes as they are, but for those named in `but`.
std::vector<Value> same(const Runner& r, const std::string& op,
                        const std::vector<std::string>& but = {}) {
  const OpRecord* record = r.ops().find(op);
  if (!record) throw Skip{"no op " + op};
  Attrs attrs;
  for (const auto& [name, value] : r.attributes().items())
    if (std::find(but.begin(), but.end(), name) == but.end()) carry(r, *record, name, attrs);
  return r.all(op, r.inputs, attrs);
}

Run as(const std::string& op) {
  return [op](const Runner& r) { return same(r, op); };
}

// Rows whose op has another name or another order of arguments with us. Without an entry: the op of
// that name.
std::map<std::string, Run> movers() {
  std::map<std::string, Run> runs;
  runs["flatten"] = [](const Runner& r) {
    return r.all("flatten", r.inputs,
                 {{"start_dim", r.integer("start")}, {"end_dim", r.integer("end")}});
  };
  runs["flatten_then_unflatten"] = [](const Runner& r) {
    Value flat = r.one("flatten", r.inputs,
                       {{"start_dim", r.integer("start")}, {"end_dim", r.integer("end")}});
    return r.all("unflatten", {flat}, {{"dim", r.integer("dim")}, {"sizes", r.list("sizes")}});
  };
  runs["as_strided_like_view"] = runs["transpose_then_reshape"] = [](const Runner& r) {
    return r.all("reshape", {r.one("t", r.inputs)}, {{"shape", r.list("shape")}});
  };
  runs["view_then_sum"] = [](const Runner& r) {
    Value view = r.one("view", r.inputs, {{"shape", r.list("shape")}});
    return r.all("sum", {view}, {{"dim", L{r.integer("dim")}}, {"keepdim", false}});
  };
  runs["movedim"] = [](const Runner& r) {
    return r.all("permute", r.inputs, {{"dims", L{1, 2, 0}}});
  };
  runs["unbind"] = [](const Runner& r) {
    std::vector<Value> rows;
    for (int64_t i = 0; i < r.inputs[0].tensor.shape[0]; ++i)
      rows.push_back(r.one("select", r.inputs, {{"dim", int64_t{0}}, {"index", i}}));
    return rows;
  };
  runs["cat_partial"] = runs["hstack"] = [](const Runner& r) {
    return r.all("cat", r.inputs, {{"dim", int64_t{1}}});
  };
  runs["stack0"] = as("stack");
  runs["stack_partial"] = [](const Runner& r) {
    return r.all("stack", r.inputs, {{"dim", int64_t{0}}});
  };
  runs["expand"] = [](const Runner& r) {
    return r.all("expand", r.inputs, {{"size", r.list("shape")}});
  };
  runs["roll"] = [](const Runner& r) {
    Attrs attrs{{"shifts", r.list("shift")}};
    if (!r.attributes().at("dim").is_string()) attrs.set("dims", r.list("dim"));
    return r.all("roll", r.inputs, attrs);
  };
  runs["split"] = [](const Runner& r) {
    Attrs attrs{{"dim", r.integer("dim")}};
    if (r.has("size"))
      attrs.set("sizes", r.integer("size"));
    else
      attrs.set("sizes", r.list("sizes"));
    return r.all("split", r.inputs, attrs);
  };
  auto slice = [](const Runner& r) {
    const auto dim = static_cast<size_t>(r.integer("dim"));
    L start(dim + 1, 0), stop(dim + 1, 1000), step(dim + 1, 1);
    if (r.has("start")) start[dim] = r.integer("start");
    if (r.has("end")) stop[dim] = r.integer("end");
    if (r.has("length")) stop[dim] = start[dim] + r.integer("length");
    if (r.has("step")) step[dim] = r.integer("step");
    return r.all("slice", r.inputs, {{"start", start}, {"stop", stop}, {"step", step}});
  };
  runs["slice"] = runs["narrow"] = slice;
  return runs;
}

Run take_rows(bool flat) {
  return [flat](const Runner& r) {
    Value from = flat ? r.one("flatten", {r.inputs[0]}) : r.inputs[0];
    return r.all("index_select", {from, r.inputs[1]}, {{"dim", int64_t{0}}});
  };
}

Run einsum(const std::string& equation) {
  return [equation](const Runner& r) {
    return r.all("einsum", r.inputs, {{"equation", equation}});
  };
}

std::map<std::string, Run> model_ops() {
  std::map<std::string, Run> runs = movers();
  for (const char* name : {"matmul_1d_2d", "matmul_2d_1d"}) runs[name] = as("matmul");
  for (const char* name : {"linear_bias", "linear_no_bias"}) runs[name] = as("linear");
  for (const char* name : {"conv1d_same", "conv1d_patch", "conv1d_groups"})
    runs[name] = as("conv1d");
  for (const char* name : {"conv2d_bias", "conv2d_even", "conv2d_even_bias"})
    runs[name] = as("conv2d");
  runs["einsum"] = [](const Runner& r) { return einsum(r.text("eq"))(r); };
  runs["outer"] = einsum("i,j->ij");
  runs["dot_rows"] = einsum("ij,ij->i");
  runs["matmul_chain"] = [](const Runner& r) {
    return r.all("matmul", {r.one("matmul", {r.inputs[0], r.inputs[1]}), r.inputs[2]}, {});
  };
  auto norm = [](const std::string& op) {
    return [op](const Runner& r) {
      Attrs attrs;
      if (r.has("normalized_shape"))
        attrs.set("dims", static_cast<int64_t>(r.list("normalized_shape").size()));
      if (r.has("eps")) attrs.set("eps", r.number("eps"));
      return r.all(op, r.inputs, attrs);
    };
  };
  runs["layer_norm"] = runs["layer_norm_even"] = norm("layer_norm");
  runs["rms_norm"] = norm("rms_norm");
  runs["embedding"] = runs["embedding_even"] = [](const Runner& r) {
    return r.all("embedding", {r.inputs[1], r.inputs[0]}, {});
  };
  runs["index"] = take_rows(false);
  runs["take"] = take_rows(true);
  runs["scatter"] = as("scatter_along_dim");
  runs["sort"] = [](const Runner& r) { return same(r, "sort", {"stable"}); };
  runs["argsort"] = [](const Runner& r) {
    return std::vector<Value>{same(r, "sort", {"stable"})[1]};
  };
  runs["kthvalue"] = [](const Runner& r) {
    std::vector<Value> found;
    for (const Value& sorted : same(r, "sort", {"k"}))
      found.push_back(
          r.one("select", {sorted}, {{"dim", r.integer("dim")}, {"index", r.integer("k") - 1}}));
    return found;
  };
  runs["cross_entropy"] = [](const Runner& r) { return same(r, "cross_entropy", {"weight"}); };
  runs["cross_entropy_even"] = as("cross_entropy");
  return runs;
}

// A number where the row's op takes one.
Value scalar(double value) {
  Value made{tensor_of(DType::f32, {}, {value}), {}};
  made.bound = Bound::exact_of(made.tensor);
  return made;
}

// x op number; `fixed` where the row does not say the number.
Run with_number(const std::string& op, const char* attribute, double fixed = 0) {
  return [op, attribute, fixed](const Runner& r) {
    const double number = attribute ? r.number(attribute) : fixed;
    return r.all(op, {r.inputs[0], scalar(number)}, {});
  };
}

Run number_with(const std::string& op, const char* attribute) {
  return [op, attribute](const Runner& r) {
    return r.all(op, {scalar(r.number(attribute)), r.inputs[0]}, {});
  };
}

std::map<std::string, Run> with_numbers(std::map<std::string, Run> runs) {
  runs["mul_scalar"] = runs["mul_scalar_neg"] = with_number("mul", "other");
  runs["mul_minus_2"] = with_number("mul", nullptr, -2);
  runs["mul_zero"] = with_number("mul", nullptr, 0);
  runs["div_inplace_neg"] = with_number("div", "other");
  runs["rsub"] = number_with("sub", "other");
  runs["gt_0"] = with_number("gt", nullptr, 0);
  runs["lt_scalar"] = with_number("lt", "other");
  runs["remainder_3"] = with_number("remainder", nullptr, 3);
  runs["floor_div_2"] = with_number("floordiv", nullptr, 2);
  runs["pow"] = with_number("pow", "exponent");
  runs["scalar_pow"] = number_with("pow", "base");
  runs["any"] = [](const Runner& r) {  // of x > 0
    Value positive = r.one("gt", {r.inputs[0], scalar(0)});
    return r.all("any", {positive}, {{"dim", r.list("dim")}});
  };
  runs["where"] = [](const Runner& r) {
    if (!r.has("other")) return r.all("where", r.inputs, {});
    return r.all("where", {r.inputs[0], r.inputs[1], scalar(r.number("other"))}, {});
  };
  runs["masked_fill"] = [](const Runner& r) {
    return r.all("where", {r.inputs[1], scalar(r.number("value")), r.inputs[0]}, {});
  };
  runs["clamp_max"] = [](const Runner& r) {
    return r.all("clamp", r.inputs, {{"max", r.number("max")}});
  };
  runs["clamp_min_gt_max"] = [](const Runner& r) {
    return r.all("clamp", r.inputs, {{"min", r.number("min")}, {"max", r.number("max")}});
  };
  runs["to_int32"] = [](const Runner& r) {
    return r.all("cast", r.inputs, {{"dtype", DType::i32}});
  };
  runs["to_bool"] = [](const Runner& r) {
    return r.all("cast", r.inputs, {{"dtype", DType::boolean}});
  };
  runs["square_then_sum"] = [](const Runner& r) {
    return r.all("sum", {r.one("square", r.inputs)}, {});
  };
  return runs;
}

std::map<std::string, Run> other_names(std::map<std::string, Run> runs) {
  for (const auto& [theirs, ours] : std::map<std::string, std::string>{
           {"max_elementwise", "maximum"}, {"min_elementwise", "minimum"}, {"square", "square"}})
    runs[theirs] = as(ours);
  for (const char* op : {"add", "sub", "mul", "copy"}) {
    std::string name = op;
    runs[name + "_inplace"] = as(name);
  }
  for (const char* op : {"relu", "neg"}) runs[std::string(op) + "_inplace"] = as(op);
  return runs;
}

void compare(const Json& row, const std::vector<Value>& values) {
  const Json& truth = row["truth"];
  ASSERT_GE(values.size(), truth.size()) << row["id"];
  for (size_t k = 0; k < truth.size(); ++k) {
    const auto got = values_of(values[k].tensor);
    EXPECT_EQ(values[k].tensor.shape, dims_of(truth[k]["shape"])) << row["id"] << " " << row["op"];
    ASSERT_EQ(got.size(), truth[k]["v"].size()) << row["id"] << " " << row["op"];
    for (size_t i = 0; i < got.size(); ++i) {
      const Json& printed = truth[k]["v"][i];
      if (!printed.is_number() && !printed.is_boolean()) continue;  // nan, inf as text
      const double expected = printed.is_boolean() ? printed.get<bool>() : printed.get<double>();
      if (got[i] == expected) continue;
      // Both were computed by an honest order of their own, and the record has seven digits.
      const double error = 2 * error_of(values[k].bound, static_cast<int64_t>(i));
      EXPECT_LE(std::fabs(got[i] - expected), error + 5e-7 * std::fabs(expected) + 1e-12)
          << row["id"] << " " << row["op"] << " output " << k << " element " << i;
    }
  }
}

TEST(OpValues, RecordedForwardRows) {
  const OpRegistry ops = builtin_ops();
  const auto runs = other_names(with_numbers(model_ops()));
  int64_t ran = 0;
  std::map<std::string, int64_t> skipped;
  for (const Json& row : read_cases("torch/op_values.jsonl")) {
    const std::string op = row["op"].get<std::string>();
    try {
      if (op.find("(gradient)") != std::string::npos) throw Skip{"a gradient: needs autodiff"};
      const Runner runner(ops, row);
      const auto special = runs.find(op);
      compare(row, special != runs.end() ? special->second(runner) : same(runner, op));
      ++ran;
    } catch (const Skip& skip) {
      ++skipped[skip.why];
    } catch (const Json::exception&) {
      ++skipped["a number that the row does not say"];
    } catch (const Error& error) {
      ADD_FAILURE() << row["id"] << " " << op << ": " << error.message();
    }
  }
  std::printf("op_values: %lld rows ran\n", static_cast<long long>(ran));
  for (const auto& [why, count] : skipped)
    std::printf("  %lld skipped: %s\n", static_cast<long long>(count), why.c_str());
  EXPECT_GE(ran, 200);
}

}  // namespace
}  // namespace shardproof::conformance
