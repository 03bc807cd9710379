// Implements rule_table.h. Each line is one JSON object; an error of a row gets its file and line.
#include "shardproof/scenarios/rules/rule_table.h"

#include <algorithm>
#include <stdexcept>

#include "shardproof/engine/check_ops/computation.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/model/fill.h"
#include "shardproof/scenarios/rules/row_call_error.h"
#include "shardproof/scenarios/rules/torch_calls.h"

namespace shardproof {
namespace {

constexpr int64_t kMostRuleRanks = 64;
constexpr int64_t kMostRuleElements = 1 << 20;

const std::vector<std::string_view> kRowKeys = {"op",  "attrs", "call",  "inputs",  "mesh", "in",
                                                "out", "kind",  "local", "average", "about"};

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Returns our text of a placement in torch's spelling; other texts stay as they are.
std::string own_spelling(std::string text) {
  if (text.starts_with("_StridedShard(") || text.starts_with("StridedShard(")) {
    text = "S" + text.substr(text.find('('));
    for (const char* const key : {"split_factor=", "sf="}) replace_all(text, key, "split=");
    replace_all(text, "dim=", "");
  } else if (text.starts_with("Shard(")) {
    text = "S" + text.substr(5);
    replace_all(text, "dim=", "");
  } else if (text == "Replicate()" || text == "Replicate" || text == "R()") {
    text = "R";
  } else if (text == "Partial()" || text == "Partial") {
    text = "P(sum)";
  } else if (text.starts_with("Partial(")) {
    text = "P" + text.substr(7);
  }
  if (text == "P(product)") text = "P(prod)";
  for (const char* const norm : {"_NormPartial(", "NormPartial(", "_NormP("})
    if (text.starts_with(norm) && text.ends_with(")"))
      text = "P(norm(" + text.substr(std::string_view(norm).size()) + ")";
  return text;
}

Placement read_placement(const JsonReader& value) {
  constexpr const char* kExpected =
      "a placement: R, S(dim), S(dim, split=k), S(dim, sizes=[..]) or "
      "P(op) with op sum, avg, prod, min, max, band, bor, bxor, norm(p)";
  const std::string text = own_spelling(value.text(kExpected));
  try {
    const std::vector<PlacementText> entries = parse_placements(text);
    if (entries.size() == 1 && entries[0].axis.empty() && entries[0].after.empty())
      return entries[0].placement;
  } catch (const Error& error) {
    // The advice for scenarios, whose placements name their axis, does not fit a row.
    if (error.message().find(" AXIS:") != std::string::npos) value.expected(kExpected);
    value.refuse(fmt::format("{}; expected {}", error.message(), kExpected));
  }
  value.expected(kExpected);
}

// Thrown for a call of a known op that cannot be made here.
struct NoCounterpart {
  Error error;
};

bool adds(const Reduction& reduction) {
  return reduction.op == ReduceOp::sum || reduction.op == ReduceOp::avg;
}

// Tensors here have one reduction. DTensor may state several, whose order nothing states.
void require_one_reduction(const JsonReader& row, const std::vector<Placement>& by_axis) {
  const Reduction* seen = nullptr;
  for (const Placement& p : by_axis) {
    if (!p.is_partial()) continue;
    const Reduction& reduction = p.partial().reduction;
    if (seen && *seen != reduction && !(adds(*seen) && adds(reduction)))
      throw NoCounterpart{
          Error(ErrorKind::bad_input,
                fmt::format("P({}) and P({}) of one tensor have no counterpart here, only equal "
                            "reductions, or sum and avg",
                            to_string(*seen), to_string(reduction)),
                {"", row.path(), 0, 0})};
    seen = &reduction;
  }
}

// A result may be null, if output_mask leaves it out: it has no placements.
std::vector<std::vector<Placement>> read_placements(const JsonReader& list, size_t axes,
                                                    bool may_be_null) {
  std::vector<std::vector<Placement>> tensors;
  for (const JsonReader& tensor : list.items("a list of tensors")) {
    tensors.emplace_back();
    if (may_be_null && tensor.kind() == JsonKind::null) continue;
    for (const JsonReader& axis : tensor.items("a list with one placement for each axis"))
      tensors.back().push_back(read_placement(axis));
    if (tensors.back().size() != axes)
      tensor.refuse(fmt::format("expected {} placement{}, one for each axis of the mesh, found {}",
                                axes, axes == 1 ? "" : "s", tensors.back().size()));
    require_one_reduction(tensor, tensors.back());
  }
  return tensors;
}

// Returns a fill of the scenario language, or one of those of op samples, as op_instance.h reads
// it.
std::string read_fill(const std::string& text, DType dtype) {
  for (const char* own : {"bools", "ones", "zeros", kDefiniteFill})
    if (text == own) return text;
  const Fill fill = parse_fill(text, dtype, {});
  return fill.kind == FillKind::constant ? fmt::format("uniform({0}, {0})", fill.a) : text;
}

TensorMeta read_input(const JsonReader& input, std::string& fill) {
  input.check_keys({"shape", "dtype", "fill"});
  TensorMeta meta;
  for (const JsonReader& size : input.at("shape", R"("shape": [4, 6])").items("a list of sizes")) {
    if (size.integer() < 0) size.expected("a size of 0 or more");
    meta.shape.push_back(size.integer());
  }
  if (element_count(meta.shape) > kMostRuleElements)
    input.refuse(fmt::format("expected at most {} elements", kMostRuleElements));
  if (input.has("dtype")) {
    const JsonReader dtype = input.at("dtype");
    meta.dtype = dtype.inside([&] { return rule_dtype(dtype.text("a dtype such as \"f32\"")); });
  }
  if (input.has("fill")) {
    const JsonReader text = input.at("fill");
    fill = text.inside(
        [&] { return read_fill(text.text("a fill such as \"uniform(0, 1)\""), meta.dtype); });
  }
  return meta;
}

Mesh read_mesh(const JsonReader& list) {
  std::vector<std::pair<std::string, int64_t>> axes;
  int64_t ranks = 1;
  for (const JsonReader& size : list.items("a list of axis sizes, [2, 2]")) {
    if (size.integer() < 1) size.expected("an axis size of 1 or more");
    ranks *= std::min(size.integer(), kMostRuleRanks + 1);
    if (ranks > kMostRuleRanks) list.expected(fmt::format("at most {} ranks", kMostRuleRanks));
    axes.emplace_back(std::string(1, static_cast<char>('a' + axes.size())), size.integer());
  }
  if (axes.empty() || axes.size() > 8) list.expected("1 to 8 axes");
  return Mesh::make(std::move(axes));
}

// Torch's overloads with `out=`: aten.add.out, aten.sum.IntList_out, aten.sort.values. aten.inverse
// is an op without an overload.
bool writes_to_out(const std::string& op) {
  const size_t base = op.find('.');
  if (!op.starts_with("aten") || op.find('.', base + 1) == std::string::npos) return false;
  for (const char* overload : {".out", "_out", ".out_mode", ".values", "_values", ".values_stable",
                               ".dim_max", ".dim_min", ".grad_input", ".inverse", ".L", ".result"})
    if (op.ends_with(overload)) return true;
  return false;
}

RuleKind read_kind(const JsonReader& row, const std::string& op, bool is_inplace) {
  const RuleKind by_name = is_inplace          ? RuleKind::inplace
                           : writes_to_out(op) ? RuleKind::out
                                               : RuleKind::op;
  if (!row.has("kind")) return by_name;
  const std::string& text = row.at("kind").text();
  if (text == "op") return by_name;
  if (text == "inplace") return RuleKind::inplace;
  if (text == "out") return RuleKind::out;
  if (text == "backward") return RuleKind::backward;
  row.at("kind").refuse(fmt::format("expected op, inplace, out or backward, found \"{}\"", text));
}

// Takes the placements of the buffers from the end of `in`.
void take_buffers(RuleCase& rule, const JsonReader& row) {
  const size_t inputs = rule.inputs.size(), results = rule.out.size();
  if (rule.in.size() != inputs + results)
    row.at("in").refuse(fmt::format(
        "expected placements of {} inputs and {} tensors that results are written to, found {}",
        inputs, results, rule.in.size()));
  rule.buffers.assign(rule.in.begin() + static_cast<std::ptrdiff_t>(inputs), rule.in.end());
  rule.in.resize(inputs);
}

// The most results of a call that count_results() tries.
constexpr size_t kMostResults = 64;

// The call of a row that states none in the language.
class NamedCall {
 public:
  NamedCall(const RuleCase& rule, const JsonReader& row, const OpRegistry& ops)
      : rule_(rule), ops_(ops) {
    if (!row.has("attrs")) return;
    attrs_ = row.at("attrs");
    attrs_->members();
  }
  // Returns nullopt for an op that is not known; otherwise throws as torch_call().
  std::optional<TorchCall> with_results(std::optional<size_t> count) const try {
    return torch_call(rule_.op, attrs_ ? &*attrs_ : nullptr, rule_.inputs, count, ops_);
  } catch (const std::out_of_range&) {
    throw_bad_input("{}: a list among its arguments has fewer entries than the input has dims",
                    rule_.op);
  }
  // Returns the lines of the call for any sizes. Requires a call that is known. Refers to the
  // registry alone.
  CallBySizes by_sizes(const TorchCall& call) const {
    CallBySizes made;
    made.attrs = attrs_ ? to_string(attrs_->tree()) : "{}";
    made.states_result = call.states_result;
    made.count = call.lines.size();
    made.lines = [op = rule_.op, tree = attrs_ ? attrs_->tree() : read_json("{}"),
                  metas = rule_.inputs, results = call.results.size(),
                  &ops = ops_](const std::vector<Dims>& sizes, const Dims* result) {
      std::vector<TensorMeta> local = metas;
      for (size_t i = 0; i < local.size(); ++i) local[i].shape = sizes[i];
      const JsonReader attrs(tree, "/attrs");
      return torch_call(op, &attrs, local, results, ops, result)->lines;
    };
    return made;
  }
  // Returns the number of results by trying. Nullopt if the call is illegal with any number.
  std::optional<size_t> count_results() const {
    for (size_t count = 1; count <= kMostResults; ++count) {
      try {
        const std::optional<TorchCall> call = with_results(count);
        Computation::of_lines(ops_, call->lines, call->results).compile(rule_.inputs);
        return count;
      } catch (const Error&) {
        continue;  // it has another number of results
      }
    }
    return std::nullopt;
  }

 private:
  const RuleCase& rule_;
  const OpRegistry& ops_;
  std::optional<JsonReader> attrs_;
};

// Adds the input of random numbers, which is placed as the first tensor: the ranks that hold an
// element hold its number.
void add_random_numbers(RuleCase& rule, const JsonReader& row) {
  const size_t inputs = rule.inputs.size();
  if (rule.in.size() < inputs)
    row.at("in").refuse(fmt::format("expected placements of {} tensor{}, found {}", inputs,
                                    inputs == 1 ? "" : "s", rule.in.size()));
  const TensorMeta& like = rule.inputs[0];
  rule.inputs.push_back({is_floating(like.dtype) ? like.dtype : DType::f32, like.shape});
  rule.fills.emplace_back("uniform(0, 1)");
  std::vector<Placement> placements = rule.in[0];
  for (Placement& placement : placements)
    if (placement.is_partial()) placement = R();
  rule.in.insert(rule.in.begin() + static_cast<std::ptrdiff_t>(inputs), std::move(placements));
}

// Throws Error(bad_input) if a result has more elements than an input may have.
void check_result_sizes(const LocalProgram& program) {
  for (const TensorMeta& output : program.outputs()) {
    double elements = 1;
    for (const int64_t size : output.shape) elements *= static_cast<double>(size);
    if (elements > static_cast<double>(kMostRuleElements))
      throw_bad_input("a result of shape {} has more than {} elements, the most of a tensor",
                      to_string(output.shape), kMostRuleElements);
  }
}

// True if one device can run the lines of the case on these inputs.
bool is_legal_call(const RuleCase& rule, const std::vector<TensorMeta>& inputs,
                   const OpRegistry& ops) {
  try {
    Computation::of_lines(ops, rule.lines, rule.results).compile(inputs);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Calls `action`, and adds the key of the row to an error of the call of `rule`.
template <typename Action>
void at_key_of_call(const JsonReader& row, const RuleCase& rule, const OpRegistry& ops,
                    Action action) {
  try {
    action();
  } catch (const Error& error) {
    throw row_call_error(error, row, rule.inputs, [&](const std::vector<TensorMeta>& inputs) {
      return is_legal_call(rule, inputs, ops);
    });
  }
}

// Sets lines and results of the row. `placed` is the number of results that it places, nullopt for
// a backward. Returns false for an op that is not known.
bool set_call(RuleRow& read, const JsonReader& row, std::optional<size_t> placed,
              const OpRegistry& ops, bool& is_inplace, std::vector<size_t>& written) {
  RuleCase& rule = read.rule;
  if (row.has("call")) {
    for (const JsonReader& line : row.at("call").items("a list of lines"))
      rule.lines.push_back(line.text());
    for (size_t i = 0; i < placed.value_or(1); ++i) rule.results.push_back(fmt::format("y{}", i));
    return true;
  }
  const NamedCall named(rule, row, ops);
  std::optional<TorchCall> call = row.inside([&] { return named.with_results(placed); });
  if (!call) return false;
  is_inplace = call->is_inplace;
  written = call->written;
  if (call->reads_random_numbers) add_random_numbers(rule, row);
  rule.lines = call->lines;
  rule.results = call->results;
  try {
    at_key_of_call(row, rule, ops,
                   [&] { check_result_sizes(computation_of(rule, ops).compile(rule.inputs)); });
  } catch (const Error&) {
    const std::optional<size_t> count = named.count_results();
    if (!count || count == placed) throw;
    if (placed)
      row.at("out").refuse(fmt::format("expected placements of {} result{} of {}, found {}", *count,
                                       *count == 1 ? "" : "s", rule.op, *placed));
    call = named.with_results(count);  // a backward is that of the first result
    call->results.resize(1);
  }
  if (!call->placed.empty()) {
    std::vector<std::vector<Placement>> placed_results;
    for (const size_t i : call->placed) placed_results.push_back(rule.out.at(i));
    rule.out = std::move(placed_results);
  }
  rule.lines = call->lines;
  rule.results = call->results;
  if (call->depends_on_sizes)
    rule.by_sizes = std::make_shared<const CallBySizes>(named.by_sizes(*call));
  read.unjudged = call->unjudged;
  return true;
}

// Turns an op in place on lists into one whose results are written to these inputs.
void write_to_inputs(RuleCase& rule, const std::vector<size_t>& written, const OpRegistry& ops) {
  rule.kind = RuleKind::out;
  const LocalProgram program = computation_of(rule, ops).compile(rule.inputs);
  for (size_t i = 0; i < written.size(); ++i) {
    rule.buffers.push_back(rule.in.at(written[i]));
    const DType dtype = rule.inputs[written[i]].dtype;
    if (program.outputs()[i].dtype != dtype)
      rule.lines.push_back(
          fmt::format("{} = cast({}, {})", rule.results[i], rule.results[i], name(dtype)));
  }
}

// Writes the result of an op in place in the dtype of its buffer, as torch does.
void write_in_dtype_of_buffer(RuleCase& rule, const OpRegistry& ops) {
  const TensorMeta result = computation_of(rule, ops).compile(rule.inputs).outputs().at(0);
  const TensorMeta& buffer = rule.inputs.at(0);
  if (!(result.shape == buffer.shape))
    throw_bad_input("an in-place op writes a result of shape {} to a buffer of shape {}",
                    to_string(result.shape), to_string(buffer.shape));
  if (result.dtype == buffer.dtype) return;
  rule.lines.push_back(
      fmt::format("{} = cast({}, {})", rule.results[0], rule.results[0], name(buffer.dtype)));
}

// An argument of embedding that changes its gradient alone.
void refuse_scaled_gradient(const JsonReader& row) {
  constexpr const char* kName = "scale_grad_by_freq";
  if (!row.has("attrs") || !row.at("attrs").has(kName)) return;
  const JsonReader flag = row.at("attrs").at(kName);
  if (flag.flag()) flag.refuse("true has no counterpart here in a backward, only false");
}

// Returns nullopt for an op that is not known.
std::optional<RuleRow> read_row(const JsonReader& row, const OpRegistry& ops) {
  row.check_keys(kRowKeys);
  RuleRow read;
  RuleCase& rule = read.rule;
  rule.op = row.at("op", R"("op": "aten.mm")").text();
  for (const JsonReader& input :
       row.at("inputs", R"("inputs": [{"shape": [4, 6]}])").items("a list of tensors")) {
    rule.fills.emplace_back();
    rule.inputs.push_back(read_input(input, rule.fills.back()));
  }
  if (rule.inputs.empty()) row.at("inputs").refuse("expected at least one tensor");
  rule.mesh = read_mesh(row.at("mesh", R"("mesh": [2])"));
  const auto axes = static_cast<size_t>(rule.mesh.axis_count());
  rule.in = read_placements(row.at("in", R"row("in": [["S(0)"]])row"), axes, false);
  rule.out = read_placements(row.at("out", R"row("out": [["S(0)"]])row"), axes, true);
  if (rule.out.empty()) row.at("out").refuse("expected placements of one result at least");
  bool is_inplace = false;
  std::vector<size_t> written;
  const bool is_backward = row.has("kind") && row.at("kind").text() == "backward";
  try {
    const bool is_known =
        set_call(read, row, is_backward ? std::nullopt : std::optional(rule.out.size()), ops,
                 is_inplace, written);
    if (!is_known) return std::nullopt;
    if (is_backward) refuse_scaled_gradient(row);
  } catch (const Error& error) {
    if (!writes_to_out(rule.op) || rule.inputs.size() != rule.in.size()) throw NoCounterpart{error};
    throw NoCounterpart{Error(error.kind(),
                              error.message() + "; a tensor that a result is written to has "
                                                "placements at the end of \"in\" and no input",
                              error.where())};
  }
  for (const std::vector<Placement>& by_axis : rule.out)
    if (by_axis.empty()) row.at("out").refuse("expected placements of a result, found null");
  rule.kind = read_kind(row, rule.op, is_inplace);
  if (rule.kind == RuleKind::out) take_buffers(rule, row);
  if (rule.kind == RuleKind::inplace && !written.empty()) write_to_inputs(rule, written, ops);
  if (row.has("local")) {
    const std::string& local = row.at("local").text();
    if (local != "op" && local != "rule")
      row.at("local").refuse(fmt::format("expected op or rule, found \"{}\"", local));
    rule.by_own_rule = local == "rule";
  }
  if (row.has("average")) {
    const JsonReader average = row.at("average");
    if (!is_backward) average.refuse("expected a row of kind backward");
    rule.averaged_over = average.integer();
    if (rule.averaged_over < 1) average.refuse("expected a number of ranks");
  }
  if (!is_backward) {
    rule.out.resize(rule.results.size());  // the others are not judged
    if (rule.kind == RuleKind::out) rule.buffers.resize(rule.results.size());
  }
  row.inside([&] {
    at_key_of_call(row, RuleCase(rule), ops, [&] {
      if (rule.kind == RuleKind::inplace) write_in_dtype_of_buffer(rule, ops);
      if (rule.kind == RuleKind::backward) make_backward(rule, ops);
      check_legal(rule, ops);
    });
  });
  return read;
}

std::string meta_text(const TensorMeta& meta, const std::string& fill) {
  const std::string with_fill =
      fill.empty() ? "" : fmt::format(", \"fill\": {}", quoted_json(fill));
  return fmt::format("{{\"shape\": {}, \"dtype\": \"{}\"{}}}", to_string(meta.shape),
                     name(meta.dtype), with_fill);
}

template <class List, class Text>
std::string list_text(const List& list, Text text) {
  std::string out;
  for (const auto& item : list) out += (out.empty() ? "" : ", ") + text(item);
  return "[" + out + "]";
}

std::string placements_rows(const std::vector<std::vector<Placement>>& tensors) {
  return list_text(tensors, [](const std::vector<Placement>& by_axis) {
    return list_text(by_axis, [](const Placement& p) { return quoted_json(to_string(p)); });
  });
}

}  // namespace

namespace {

std::string shaped_by_values_text(const std::string& op) {
  return fmt::format(
      "the shape of the result of {} depends on the values of its inputs, so its placements cannot "
      "be judged",
      op);
}

// Returns the error of an op that is not known.
std::string unknown_op_text(const std::string& op, const OpRegistry& ops) {
  if (is_shaped_by_values(op))
    return fmt::format("{}; --skip-unknown judges the other rows", shaped_by_values_text(op));
  return fmt::format(
      "unknown op {}{}; `shardproof list ops` lists those here, a row may give "
      "\"call\": [\"y0 = ..\"] in place of attrs, and --skip-unknown judges the other rows",
      op, nearest_torch_op(op, ops));
}

void add_refused(const std::string& op, const Error& error, int line, RuleTable& table) {
  const auto same = std::find_if(
      table.refused.begin(), table.refused.end(),
      [&](const RefusedCalls& one) { return one.op == op && one.reason == error.message(); });
  if (same != table.refused.end())
    same->lines.push_back(line);
  else
    table.refused.push_back({op, error.message(), {line}});
}

// Throws the first error with its line. Later lines with errors are named in its message.
[[noreturn]] void throw_first(const std::string& file,
                              const std::vector<std::pair<int, Error>>& errors) {
  constexpr size_t kShown = 8;
  const auto& [line, first] = errors.front();
  std::string text = first.where().path.empty() ? "" : first.where().path + ": ";
  text += first.message();
  std::vector<int> others;
  for (size_t i = 1; i < errors.size(); ++i) others.push_back(errors[i].first);
  if (!others.empty()) {
    const size_t shown = std::min(kShown, others.size());
    text += fmt::format("; {} more row{} with errors, in line{} {}{}", others.size(),
                        others.size() == 1 ? "" : "s", others.size() == 1 ? "" : "s",
                        fmt::join(others.begin(), others.begin() + static_cast<long>(shown), ", "),
                        shown < others.size() ? ", .." : "");
  }
  throw Error(ErrorKind::bad_input, text, {fmt::format("{}:{}", file, line), "", 0, 0});
}

std::string start_of_row(const std::string& text) {
  constexpr size_t kShown = 40;
  return text.size() <= kShown ? text : text.substr(0, kShown) + "..";
}

// Reads one row into the table. Throws Error.
void read_into(RuleTable& table, const std::string& text, int line, const OpRegistry& ops,
               UnknownOps unknown) {
  const JsonTree tree = read_json(text);
  const JsonReader row(tree, "");
  try {
    std::optional<RuleRow> read = read_row(row, ops);
    if (read) {
      read->line = line;
      table.rows.push_back(std::move(*read));
      return;
    }
    const std::string& op = row.at("op").text();
    if (unknown == UnknownOps::refuse) throw_bad_input("{}", unknown_op_text(op, ops));
    if (is_shaped_by_values(op))
      add_refused(op, Error(ErrorKind::bad_input, shaped_by_values_text(op)), line, table);
    else
      ++table.unknown[op];
  } catch (const NoCounterpart& refused) {
    if (unknown == UnknownOps::refuse) throw refused.error;
    add_refused(row.at("op").text(), refused.error, line, table);
  }
}

}  // namespace

RuleTable read_rule_table(const std::string& file, const std::string& text, const OpRegistry& ops,
                          UnknownOps unknown) {
  RuleTable table;
  std::vector<std::pair<int, Error>> errors;
  int line = 0;
  bool is_empty = true;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string row_text = text.substr(at, end - at);
    at = end + 1;
    ++line;
    const size_t first = row_text.find_first_not_of(" \t\r");
    if (first == std::string::npos || row_text.compare(first, 2, "//") == 0) continue;
    is_empty = false;
    try {
      if (row_text[first] != '{')
        throw_bad_input(R"(expected an object, such as {{"op": "aten.mm", ..}}, found {})",
                        start_of_row(row_text.substr(first)));
      read_into(table, row_text, line, ops, unknown);
    } catch (const Error& error) {
      errors.emplace_back(line, error);
    }
  }
  if (!errors.empty()) throw_first(file, errors);
  if (is_empty) throw_bad_input("{}: expected rows, one JSON object a line; found none", file);
  return table;
}

RuleRow read_rule_row(const std::string& text, const OpRegistry& ops) {
  RuleTable table = read_rule_table("--row", text, ops, UnknownOps::refuse);
  if (table.rows.size() != 1) throw_bad_input("--row: expected one row, a JSON object");
  return table.rows[0];
}

std::string rule_row_text(const RuleCase& rule) {
  std::string inputs;
  const bool is_backward = rule.kind == RuleKind::backward;
  const size_t count = rule.inputs.size() - (is_backward ? 1 : 0);
  for (size_t i = 0; i < count; ++i)
    inputs += (i == 0 ? "" : ", ") +
              meta_text(rule.inputs[i], i < rule.fills.size() ? rule.fills[i] : "");
  std::vector<std::string> lines = rule.lines;
  if (is_backward) lines.pop_back();
  const char* const kind = rule.kind == RuleKind::inplace ? ", \"kind\": \"inplace\""
                           : rule.kind == RuleKind::out   ? ", \"kind\": \"out\""
                           : is_backward                  ? ", \"kind\": \"backward\""
                                                          : "";
  std::vector<std::vector<Placement>> in = rule.in;
  in.insert(in.end(), rule.buffers.begin(), rule.buffers.end());
  const std::string average =
      rule.averaged_over == 1 ? "" : fmt::format(", \"average\": {}", rule.averaged_over);
  const std::string call = rule.by_sizes
                               ? "\"attrs\": " + rule.by_sizes->attrs
                               : "\"call\": " + list_text(lines, [](const std::string& line) {
                                   return quoted_json(line);
                                 });
  return fmt::format(
      "{{\"op\": {}, {}, \"inputs\": [{}], \"mesh\": {}, \"in\": {}, \"out\": {}{}{}{}}}",
      quoted_json(rule.op), call, inputs, to_string(rule.mesh.shape()), placements_rows(in),
      placements_rows(rule.out), kind, average, rule.by_own_rule ? ", \"local\": \"rule\"" : "");
}

}  // namespace shardproof
