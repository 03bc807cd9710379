// Implements small_changes.h: walks the expressions of the lines and collects the changes by kind.
#include "shardproof/engine/causes/small_changes.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {
namespace {

// The kinds of changes, in the order in which they are tried.
enum Kind : size_t {
  kCondition,
  kPass,
  kSumOfPasses,
  kOwnPart,
  kFirstIndex,
  kPlace,
  kEnter,
  kWord,
  kOrder,
  kUnread,
  kFactor,
  kLess,
  kFunction,
  kNeighbour,
  kOtherName,
  kOrderOfList,
  kCall,
  kKinds
};

bool is_tensor_call(const Expr& expr) {
  return expr.kind == ExprKind::call && parse_collective_kind(expr.symbol).has_value();
}

// Returns how often each function of one tensor is called: relu(x), softmax(x, dim=1).
std::map<std::string, int> functions_in(const std::vector<const Expr*>& roots) {
  std::map<std::string, int> calls;
  for (const Expr* root : roots)
    visit_parts(*root, [&](const Expr& part) {
      if (part.kind == ExprKind::call && part.args.size() == 1) ++calls[part.symbol];
    });
  return calls;
}

void add_values(const std::vector<Statement>& statements, std::vector<const Expr*>& to) {
  for (const Statement& one : statements) {
    if (one.value) to.push_back(&*one.value);
    add_values(one.body, to);
    add_values(one.otherwise, to);
  }
}

class SmallChanges {
 public:
  SmallChanges(const NumberedText& ranks, const RankCase& about, const std::set<ListedLine>& lines)
      : ranks_(ranks), about_(about), lines_(lines) {
    for (const MeshAxis& axis : about.job.meshes[0].second.axes())
      if (axis.size > 1) axes_.push_back(axis.name);
    for (const SpmdValue& value : about.ranks.program.values) {
      const std::string name = value.bound.empty() ? value.name : value.bound.str();
      if (value.weak || value.shapes.empty()) continue;
      tensors_[name] = {value.shapes[0].shape, value.dtype};
      kinds_.emplace(text_kind_of(name), tensors_[name]);
    }
    find_sizes();
    find_reads();
    find_functions();
  }

  // Changes of suspect lines come before the others of their kind, because of many some are left
  // out; so do other names on `line`.
  std::vector<TextChange> run(const std::set<ListedLine>& suspects, int line) {
    for (const TextStatement& one : ranks_.statements()) {
      if (!lines_.contains({one.listing, one.statement->place.line})) continue;
      statement(one);
      for (const Expr* whole : one.whole)
        visit_parts(*whole, [&](const Expr& expr) { expression(one, expr); });
    }
    const auto line_of = [&](const TextChange& one) {
      return ranks_.lines()[static_cast<size_t>(one.number)];
    };
    std::vector<TextChange> all;
    for (size_t kind = 0; kind < kKinds; ++kind) {
      std::stable_partition(found_[kind].begin(), found_[kind].end(),
                            [&](const TextChange& one) { return suspects.contains(line_of(one)); });
      if (kind == kOtherName)
        std::stable_partition(found_[kind].begin(), found_[kind].end(),
                              [&](const TextChange& one) { return line_of(one).line == line; });
      const size_t most = kind == kOtherName || kind == kCall ? 64 : 32;
      if (found_[kind].size() > most) found_[kind].resize(most);
      for (TextChange& change : found_[kind]) all.push_back(std::move(change));
    }
    return all;
  }

 private:
  struct NamedTensor {
    Dims shape;
    DType dtype = DType::f32;
    bool operator==(const NamedTensor&) const = default;
  };

  void find_sizes() {
    const Mesh& mesh = about_.job.meshes[0].second;
    for (const JobInput& input : about_.job.inputs) {
      if (!(input.spec.mesh() == mesh)) continue;
      for (int axis = 0; axis < mesh.axis_count(); ++axis) {
        const Placement& placement = input.spec.placement(axis);
        if (!placement.is_shard() || mesh.axis_size(axis) == 1) continue;
        const int64_t size = input.spec.shape()[placement.shard().dim] / mesh.axis_size(axis);
        parts_[mesh.axes()[static_cast<size_t>(axis)].name].insert(size);
      }
    }
  }

  void find_reads() {
    for (const TextStatement& one : ranks_.statements())
      for (const Expr* whole : one.whole)
        visit_parts(*whole, [&](const Expr& part) {
          writes_backwards_ = writes_backwards_ ||
                              (part.kind == ExprKind::call && part.symbol == "enter") ||
                              std::count(part.keys.begin(), part.keys.end(), "backward") > 0;
          if (part.kind != ExprKind::name) return;
          const std::string name = to_string(part);
          const bool own = one.statement->kind == StatementKind::assign &&
                           to_string(one.statement->targets[0]) == name;
          if (!own) read_.emplace(one.listing, name);
        });
  }

  void find_functions() {
    std::vector<const Expr*> truth, ranks;
    if (about_.job.truth) add_values(about_.job.truth->statements, truth);
    for (const TextStatement& one : ranks_.statements())
      ranks.insert(ranks.end(), one.whole.begin(), one.whole.end());
    for (const std::vector<const Expr*>* side : {&truth, &ranks})
      for (const Expr* root : *side)
        visit_parts(*root, [&](const Expr& part) { find_markers(part); });
    std::map<std::string, int> known = functions_in(ranks);
    for (const auto& [name, count] : functions_in(truth))
      if (known[name] < count && name != "size" && name != "stop") functions_.push_back(name);
  }

  void add(Kind kind, const Expr& from, Expr to) {
    found_[kind].push_back({ranks_.number_of(from), from, std::move(to)});
  }
  void add(Kind kind, const Expr& from, const std::string& to) {
    Expr made = parse_expression(to);
    made.place = from.place;
    add(kind, from, std::move(made));
  }

  void statement(const TextStatement& one) {
    const Statement& line = *one.statement;
    const Expr& value = *one.whole[0];
    const std::string text = to_string(value);
    if (line.kind == StatementKind::if_else)
      for (const char* word : {"true", "false"}) add(kCondition, value, word);
    if (line.kind == StatementKind::for_range)
      for (const Expr* bound : one.whole)
        for (const char* next : {"+ 1", "- 1"})
          if (bound->kind != ExprKind::number)
            add(kNeighbour, *bound, fmt::format("{} {}", to_string(*bound), next));
    if (line.kind != StatementKind::assign || line.targets.size() != 1) return;
    const std::string name = to_string(line.targets[0]);
    bool reads_itself = false;
    visit_parts(value, [&](const Expr& part) {
      reads_itself = reads_itself || (part.kind == ExprKind::name && to_string(part) == name);
    });
    const bool is_known = std::count(one.before.begin(), one.before.end(), name) > 0;
    if (!one.loops.empty() && is_known && !reads_itself)
      add(kSumOfPasses, value, fmt::format("{} + {}", name, text));
    unread(one, value, text);
    if (reads_itself) factor_of_other_line(one, value, name);
    more_calls(one, value, text);
    other_names_everywhere(one, value);
  }

  void expression(const TextStatement& one, const Expr& expr) {
    if (expr.kind == ExprKind::call) call(one, expr);
    if (expr.kind == ExprKind::binary) binary(expr);
    if (expr.kind == ExprKind::index) index(one, expr);
    if (expr.kind == ExprKind::name) name(one, expr);
    if (expr.kind == ExprKind::list || expr.kind == ExprKind::call) swapped(expr);
    if (expr.kind == ExprKind::number && expr.number.is_integer()) number(one, expr);
    if (expr.kind == ExprKind::transpose) add(kLess, expr, expr.args[0]);
    if (expr.kind == ExprKind::binary || expr.kind == ExprKind::call)
      for (const std::string& function : functions_)
        add(kFunction, expr, fmt::format("{}({})", function, to_string(expr)));
  }

  // The number of a neighbour, and the first row of a rank's part, in place of index(axis).
  void number_of_rank(const Expr& expr) {
    const std::string own = to_string(expr);
    for (const char* side : {"-", "+"}) add(kNeighbour, expr, fmt::format("({} {} 1)", own, side));
    const Expr* const around = ranks_.parent_of(ranks_.number_of(expr));
    if (around != nullptr && around->symbol == "*") return;
    for (const int64_t size : parts_[to_string(expr.args[0])])
      if (size > 1) add(kFirstIndex, expr, fmt::format("({} * {})", own, size));
  }

  void call(const TextStatement& one, const Expr& expr) {
    const bool is_place = expr.symbol == "index" || expr.symbol == "size";
    // A `let` is tried before other axes, because it may equal one: 2 micro-batches and pp=2.
    if (expr.symbol == "size")
      for (const auto& [name, number] : about_.job.numbers)
        if (number.is_integer() && number.integer() > 1) add(kPlace, expr, name);
    if (expr.symbol == "index" && expr.args.size() == 1) number_of_rank(expr);
    if (is_place && expr.args.size() == 1)
      for (const std::string& axis : axes_)
        if (to_string(expr.args[0]) != axis)
          add(kPlace, expr, fmt::format("{}({})", expr.symbol, axis));
    if (expr.symbol == "embedding") mask(one, expr);
    other_function(expr);
    if (expr.symbol == "arange" && expr.args.size() == 1)
      for (const std::string& axis : axes_)
        for (const char* sign : {"+", "-"})
          add(kFirstIndex, expr,
              fmt::format("{0} {1} index({2}) * {3}", to_string(expr), sign, axis,
                          to_string(expr.args[0])));
    if (expr.args.size() == 1 && !is_place) {
      add(kLess, expr, expr.args[0]);
      if (is_tensor_call(expr.args[0])) {  // f(all_reduce(x, ..)) for all_reduce(f(x), ..)
        Expr inside = expr, outside = expr.args[0];
        inside.args[0] = outside.args[0];
        outside.args[0] = std::move(inside);
        add(kCall, expr, std::move(outside));
      }
    }
    if (!is_tensor_call(expr) || expr.args.empty()) return;
    words(expr);
    const Expr& moved = expr.args[0];
    permuted(one, moved);
    if (moved.kind == ExprKind::call && moved.args.size() == 1) {
      Expr inside = expr, outside = moved;
      inside.args[0] = moved.args[0];
      outside.args[0] = std::move(inside);
      add(kCall, expr, std::move(outside));
    }
    // all_reduce(p, ..) / d for all_reduce(p / d, ..)
    for (size_t side = 0; moved.kind == ExprKind::binary && side < moved.args.size(); ++side) {
      if (moved.args[side].kind == ExprKind::number) continue;
      Expr inside = expr, outside = moved;
      inside.args[0] = moved.args[side];
      outside.args[side] = std::move(inside);
      add(kCall, expr, std::move(outside));
    }
    for (size_t i = 0; i < expr.args.size(); ++i) {
      const std::string text = to_string(expr.args[i]);
      if (text != "next" && text != "prev") continue;
      Expr changed = expr;
      changed.args[i] = parse_expression(text == "next" ? "prev" : "next");
      add(kPlace, expr, std::move(changed));
    }
    add(kCall, expr, expr.args[0]);
    const CollectiveKind kind = *parse_collective_kind(expr.symbol);
    if (kind == CollectiveKind::all_reduce || is_point_to_point(kind)) return;
    for (size_t i = 0; i < expr.keys.size(); ++i)
      if (expr.keys[i] == "group")
        for (const char* op : {"avg", "sum"})
          add(kCall, expr,
              fmt::format("all_reduce({}, {}, group={})", to_string(expr.args[0]), op,
                          to_string(expr.args[i])));
  }

  // The opposite of a function, and the other choice of where(..).
  void other_function(const Expr& call) {
    static const std::map<std::string, std::string> kOpposites{{"logical_and", "logical_or"},
                                                               {"logical_or", "logical_and"},
                                                               {"maximum", "minimum"},
                                                               {"minimum", "maximum"},
                                                               {"amax", "amin"},
                                                               {"amin", "amax"}};
    const auto opposite = kOpposites.find(call.symbol);
    Expr changed = call;
    if (opposite != kOpposites.end()) {
      changed.symbol = opposite->second;
      add(kOrder, call, std::move(changed));
    } else if (call.symbol == "where" && call.args.size() == 3) {
      std::swap(changed.args[1], changed.args[2]);
      add(kOrder, call, std::move(changed));
    }
  }

  // Adds the other reduction of a call, and other groups: each axis, and all axes together.
  void words(const Expr& call) {
    for (size_t i = 1; i < call.args.size(); ++i) {
      const std::string word = to_string(call.args[i]);
      if (word == "sum" || word == "avg") add(kWord, call.args[i], word == "sum" ? "avg" : "sum");
      if (call.keys[i] != "group" || is_point_to_point(*parse_collective_kind(call.symbol)))
        continue;
      for (const std::string& group : groups())
        if (group != word) add(kWord, call.args[i], group);
    }
  }

  // Returns the axes of several ranks, then all of them as one group.
  std::vector<std::string> groups() const {
    std::vector<std::string> all = axes_;
    if (axes_.size() > 1) all.push_back(fmt::format("[{}]", fmt::join(axes_, ", ")));
    return all;
  }

  // Masks the rows of a lookup by the mask of its indices: embedding(where(m, i, 0), e). A line
  // before may bind the indices.
  void mask(const TextStatement& one, const Expr& lookup) {
    const Expr* indices = &lookup.args[0];
    for (const TextStatement& other : ranks_.statements()) {
      if (&other == &one) break;
      if (other.listing == one.listing && other.statement->kind == StatementKind::assign &&
          to_string(other.statement->targets[0]) == to_string(lookup.args[0]))
        indices = other.whole[0];
    }
    visit_parts(*indices, [&](const Expr& part) {
      if (part.kind != ExprKind::call || part.symbol != "where" || part.args.size() != 3) return;
      const std::string mask = to_string(part.args[0]);
      for (const char* dims : {"[:, None]", "[:, :, None]"})
        add(kUnread, lookup, fmt::format("where(({}){}, {}, 0)", mask, dims, to_string(lookup)));
    });
  }

  // Numbers such as -100, the label that a loss ignores, are compared for equality. They are never
  // off by one.
  static bool is_marker(const Expr& expr) {
    return expr.kind == ExprKind::unary && expr.symbol == "-" &&
           expr.args[0].kind == ExprKind::number;
  }

  void find_markers(const Expr& part) {
    if (part.symbol == "==" || part.symbol == "!=")
      for (const Expr& one : part.args)
        if (is_marker(one)) markers_.insert(to_string(one));
    if (part.kind != ExprKind::call) return;
    const Expr* const ignored = argument_of(part, "ignore_index");
    if (ignored != nullptr && is_marker(*ignored)) markers_.insert(to_string(*ignored));
    if (part.symbol == "cross_entropy" && ignored == nullptr) markers_.insert("-100");
  }

  // Another label that the file ignores: labels != -100 for labels != -1.
  void markers(const Expr& expr) {
    if (expr.symbol != "==" && expr.symbol != "!=") return;
    for (const Expr& part : expr.args)
      for (const std::string& other : is_marker(part) ? markers_ : std::set<std::string>())
        if (other != to_string(part)) add(kPlace, part, other);
  }

  void binary(const Expr& expr) {
    markers(expr);
    static const std::map<std::string, std::vector<std::string>> kOthers{{"<", {">=", "<=", ">"}},
                                                                         {"<=", {">", "<", ">="}},
                                                                         {">", {"<=", ">=", "<"}},
                                                                         {">=", {"<", ">", "<="}},
                                                                         {"==", {"!="}},
                                                                         {"!=", {"=="}},
                                                                         {"+", {"-"}},
                                                                         {"-", {"+"}},
                                                                         {"*", {"/"}},
                                                                         {"/", {"*"}}};
    const auto others = kOthers.find(expr.symbol);
    if (expr.symbol == "+" || expr.symbol == "-" || expr.symbol == "*" || expr.symbol == "/")
      for (const Expr& part : expr.args) add(kLess, expr, part);
    if (others != kOthers.end())
      for (const std::string& symbol : others->second) {
        Expr changed = expr;
        changed.symbol = symbol;
        add(kOrder, expr, std::move(changed));
      }
    if (expr.symbol != "-" && expr.symbol != "/" && expr.symbol != "@") return;
    Expr changed = expr;
    std::swap(changed.args[0], changed.args[1]);
    add(kOrder, expr, std::move(changed));
  }

  // Two arguments in the other order.
  void swapped(const Expr& expr) {
    for (size_t i = 0; i < expr.args.size(); ++i)
      for (size_t j = i + 1; j < expr.args.size(); ++j) {
        const bool are_named =
            expr.kind == ExprKind::call && (!expr.keys[i].empty() || !expr.keys[j].empty());
        if (are_named || expr.args[i].kind != ExprKind::name || expr.args[j].kind != ExprKind::name)
          continue;
        Expr changed = expr;
        std::swap(changed.args[i], changed.args[j]);
        // Two names of grad(l, [a, b]) change two gradients; one of them may be misread later.
        add(expr.kind == ExprKind::list ? kOrderOfList : kOrder, expr, std::move(changed));
      }
  }

  void index(const TextStatement& one, const Expr& expr) {
    for (const Expr* part : children_of(expr)) {
      if (part == &expr.args[0]) continue;
      indices(*part);
      for (const std::string& loop : one.loops) {
        if (part->kind == ExprKind::number) add(kPass, *part, loop);
        if (part->kind != ExprKind::name) continue;
        if (to_string(*part) != loop) {
          add(kPass, *part, loop);
          continue;
        }
        if (expr.items.size() == 1) add(kLess, expr, expr.args[0]);  // of all passes
        for (const char* next : {"+ 1", "- 1"}) add(kPass, *part, fmt::format("{} {}", loop, next));
      }
    }
    for (size_t item = 0; item < expr.items.size(); ++item) {
      const IndexItem& slice = expr.items[item];
      if (slice.kind != IndexKind::slice || slice.high.empty()) continue;
      const std::string low = slice.low.empty() ? "0" : to_string(slice.low[0]);
      const std::string high = to_string(slice.high[0]);
      const std::string size = low == "0" ? high : fmt::format("({} - {})", high, low);
      for (const std::string& axis : axes_) {
        const std::string start = fmt::format("index({}) * {}", axis, size);
        Expr changed = expr;
        const std::string first = low == "0" ? start : fmt::format("{} + {}", low, start);
        changed.items[item].low = {parse_expression(first)};
        changed.items[item].high = {parse_expression(fmt::format("{} + {}", start, high))};
        add(kOwnPart, expr, std::move(changed));
      }
    }
  }

  // The part of this rank in place of the first one, and the inverse of a permutation.
  void indices(const Expr& part) {
    if (to_string(part) == "0")
      for (const std::string& axis : axes_) add(kPlace, part, fmt::format("index({})", axis));
    const NamedTensor* const tensor =
        part.kind == ExprKind::name ? tensor_of(to_string(part)) : nullptr;
    if (tensor != nullptr && tensor->shape.size() == 1 && is_integral(tensor->dtype) &&
        tensor->dtype != DType::boolean)
      add(kOrder, part, fmt::format("argsort({})", to_string(part)));
  }

  // Puts the input of a call into an order that a line has computed: x[order] for x.
  void permuted(const TextStatement& one, const Expr& moved) {
    const NamedTensor* const tensor =
        moved.kind == ExprKind::name ? tensor_of(to_string(moved)) : nullptr;
    if (tensor == nullptr || tensor->shape.size() == 0) return;
    for (const std::string& name : one.before) {
      const NamedTensor* const order = tensor_of(name);
      if (order != nullptr && is_integral(order->dtype) && order->shape == Dims{tensor->shape[0]})
        add(kOrder, moved, fmt::format("{}[{}]", to_string(moved), name));
    }
  }

  // Each number of a line alone, then all equal ones.
  void number(const TextStatement& one, const Expr& expr) {
    const int64_t value = expr.number.integer();
    if (markers_.contains(fmt::format("-{}", value))) return;
    for (const int64_t next : {value + 1, value - 1})
      if (next >= 0) add(kNeighbour, expr, std::to_string(next));
    const Expr& whole = *one.whole[0];
    int same = 0;
    const std::string text = to_string(expr);
    visit_parts(whole, [&](const Expr& part) { same += to_string(part) == text ? 1 : 0; });
    for (const int64_t next : {value + 1, value - 1}) {
      if (same < 2 || next < 0) continue;
      Expr changed = whole;
      replace(changed, to_string(expr), std::to_string(next));
      add(kNeighbour, whole, std::move(changed));
    }
  }

  static void replace(Expr& expr, const std::string& from, const std::string& to) {
    for (Expr* child : children_of(expr)) replace(*child, from, to);
    const bool is_leaf = expr.kind == ExprKind::name || expr.kind == ExprKind::number;
    if (is_leaf && to_string(expr) == from) expr = parse_expression(to);
  }

  // Returns the tensor of a name, or the first one of a name with holes; null if it has none.
  const NamedTensor* tensor_of(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found != tensors_.end()) return &found->second;
    std::string kind;
    for (const char c : name) {
      if (kind.empty() || kind.back() != '{' || c == '}') kind += c;
      if (c == '}') kind.replace(kind.size() - 2, 2, "#");
    }
    const auto alike = kinds_.find(kind);
    return alike == kinds_.end() ? nullptr : &alike->second;
  }

  // Returns the name with a loop's variable in place of holes that compute with it: b{i} for
  // b{m - 1 - i}.
  static std::string of_this_pass(const std::string& name, const std::vector<std::string>& loops) {
    std::string result;
    for (size_t at = 0; at < name.size();) {
      const size_t open = name.find('{', at), close = name.find('}', open);
      if (close == std::string::npos) return result + name.substr(at);
      const std::string hole = name.substr(open + 1, close - open - 1);
      result += name.substr(at, open - at);
      const auto loop = std::find_if(loops.begin(), loops.end(), [&](const std::string& one) {
        const auto is_part = [&](size_t place) {
          return place < hole.size() && std::isalnum(static_cast<unsigned char>(hole[place])) != 0;
        };
        const size_t found = hole.find(one);
        return found != std::string::npos && !is_part(found + one.size()) &&
               (found == 0 || !is_part(found - 1));
      });
      result += fmt::format("{{{}}}", loop == loops.end() ? hole : *loop);
      at = close + 1;
    }
    return result;
  }

  std::vector<std::string> names_like(const TextStatement& one, const std::string& name) const {
    const NamedTensor* const own = tensor_of(name);
    if (own == nullptr) return {};
    std::set<std::string> known;
    for (const std::string& other : one.before) known.insert(of_this_pass(other, one.loops));
    for (const NameTemplate& own_name : one.statement->targets)
      known.insert(of_this_pass(to_string(own_name), one.loops));
    for (const JobInput& input : about_.job.inputs) known.insert(input.name);
    std::vector<std::string> others;
    for (const std::string& other : known) {
      const NamedTensor* const found = tensor_of(other);
      if (other != name && found != nullptr && *found == *own) others.push_back(other);
    }
    return others;
  }

  void name(const TextStatement& one, const Expr& expr) {
    const std::string name = to_string(expr);
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    if (digits < name.size())  // h{i} for h0
      for (const std::string& loop : one.loops)
        add(kPass, expr, fmt::format("{}{{{}}}", name.substr(0, digits), loop));
    if (const std::string own = of_this_pass(name, one.loops); own != name) add(kPass, expr, own);
    if (name == "rank")
      for (const std::string& axis : axes_) add(kPlace, expr, fmt::format("index({})", axis));
    const NamedTensor* const tensor = tensor_of(name);
    if (tensor == nullptr) return;
    for (const std::string& other : names_like(one, name)) add(kOtherName, expr, other);
    if (!is_integral(tensor->dtype) || tensor->dtype == DType::boolean) return;
    std::set<std::string> firsts;
    for (const std::string& other : one.before)
      if (!tensors_.contains(other)) firsts.insert(other);
    for (const auto& [axis, sizes] : parts_)
      for (const int64_t size : sizes) firsts.insert(fmt::format("index({}) * {}", axis, size));
    for (const std::string& first : firsts)
      for (const char* sign : {"-", "+"})
        add(kFirstIndex, expr, fmt::format("{} {} {}", name, sign, first));
  }

  void other_names_everywhere(const TextStatement& one, const Expr& value) {
    std::map<std::string, int> reads;
    visit_parts(value, [&](const Expr& part) {
      if (part.kind == ExprKind::name) ++reads[to_string(part)];
    });
    for (const auto& [name, count] : reads)
      for (const std::string& other :
           count > 1 ? names_like(one, name) : std::vector<std::string>()) {
        Expr changed = value;
        replace(changed, name, other);
        add(kOtherName, value, std::move(changed));
      }
  }

  // A name that the listing binds before the line and no line reads.
  void unread(const TextStatement& one, const Expr& value, const std::string& text) {
    std::set<std::string> known(one.before.begin(), one.before.end());
    for (const JobInput& input : about_.job.inputs) known.insert(input.name);
    for (const std::string& name : known) {
      const auto tensor = tensors_.find(name);
      const auto is_named = [&](const JobOutput& output) { return output.name == name; };
      if (tensor == tensors_.end() || read_.contains({one.listing, name}) ||
          std::any_of(about_.job.outputs.begin(), about_.job.outputs.end(), is_named))
        continue;
      if (tensor->second.dtype == DType::boolean) {
        visit_parts(value, [&](const Expr& part) {
          if (part.kind != ExprKind::call && part.kind != ExprKind::name) return;
          for (const char* dims : {"", "[:, None]", "[:, :, None]"})
            add(kUnread, part, fmt::format("where({}{}, {}, 0)", name, dims, to_string(part)));
        });
        continue;
      }
      for (const char* op : {"/", "*", "+", "-"})
        add(kUnread, value, fmt::format("({}) {} {}", text, op, name));
      if (value.symbol == "+" || value.symbol == "-")
        for (const Expr& term : value.args)
          for (const char* op : {"*", "/"})
            add(kUnread, term, fmt::format("({}) {} {}", to_string(term), op, name));
    }
  }

  // Lines of one loop that continue their own values, such as the sums of an online softmax, may
  // have one factor: o * c for o, as in "l = l * c + d".
  void factor_of_other_line(const TextStatement& one, const Expr& value, const std::string& name) {
    if (one.loops.empty()) return;
    std::set<std::string> factors;
    for (const TextStatement& other : ranks_.statements()) {
      if (other.listing != one.listing || other.loops != one.loops ||
          other.statement == one.statement || other.statement->kind != StatementKind::assign)
        continue;
      const std::string own = to_string(other.statement->targets[0]);
      visit_parts(*other.whole[0], [&](const Expr& part) {
        if (part.kind != ExprKind::binary || part.symbol != "*") return;
        for (const size_t side : {size_t{0}, size_t{1}}) {
          const Expr& factor = part.args[1 - side];
          const bool is_leaf = factor.kind == ExprKind::name || factor.kind == ExprKind::number;
          if (is_leaf && to_string(part.args[side]) == own) factors.insert(to_string(factor));
        }
      });
    }
    visit_parts(value, [&](const Expr& part) {
      if (part.kind != ExprKind::name || to_string(part) != name) return;
      for (const std::string& factor : factors)
        if (factor != name) add(kFactor, part, fmt::format("{} * {}", name, factor));
    });
  }

  // True if a line of the listing multiplies a name by a matrix, of which each rank may have a
  // part.
  bool is_multiplied(const TextStatement& one) const {
    const std::string name = to_string(one.statement->targets[0]);
    return std::any_of(
        ranks_.statements().begin(), ranks_.statements().end(), [&](const TextStatement& other) {
          bool found = false;
          visit_parts(*other.whole[0], [&](const Expr& part) {
            const bool multiplies = part.symbol == "@" || part.symbol == "einsum" ||
                                    part.symbol == "matmul" || part.symbol == "linear";
            found = found || (multiplies && other.listing == one.listing &&
                              std::any_of(part.args.begin(), part.args.end(),
                                          [&](const Expr& arg) { return to_string(arg) == name; }));
          });
          return found;
        });
  }

  // True if a call, or a call times a factor, makes a value equal on all ranks of an axis. A sum of
  // it over them would be right only because its error is the size of the axis.
  bool is_equal_over(const Expr& value, const std::string& group) const {
    if (value.symbol == "*" || value.symbol == "/")
      return is_equal_over(value.args[0], group) || is_equal_over(value.args[1], group);
    const auto kind = value.kind == ExprKind::call ? parse_collective_kind(value.symbol)
                                                   : std::optional<CollectiveKind>();
    if (!kind || !has_equal_outputs(*kind)) return false;
    Expr call = value;
    const Expr* const own = argument_of(call, "group");
    if (own == nullptr) return true;
    const Expr other = parse_expression(group);
    bool found = false;
    visit_parts(*own, [&](const Expr& a) {
      visit_parts(other, [&](const Expr& b) {
        found = found || (a.kind == ExprKind::name && to_string(a) == to_string(b));
      });
    });
    return found;
  }

  void more_calls(const TextStatement& one, const Expr& value, const std::string& text) {
    if (value.kind == ExprKind::number) return;
    for (const std::string& group : groups()) {
      if (is_equal_over(value, group)) continue;
      for (const char* op : {"sum", "avg", "max"})
        add(kCall, value, fmt::format("all_reduce({}, {}, group={})", text, op, group));
      if (!writes_backwards_) continue;
      if (is_multiplied(one)) add(kEnter, value, fmt::format("enter({}, group={})", text, group));
      for (const char* op : {"sum", "avg"})
        for (const char* word : {"identity", "all_reduce"})
          add(kCall, value,
              fmt::format("all_reduce({}, {}, group={}, backward={})", text, op, group, word));
    }
    std::set<std::string> known;
    for (const TextStatement& other : ranks_.statements())
      visit_parts(*other.whole[0], [&](const Expr& part) {
        if (!is_tensor_call(part) || part.args.empty() || part.symbol == "all_reduce" ||
            is_point_to_point(*parse_collective_kind(part.symbol)))
          return;
        Expr around = part;
        around.args[0] = value;
        if (known.insert(to_string(around)).second) add(kCall, value, std::move(around));
      });
  }

  const NumberedText& ranks_;
  const RankCase& about_;
  const std::set<ListedLine>& lines_;
  std::vector<std::string> axes_, functions_;
  std::map<std::string, NamedTensor> tensors_, kinds_;  // by name, and by text_kind_of the name
  std::map<std::string, std::set<int64_t>> parts_;      // sizes of a rank's shards, by axis
  std::set<std::pair<size_t, std::string>> read_;       // names that lines read, by listing
  std::set<std::string> markers_;                       // "-100": labels that losses ignore
  bool writes_backwards_ = false;                       // the text has enter(..) or backward=
  std::array<std::vector<TextChange>, kKinds> found_;
};

}  // namespace

std::vector<TextChange> small_changes(const NumberedText& ranks, const RankCase& about,
                                      const std::set<ListedLine>& lines,
                                      const std::set<ListedLine>& suspects, int line) {
  return SmallChanges(ranks, about, lines).run(suspects, line);
}

}  // namespace shardproof
