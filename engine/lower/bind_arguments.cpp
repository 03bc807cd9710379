// Implements bind_arguments.h.
//
// Example: reshape(x, 2, 3) with the parameters x (tensor) and shape (integers). The first argument
// fills x; `shape` is the last parameter and takes the rest, so it gets 2 and 3. In einsum(x, y,
// equation='ij,jk->ik') the parameter `equation` is first, but it is given by key. So x and y skip
// its position and fill the parameter of tensors.
#include "shardproof/engine/lower/bind_arguments.h"

#include <algorithm>
#include <map>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/ops/core/argument_names.h"

namespace shardproof {
namespace {

bool takes_integers(ParamKind kind) {
  return kind == ParamKind::integers || kind == ParamKind::integers_or_text;
}

bool is_tensor_param(const Param& param) {
  return param.kind == ParamKind::tensor || param.kind == ParamKind::optional_tensor ||
         param.kind == ParamKind::tensors;
}

const Param* param_named(const OpRecord& op, const std::string& key) {
  for (const std::string_view name : {std::string_view(key), argument_name(op.name, key)})
    for (const Param& param : op.params)
      if (param.name == name) return &param;
  NearestName nearest(key);
  for (const Param& param : op.params) nearest.offer(param.name);
  if (const std::string hint = nearest.hint(); !hint.empty())
    throw_bad_input("{} has no argument {}{}", op.name, key, hint);
  std::string all;
  for (const Param& param : op.params) all += (all.empty() ? "" : ", ") + param.name;
  throw_bad_input("{} has no argument {}; it takes {}", op.name, key, all);
}

// True for `bias=None`, which counts as not written.
bool is_none(const Expr& arg) {
  return arg.kind == ExprKind::name && arg.name.plain() && arg.name.texts[0] == "None";
}

size_t param_index(const OpRecord& op, const Param& param) {
  return static_cast<size_t>(&param - op.params.data());
}

// Returns the parameter, or the one that takes a tensor written in its position.
const Param& other_of(const OpRecord& op, const Param& param, const Expr& arg,
                      const std::function<bool(const Expr&)>& is_number) {
  const bool fits = arg.kind == ExprKind::text || is_none(arg) || is_number(arg);
  if (param.tensor_goes_to.empty() || fits) return param;
  return *param_named(op, param.tensor_goes_to);
}

// True if the remaining positional arguments belong to this parameter: `cat(a, b)`,
// `reshape(x, 2, 3)`.
bool takes_rest(const OpRecord& op, size_t param, const Expr& first) {
  const ParamKind kind = op.params[param].kind;
  if (kind == ParamKind::tensors) return first.kind != ExprKind::list;
  return takes_integers(kind) && first.kind != ExprKind::list && param + 1 == op.params.size();
}

// True if a tensor skips the position of a parameter that is given by key, as in einsum(x, y,
// equation='ij,jk->ik').
bool leaves_place(const Param& param, const Expr& call, const Expr& arg,
                  const std::function<bool(const Expr&)>& is_number) {
  const bool tensor = arg.kind != ExprKind::text && !is_none(arg) && !is_number(arg);
  return tensor && !is_tensor_param(param) &&
         std::find(call.keys.begin(), call.keys.end(), param.name) != call.keys.end();
}

}  // namespace

LaneClasses::LaneClasses(Lanes lanes) : classes_{std::move(lanes)} {}

void LaneClasses::refine(const PerRankNumber& number) {
  if (number.uniform()) return;
  std::vector<Lanes> finer;
  for (const Lanes& lanes : classes_) {
    std::vector<std::pair<const Number*, std::vector<int32_t>>> cut;
    std::map<std::string, size_t> seen;
    for (int64_t i = 0; i < lanes.size(); ++i) {
      const Number& value = number.on(lanes[i]);
      const auto [entry, fresh] = seen.emplace(to_string(value), cut.size());
      if (fresh) cut.push_back({&value, {}});
      cut[entry->second].second.push_back(lanes[i]);
    }
    for (auto& [value, ranks] : cut) finer.push_back(Lanes::of(std::move(ranks)));
  }
  classes_ = std::move(finer);
}

void LaneClasses::refine(const LocalShapes& shapes) {
  if (shapes.size() == 1 && classes_.size() == 1 && shapes[0].lanes.contains(classes_[0])) return;
  std::vector<Lanes> finer;
  for (const Lanes& lanes : classes_) {
    const LocalShape* const first = shapes.find(lanes[0]);
    if (first != nullptr && first->lanes.contains(lanes)) {
      finer.push_back(lanes);
      continue;
    }
    for (const LocalShape& shape : shapes) {
      Lanes cut = lanes.intersect(shape.lanes);
      if (!cut.empty()) finer.push_back(std::move(cut));
    }
  }
  std::sort(finer.begin(), finer.end(), [](const Lanes& a, const Lanes& b) { return a[0] < b[0]; });
  classes_ = std::move(finer);
}

namespace {

// Returns the call with the arguments that an op requires, such as "transpose(x, dim0, dim1)".
std::string required_text(const OpRecord& op) {
  std::string out;
  for (const Param& param : op.params)
    if (param.required) out += (out.empty() ? "" : ", ") + param.name;
  return op.name + "(" + out + ")";
}

// Binds torch's `betas=(0.9, 0.999)` to beta1 and beta2. Returns false for other arguments.
bool bind_betas(const OpRecord& op, const std::string& key, const Expr& pair,
                std::vector<BoundArgument>& bound) {
  const auto is_beta = [](const Param& param) { return param.name == "beta1"; };
  if (key != "betas" || std::none_of(op.params.begin(), op.params.end(), is_beta)) return false;
  if (pair.kind != ExprKind::list || pair.args.size() != 2)
    throw_bad_input("betas of {}: expected two numbers, found {}; write betas=(0.9, 0.999)",
                    op.name, to_string(pair));
  for (const size_t i : {0, 1}) {
    const Param& param = *param_named(op, i == 0 ? "beta1" : "beta2");
    BoundArgument& argument = bound[param_index(op, param)];
    if (!argument.given.empty())
      throw_bad_input("argument {} of {} is given twice", param.name, op.name);
    argument.given.push_back(&pair.args[i]);
  }
  return true;
}

}  // namespace

std::vector<BoundArgument> bind_arguments(const OpRecord& op, const Expr& call,
                                          const std::function<bool(const Expr&)>& is_number) {
  std::vector<BoundArgument> bound(op.params.size());
  for (size_t i = 0; i < op.params.size(); ++i) bound[i].param = &op.params[i];
  size_t next = 0;
  for (size_t i = 0; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    if (bind_betas(op, call.keys[i], arg, bound)) continue;
    while (call.keys[i].empty() && next < op.params.size() &&
           leaves_place(op.params[next], call, arg, is_number))
      ++next;
    if (call.keys[i].empty() && next < op.params.size())
      next = param_index(op, other_of(op, op.params[next], arg, is_number));
    size_t at = next;
    if (!call.keys[i].empty()) {
      at = param_index(op, other_of(op, *param_named(op, call.keys[i]), arg, is_number));
    } else if (next >= op.params.size()) {
      throw_bad_input("{} takes at most {} argument{}, found {}", op.name, op.params.size(),
                      op.params.size() == 1 ? "" : "s", call.args.size());
    } else if (!takes_rest(op, next, arg)) {
      ++next;
    }
    BoundArgument& argument = bound[at];
    if (is_none(arg) && !op.params[at].required) continue;
    const bool rest = call.keys[i].empty() && next == at;
    if (!argument.given.empty() && !rest)
      throw_bad_input("argument {} of {} is given twice", op.params[at].name, op.name);
    argument.as_list = arg.kind == ExprKind::list && is_tensor_param(op.params[at]);
    if (argument.as_list && op.params[at].kind == ParamKind::tensors)
      for (const Expr& item : arg.args) argument.given.push_back(&item);
    else
      argument.given.push_back(&arg);
  }
  for (const BoundArgument& argument : bound)
    if (argument.param->required && argument.given.empty() && !argument.as_list)
      throw_bad_input("{} needs its argument {}; write {}", op.name, argument.param->name,
                      required_text(op));
  return bound;
}

AttrValue attribute_of(const Param& param, const Number& number) {
  try {
    switch (param.kind) {
      case ParamKind::integer: return number.integer();
      case ParamKind::scalar:
        if (number.is_bool()) return number.truth();
        [[fallthrough]];
      case ParamKind::number:
        if (number.is_bool()) return int64_t{number.truth()};
        if (number.is_integer()) return number.integer();
        return number.real();
      case ParamKind::boolean: return number.truth();
      case ParamKind::text: return number.text();
      case ParamKind::number_or_text:
        if (number.is_text()) return number.text();
        if (number.is_integer()) return number.integer();
        return number.real();
      case ParamKind::integers_or_text:
        if (number.is_text()) return number.text();
        [[fallthrough]];
      case ParamKind::integers: {
        // One number is not a list of one: split(x, 4) makes pieces of 4.
        if (!number.is_list()) return number.integer();
        std::vector<int64_t> values;
        for (const Number& item : number.list()) values.push_back(item.integer());
        return values;
      }
      case ParamKind::numbers: {
        std::vector<double> values;
        for (const Number& item : number.list()) values.push_back(item.real());
        return values;
      }
      default: break;
    }
  } catch (const Error& error) {
    throw_bad_input("argument {}: {}", param.name, error.message());
  }
  throw_bad_input("argument {} does not take a number", param.name);
}

std::string torch_placement_hint(const Expr& argument) {
  if (argument.kind == ExprKind::list && !argument.args.empty())
    return torch_placement_hint(argument.args.front());
  if (argument.kind == ExprKind::text) return "; write them without quotes";
  const bool is_name = argument.kind == ExprKind::name;
  if (!is_name && argument.kind != ExprKind::call) return "";
  const std::string word = is_name ? to_string(argument) : argument.symbol;
  const std::string dim = argument.args.empty() ? "0" : to_string(argument.args.front());
  if (word == "Shard") return fmt::format("; write AXIS:S({}), such as tp:S({})", dim, dim);
  if (word == "Replicate") return "; write AXIS:R, such as tp:R, or R for all axes";
  if (word == "Partial") return "; write AXIS:P(sum), such as tp:P(sum)";
  return "";
}

const std::vector<std::string>& special_verbs() {
  static const std::vector<std::string> verbs = {
      "redistribute", "all_reduce", "all_gather",  "reduce_scatter", "all_to_all", "all_to_all_v",
      "broadcast",    "reduce",     "gather",      "scatter",        "barrier",    "send",
      "recv",         "put",        "signal",      "wait_signal",    "slot",       "wait",
      "sync",         "record",     "free",        "keep",           "copy_",      "check",
      "grad",         "enter",      "slice_local", "zero_fill",      "relabel",    "transfer",
      "exchange"};
  return verbs;
}

}  // namespace shardproof
