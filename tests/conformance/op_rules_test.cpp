// Compares sharding rules with those of PyTorch that its own checker found valid. Every row that
// the scenario language can express is partitioned with the claimed input placements. The result
// must be right. Rows that need no call and have the claimed placement are counted by op;
// exceptions are listed here.

#include "shardproof/tests/conformance/cases.h"
#include "shardproof/tests/engine/run_global.h"

namespace shardproof::conformance::op_rules_test {
namespace {

struct Skip {
  std::string why;
};

// "{0}" is an argument, "{dim}" a keyword of the row. Without an entry the op of the same name gets
// all arguments.
const std::map<std::string, std::string>& texts() {
  static const std::map<std::string, std::string> kTexts = {
      {"_softmax", "softmax({0}, {1})"},
      {"_safe_softmax", "softmax({0}, {1})"},
      {"_log_softmax", "log_softmax({0}, {1})"},
      {"linalg_vector_norm", "vector_norm({0}, {1=2}, {2=0})"},
      {"norm", "norm({0}, {1}, {2})"},
      {"view_copy", "view({0}, {1})"},
      {"_unsafe_view", "view({0}, {1})"},
      {"permute_copy", "permute({0}, {1})"},
      {"transpose_copy", "transpose({0}, {1}, {2})"},
      {"unsqueeze_copy", "unsqueeze({0}, {1})"},
      {"squeeze_copy", "squeeze({0}, {1})"},
      {"squeeze_", "squeeze({0}, {1})"},
      {"expand_copy", "expand({0}, {1})"},
      {"t_copy", "t({0})"},
      {"narrow_copy", "narrow({0}, {1}, {2}, {3})"},
      {"unbind_copy", "unbind({0}, {1=0})"},
      {"split_with_sizes", "split({0}, {1}, {2=0})"},
      {"split_with_sizes_copy", "split({0}, {1}, {2=0})"},
      {"unsafe_split", "split({0}, {1}, {2=0})"},
      {"constant_pad_nd", "pad({0}, {1}, {2=0})"},
      {"gather", "take_along_dim({0}, {2}, {1})"},
      {"scatter", "scatter_along_dim({0}, {1}, {2}, {3})"},
      {"index_select", "index_select({0}, {1}, indices={2})"},
      {"clone", "flip({0}, [])"},
      {"floor_divide", "{0} // {1}"},
      {"fmod", "fmod({0}, {1})"},
      {"lerp", "lerp({0}, {1}, {2})"},
      {"clamp_min_", "clamp_min({0}, {1})"},
      {"clamp_", "clamp({0}, {1=-1}, {2=1})"},
      {"ones_like", "ones(like={0})"},
      {"zeros_like", "zeros(like={0})"},
      {"full_like", "full(like={0}, value={1})"},
      {"masked_fill", "masked_fill({0}, {1}, {2})"},
      {"_adaptive_avg_pool2d", "adaptive_avg_pool2d({0}, {1})"},
      {"sort", "sort({0}, {1=-1}, {2=false})"},
      {"round", "round({0})"},
      {"hardshrink", "hardshrink({0}, {1=0.5})"},
      {"mse_loss", "mse_loss({0}, {1}, reduction={#2})"},
      {"huber_loss", "huber_loss({0}, {1}, delta={3=1}, reduction={#2})"},
      {"soft_margin_loss", "soft_margin_loss({0}, {1}, reduction={#2})"},
      {"binary_cross_entropy", "binary_cross_entropy({0}, {1}, reduction={#3})"},
      {"addcmul", "addcmul({0}, {1}, {2})"},
      {"addcdiv", "addcdiv({0}, {1}, {2})"},
      {"rsub", "rsub({0}, {1})"},
      {"bucketize", "bucketize({0}, {1})"},
      {"elu", "elu({0})"},
      {"median", "median({0}, {1})"},
      {"std_mean", "std_mean({0}, {1}, {correction=1}, {keepdim=false})"},
      {"var_mean", "var_mean({0}, {1}, {correction=1}, {keepdim=false})"},
  };
  return kTexts;
}

// Ops that give several values here and one in PyTorch, or the reverse.
class RuleRow {
 public:
  explicit RuleRow(const Json& row) : row_(row) {}

  std::string line() const {
    const std::string aten = row_["op"].get<std::string>();
    std::string op = aten.substr(5, aten.find('.', 5) - 5);
    std::string targets;
    for (size_t k = 0; k < row_["outputs"].size(); ++k)
      targets += (k > 0 ? ", y" : "y") + std::to_string(k);
    if (op == "sort" && row_["kwargs"].contains("dim"))
      return targets + " = " + filled("sort({0}, {dim}, {descending=false})");
    if (op == "slice") return targets + " = " + slice();
    if (texts().contains(op)) return targets + " = " + filled(texts().at(op));
    if (op.ends_with("_") && texts().contains(op.substr(0, op.size() - 1)))
      return targets + " = " + filled(texts().at(op.substr(0, op.size() - 1)));
    const OpRegistry& ops = testing::builtin_registries().ops;
    if (!ops.find(op) && op.ends_with("_")) op.pop_back();
    if (!ops.find(op)) throw Skip{"no such op with us"};
    std::string call = op + "(";
    for (size_t i = 0; i < row_["args"].size(); ++i)
      call += (i > 0 ? ", " : "") + value(row_["args"][i]);
    for (const auto& [key, given] : row_["kwargs"].items()) {
      if (key == "dtype" || key == "layout" || key == "device")
        throw Skip{"a result of given dtype"};
      call += ", " + key + "=" + value(given);
    }
    return targets + " = " + call + ")";
  }

 private:
  // slice(x, dim, start, end, step).
  std::string slice() const {
    const Json& args = row_["args"];
    const int64_t dims = static_cast<int64_t>(row_["inputs"][0]["shape"].size());
    const int64_t dim = (args.at(1).get<int64_t>() + dims) % dims;
    std::string text = "x0[";
    for (int64_t d = 0; d < dim; ++d) text += ":, ";
    const auto bound = [&](size_t at) {
      return at < args.size() && args[at].is_number() ? args[at].dump() : std::string();
    };
    if (args.size() > 4 && args[4] != 1) throw Skip{"a slice with a step"};
    return text + bound(2) + ":" + bound(3) + "]";
  }
  static std::string value(const Json& given) {
    if (given.is_null()) throw Skip{"an argument that is left out in the middle"};
    if (given.is_array()) {
      std::string list;
      for (const Json& item : given) list += (list.empty() ? "" : ", ") + value(item);
      return "[" + list + "]";
    }
    if (!given.is_string()) return given.dump();
    const std::string text = given.get<std::string>();
    if (text == "inf" || text == "-inf" || text == "nan") return text;
    if (text.size() > 1 && text[0] == 'T' && std::isdigit(static_cast<unsigned char>(text[1])))
      return "x" + text.substr(1);
    return "'" + text + "'";
  }
  std::string argument(const std::string& name, const std::string& fallback) const {
    static const char* const kReductions[] = {"'none'", "'mean'", "'sum'"};
    const bool reduction = name[0] == '#';
    const std::string key = reduction ? name.substr(1) : name;
    if (std::isdigit(static_cast<unsigned char>(key[0]))) {
      const size_t at = std::stoul(key);
      if (at < row_["args"].size())
        return reduction ? kReductions[row_["args"][at].get<size_t>()] : value(row_["args"][at]);
      if (reduction) return kReductions[1];
    } else if (row_["kwargs"].contains(key)) {
      return value(row_["kwargs"][key]);
    }
    if (fallback.empty()) throw Skip{"an argument that is left out in the middle"};
    return fallback;
  }
  std::string filled(const std::string& text) const {
    std::string result;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '{') {
        result.push_back(text[at++]);
        continue;
      }
      const size_t end = text.find('}', at), equals = text.find('=', at);
      const bool fallback = equals < end;
      result += argument(text.substr(at + 1, (fallback ? equals : end) - at - 1),
                         fallback ? text.substr(equals + 1, end - equals - 1) : "");
      at = end + 1;
    }
    return result;
  }

  const Json& row_;
};

std::optional<DType> dtype_of(const std::string& text) {
  static const std::map<std::string, DType> kNames = {
      {"float32", DType::f32},   {"float64", DType::f64},   {"float16", DType::f16},
      {"bfloat16", DType::bf16}, {"int64", DType::i64},     {"int32", DType::i32},
      {"int16", DType::i16},     {"int8", DType::i8},       {"uint8", DType::u8},
      {"bool", DType::boolean},  {"complex64", DType::c64}, {"complex128", DType::c128}};
  const auto found = kNames.find(text);
  return found == kNames.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> list;
  std::string word;
  for (const char c : text + " ")
    if (c != ' ')
      word.push_back(c);
    else if (!word.empty())
      list.push_back(std::exchange(word, ""));
  return list;
}

Tensor drawn(const Json& input, int number) {
  const std::optional<DType> dtype = dtype_of(input["dtype"].get<std::string>());
  if (!dtype) throw Skip{"a dtype that is none of ours"};
  const Dims shape = dims_of(input["shape"]);
  std::vector<double> values;
  for (int64_t i = 0; i < element_count(shape); ++i)
    // Fractions in (0.1, 0.9): the domain of every function here. Integers: the only index.
    values.push_back(is_floating(*dtype) ? static_cast<double>((37 * i + 11 * number) % 23 + 3) / 30
                                         : 0);
  return tensor_of(*dtype, shape, values);
}

struct Tally {
  int64_t rows = 0, claims = 0, as_claimed = 0, elsewhere = 0, with_calls = 0;
  std::map<std::string, int64_t> skipped, differing;
};

void run_claim(const std::string& op, const std::string& line, const std::vector<Tensor>& inputs,
               const std::string& claim, int64_t world, Tally& tally) {
  const size_t arrow = claim.find("->");
  const std::vector<std::string> from = words(claim.substr(0, arrow));
  const std::vector<std::string> to = words(claim.substr(arrow + 2));
  if (from.size() != inputs.size()) return;
  Job job = testing::job_of(fmt::format("a={}", world), {line});
  const Mesh& mesh = job.meshes[0].second;
  for (size_t k = 0; k < inputs.size(); ++k)
    job.inputs.push_back({fmt::format("x{}", k),
                          Spec(mesh, {placement_of(from[k])}, inputs[k].shape, inputs[k].dtype),
                          mesh.ranks(), inputs[k], Category::activations});
  const testing::GlobalRun run = testing::run_lines(job);
  ++tally.claims;
  EXPECT_EQ(run.error, "") << line << " with " << claim;
  bool same = run.output_specs.size() == to.size();
  for (size_t k = 0; same && k < to.size(); ++k)
    same = run.output_specs[k].placement(0) == placement_of(to[k]);
  if (run.all_calls() > 0) {
    ++tally.with_calls;
    ++tally.differing[op];
  } else {
    ++(same ? tally.as_claimed : tally.elsewhere);
  }
}

// Ops whose claims need calls here, and the reason.
const std::map<std::string, std::string>& deliberate() {
  static const char* const kNan = "a part may be NaN where the value is not, and these ops skip it";
  static const char* const kQuotient =
      "a divisor that is a tensor may hold a 0, where parts of a sum add up to NaN";
  static const std::map<std::string, std::string> kReasons = {
      {"div", kQuotient},
      {"avg_pool2d", "divides by the counts of its windows, a tensor"},
      {"fmax", kNan},
      {"fmin", kNan},
      {"nan_to_num", kNan},
      {"nansum", kNan},
      {"index_fill", "written as a scatter of a value, through which no partials pass"},
      {"bucketize", "written as a comparison and a sum, and a comparison passes no maximum"},
      {"hardshrink", "written as a choice by a comparison, which passes no maximum"},
      {"logaddexp", "written as a difference and more, which passes no maximum"},
      {"logaddexp2", "written as a difference and more, which passes no maximum"},
      {"rad2deg",
       "written as a product with a number, which may be negative and passes no maximum"},
      {"deg2rad",
       "written as a product with a number, which may be negative and passes no maximum"},
      {"div", "a divisor that is a tensor may hold a 0, and parts of a sum are infinite there"},
      {"avg_pool2d", "written as a quotient by a tensor of counts"},
      {"constant_pad_nd", "an average of fillings other than 0 is rounded"},
  };
  return kReasons;
}

TEST(OpRules, ClaimsOfPyTorchThatHold) {
  Tally tally;
  for (const Json& row : read_cases("torch/op_rules.jsonl")) {
    const std::string aten = row["op"].get<std::string>();
    if (row["claimed_and_valid"].empty()) {
      ++tally.skipped["no claim that PyTorch's checker found valid"];
      continue;
    }
    try {
      const std::string line = RuleRow(row).line();
      std::vector<Tensor> inputs;
      for (const Json& input : row["inputs"])
        inputs.push_back(drawn(input, static_cast<int>(inputs.size())));
      const int64_t before = tally.claims;
      for (const Json& claim : row["claimed_and_valid"])
        run_claim(aten.substr(5, aten.find('.', 5) - 5), line, inputs, claim.get<std::string>(),
                  row["world"].get<int64_t>(), tally);
      tally.rows += tally.claims > before;
    } catch (const Skip& skip) {
      ++tally.skipped[skip.why];
    } catch (const Error& error) {
      ++tally.skipped["refused"];
      std::printf("  %s %s: %s\n", row["id"].get<std::string>().c_str(), aten.c_str(),
                  error.message().c_str());
    }
  }
  std::printf(
      "op_rules: %lld rows with %lld claims ran; %lld give what is claimed without a call, "
      "%lld other placements without a call, %lld need calls\n",
      static_cast<long long>(tally.rows), static_cast<long long>(tally.claims),
      static_cast<long long>(tally.as_claimed), static_cast<long long>(tally.elsewhere),
      static_cast<long long>(tally.with_calls));
  for (const auto& [why, count] : tally.skipped)
    std::printf("  %lld skipped: %s\n", static_cast<long long>(count), why.c_str());
  for (const auto& [op, count] : tally.differing) {
    const auto reason = deliberate().find(op);
    std::printf("  %lld of %s need calls: %s\n", static_cast<long long>(count), op.c_str(),
                reason == deliberate().end() ? "?" : reason->second.c_str());
    EXPECT_NE(reason, deliberate().end()) << op << " needs calls where PyTorch needs none";
  }
  EXPECT_GE(tally.rows, 150);
}

}  // namespace
}  // namespace shardproof::conformance::op_rules_test
