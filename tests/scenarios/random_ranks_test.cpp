// Random rank programs. For whole numbers the test itself computes the final values of each rank,
// element by element. It writes them to the file as the truth. For other numbers there is no truth;
// two orders of addition are compared by their measured rounding.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/localtensor/base/rng.h"
#include "shardproof/scenarios/load/load.h"
#include "shardproof/scenarios/record/run_comparison.h"
#include "shardproof/scenarios/report/report.h"
#include "shardproof/tests/few_draws.h"

namespace shardproof::random_ranks_test {
namespace {

constexpr uint64_t kPrograms = kFewDraws ? 16 : 120;

using Index = std::vector<int64_t>;

struct Array {
  Index shape;
  std::vector<int64_t> elements;  // row-major
};

int64_t count_of(const Index& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

int64_t place_of(const Index& shape, const Index& index) {
  int64_t place = 0;
  for (size_t d = 0; d < shape.size(); ++d) place = place * shape[d] + index[d];
  return place;
}

// Returns an array whose elements are given by a function of the index.
Array array_of(const Index& shape, const std::function<int64_t(const Index&)>& element) {
  Array array{shape, {}};
  for (int64_t place = 0; place < count_of(shape); ++place) {
    Index index(shape.size());
    int64_t rest = place;
    for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) index[d] = rest % shape[d];
    array.elements.push_back(element(index));
  }
  return array;
}

int64_t at(const Array& array, const Index& index) {
  return array.elements[static_cast<size_t>(place_of(array.shape, index))];
}

Array joined(const std::vector<Array>& arrays, size_t dim) {
  Index shape = arrays.front().shape;
  const int64_t each = shape[dim];
  shape[dim] *= std::ssize(arrays);
  return array_of(shape, [&](Index index) {
    const Array& from = arrays[static_cast<size_t>(index[dim] / each)];
    index[dim] %= each;
    return at(from, index);
  });
}

Array piece(const Array& array, size_t dim, int64_t pieces, int64_t which) {
  Index shape = array.shape;
  shape[dim] /= pieces;
  return array_of(shape, [&](Index index) {
    index[dim] += which * shape[dim];
    return at(array, index);
  });
}

std::string nested(const Array& array, size_t dim = 0, int64_t from = 0) {
  if (dim == array.shape.size()) return fmt::to_string(array.elements[static_cast<size_t>(from)]);
  const int64_t below =
      count_of(Index(array.shape.begin() + static_cast<ptrdiff_t>(dim) + 1, array.shape.end()));
  std::vector<std::string> parts;
  for (int64_t i = 0; i < array.shape[dim]; ++i)
    parts.push_back(nested(array, dim + 1, from + i * below));
  return fmt::format("[{}]", fmt::join(parts, ", "));
}

class RandomRanks {
 public:
  explicit RandomRanks(uint64_t seed) : rng_(seed, 1) {
    cp_ = draw(1, 3);
    ranks_ = 2 * draw(1, 3) * cp_;
    for (const char* name : {"t0", "t1"}) {
      Index shape;
      for (int64_t dims = draw(0, 4); dims > 0; --dims) shape.push_back(draw(1, 5));
      const Array array = array_of(shape, [this](const Index&) { return draw(-3, 4); });
      tensors_.push_back(fmt::format("\"{}\": {{\"shape\": [{}], \"values\": {}}}", name,
                                     fmt::join(shape, ", "), nested(array)));
      lines_.push_back(fmt::format("{0} = {0} + rank", name));
      for (int64_t rank = 0; rank < ranks_; ++rank)
        held_[name].push_back(
            array_of(shape, [&](const Index& index) { return at(array, index) + rank; }));
    }
    for (int steps = 10; steps > 0; --steps) step();
  }

  // Inexact numbers, and no truth.
  std::string text_without_truth(const std::string& dtype) {
    std::vector<std::string> tensors;
    for (const std::string& tensor : tensors_)
      tensors.push_back(tensor.substr(0, tensor.find(", \"values\"")) +
                        ", \"fill\": \"uniform(-1, 1)\"}");
    for (const auto& [name, arrays] : held_) {
      lines_.push_back(fmt::format("o_{0} = sigmoid({0} * 0.37) + {0}", name));
      lines_.push_back(fmt::format("s_{0} = all_reduce(sum(o_{0} * o_{0}), avg)", name));
    }
    return fmt::format(
        "{{\"version\": 1, \"mesh\": \"dp={}, cp={}\", \"dtype\": \"{}\", \"tensors\": {{{}}},\n"
        "\"ranks\": {{\"all\": [\"{}\"]}}}}",
        ranks_ / cp_, cp_, dtype, fmt::join(tensors, ",\n"), fmt::join(lines_, "\",\n\""));
  }

  std::string text() {
    std::vector<std::string> truth, outputs;
    for (const auto& [name, arrays] : held_) {
      Index shape = arrays.front().shape;
      shape.insert(shape.begin(), 1);
      lines_.push_back(fmt::format("o_{0} = reshape({0}, [{1}])", name, fmt::join(shape, ", ")));
      std::vector<Array> rows;
      for (const Array& array : arrays) rows.push_back({shape, array.elements});
      const Array all = joined(rows, 0);
      tensors_.push_back(fmt::format("\"e_{}\": {{\"shape\": [{}], \"values\": {}}}", name,
                                     fmt::join(all.shape, ", "), nested(all)));
      truth.push_back(fmt::format("\"o_{0} = e_{0} * 1\"", name));
      outputs.push_back(fmt::format("\"o_{}\": \"dp:S(0) cp:S(0)\"", name));
    }
    return fmt::format(
        "{{\"version\": 1, \"mesh\": \"dp={}, cp={}\", \"dtype\": \"{}\", \"tensors\": {{{}}},\n"
        "\"ranks\": {{\"all\": [\"{}\"]}},\n\"truth\": [{}], \"outputs\": {{{}}}}}",
        ranks_ / cp_, cp_, draw(0, 2) == 0 ? "f32" : "i64", fmt::join(tensors_, ",\n"),
        fmt::join(lines_, "\",\n\""), fmt::join(truth, ", "), fmt::join(outputs, ", "));
  }

 private:
  using Held = std::vector<Array>;  // by rank

  int64_t draw(int64_t low, int64_t high) { return rng_.integer(draws_++, low, high); }

  // The members of each group along an axis, or of the world, and the text of the group.
  std::pair<std::vector<std::vector<size_t>>, std::string> groups() {
    const int64_t which = draw(0, 3);
    std::vector<std::vector<size_t>> groups;
    const int64_t count = which == 0 ? 1 : which == 1 ? cp_ : ranks_ / cp_;
    groups.resize(static_cast<size_t>(count));
    for (int64_t rank = 0; rank < ranks_; ++rank)
      groups[static_cast<size_t>(which == 0   ? 0
                                 : which == 1 ? rank % cp_
                                              : rank / cp_)]
          .push_back(static_cast<size_t>(rank));
    return {groups, which == 0 ? "" : which == 1 ? ", group=dp" : ", group=cp"};
  }

  static int64_t reduced(const std::string& how, int64_t a, int64_t b) {
    return how == "sum" ? a + b : how == "max" ? std::max(a, b) : std::min(a, b);
  }

  void step() {
    auto from = held_.begin();
    std::advance(from, draw(0, std::ssize(held_)));
    const auto& [name, before] = *from;
    for (const Array& array : before)
      for (const int64_t element : array.elements)
        if (std::abs(element) > 100'000) return;  // f32 is to stay exact
    const auto [groups, group] = this->groups();
    const Call call{name, before, groups, group, std::ssize(groups.front())};
    const std::string how = std::vector<std::string>{"sum", "max", "min"}[draw_index(3)];
    switch (draw(0, 8)) {
      case 0: return reduce(call, how);
      case 1: return reduce_to_root(call, how);
      case 2: return broadcast(call);
      case 3: return pass_on(call);
      case 4: return gather(call);
      case 5: return scatter(call, how);
      case 6: return exchange(call);
      default: return cut(call);
    }
  }

  struct Call {
    std::string name;
    Held before;
    std::vector<std::vector<size_t>> groups;
    std::string group;
    int64_t size;
    const Index& shape() const { return before.front().shape; }
    bool has_dims() const { return !shape().empty(); }
  };

  size_t draw_index(size_t count) {
    return static_cast<size_t>(draw(0, static_cast<int64_t>(count)));
  }
  std::string fresh() { return fmt::format("v{}", ++names_); }
  void add(const std::string& name, Held held, const std::string& line) {
    lines_.push_back(line);
    held_[name] = std::move(held);
  }
  Array sum_of(const Call& call, const std::vector<size_t>& group, const std::string& how) const {
    return array_of(call.shape(), [&](const Index& index) {
      int64_t value = at(call.before[group.front()], index);
      for (size_t i = 1; i < group.size(); ++i)
        value = reduced(how, value, at(call.before[group[i]], index));
      return value;
    });
  }

  // Writes the whole value, or in place a slice of one dim.
  void reduce(const Call& call, const std::string& how) {
    Held after = call.before;
    const bool part = call.has_dims() && draw(0, 2) == 0;
    const size_t dim = part ? draw_index(call.shape().size()) : 0;
    const int64_t low = part ? draw(0, call.shape()[dim]) : 0;
    const int64_t high = part ? draw(low + 1, call.shape()[dim] + 1) : 0, by = draw(1, 3);
    for (const auto& group : call.groups) {
      const Array whole = sum_of(call, group, how);
      for (const size_t rank : group)
        after[rank] = array_of(call.shape(), [&](const Index& index) {
          const bool in =
              !part || (index[dim] >= low && index[dim] < high && (index[dim] - low) % by == 0);
          return at(in ? whole : call.before[rank], index);
        });
    }
    if (part) {
      const std::string colons(dim, ':');
      return add(
          call.name, after,
          fmt::format("all_reduce_({}[{}{}{}:{}:{}], {}{})", call.name, fmt::join(colons, ", "),
                      dim > 0 ? ", " : "", low, high, by, how, call.group));
    }
    if (draw(0, 2) == 0)
      return add(call.name, after,
                 fmt::format("all_reduce_({}, {}{})", call.name, how, call.group));
    const std::string name = fresh();
    add(name, after, fmt::format("{} = all_reduce({}, {}{})", name, call.name, how, call.group));
  }

  void reduce_to_root(const Call& call, const std::string& how) {
    const size_t root = draw_index(static_cast<size_t>(call.size));
    Held after = call.before;
    for (const auto& group : call.groups) after[group[root]] = sum_of(call, group, how);
    add(call.name, after,
        fmt::format("reduce_({}, {}, root={}{})", call.name, how, root, call.group));
  }

  void broadcast(const Call& call) {
    const size_t root = draw_index(static_cast<size_t>(call.size));
    Held after = call.before;
    for (const auto& group : call.groups)
      for (const size_t rank : group) after[rank] = call.before[group[root]];
    add(call.name, after, fmt::format("broadcast_({}, root={}{})", call.name, root, call.group));
  }

  void pass_on(const Call& call) {
    if (call.size == 1) return;
    Held after = call.before;
    for (const auto& group : call.groups)
      for (size_t i = 0; i < group.size(); ++i)
        after[group[(i + 1) % group.size()]] = call.before[group[i]];
    const std::string name = fresh();
    lines_.push_back("group:");
    lines_.push_back(fmt::format("  send({}, to=next{})", call.name, call.group));
    add(name, after, fmt::format("  {} = recv(like={}, from=prev{})", name, call.name, call.group));
  }

  void gather(const Call& call) {
    if (!call.has_dims() || count_of(call.shape()) * call.size > 400) return;
    const size_t dim = draw_index(call.shape().size());
    Held after = call.before;
    for (const auto& group : call.groups) {
      std::vector<Array> parts;
      for (const size_t rank : group) parts.push_back(call.before[rank]);
      for (const size_t rank : group) after[rank] = joined(parts, dim);
    }
    const std::string name = fresh();
    add(name, after,
        fmt::format("{} = all_gather({}, dim={}{})", name, call.name, dim, call.group));
  }

  void scatter(const Call& call, const std::string& how) {
    const size_t dim = call.has_dims() ? draw_index(call.shape().size()) : 0;
    if (!call.has_dims() || call.shape()[dim] % call.size != 0) return;
    Held after = call.before;
    for (const auto& group : call.groups)
      for (size_t i = 0; i < group.size(); ++i)
        after[group[i]] = piece(sum_of(call, group, how), dim, call.size, static_cast<int64_t>(i));
    const std::string name = fresh();
    add(name, after,
        fmt::format("{} = reduce_scatter({}, {}, dim={}{})", name, call.name, how, dim,
                    call.group));
  }

  void exchange(const Call& call) {
    const size_t split = call.has_dims() ? draw_index(call.shape().size()) : 0;
    if (!call.has_dims() || call.shape()[split] % call.size != 0) return;
    const size_t concat = draw_index(call.shape().size());
    Held after = call.before;
    for (const auto& group : call.groups)
      for (size_t i = 0; i < group.size(); ++i) {
        std::vector<Array> parts;
        for (const size_t rank : group)
          parts.push_back(piece(call.before[rank], split, call.size, static_cast<int64_t>(i)));
        after[group[i]] = joined(parts, concat);
      }
    const std::string name = fresh();
    add(name, after,
        fmt::format("{} = all_to_all({}, split={}, concat={}{})", name, call.name, split, concat,
                    call.group));
  }

  void cut(const Call& call) {
    if (!call.has_dims()) return;
    const int64_t low = draw(0, call.shape()[0]), high = draw(low + 1, call.shape()[0] + 1);
    Index shape = call.shape();
    shape[0] = high - low;
    Held after;
    for (const Array& array : call.before)
      after.push_back(array_of(shape, [&](Index index) {
        index[0] += low;
        return at(array, index) - 1;
      }));
    const std::string name = fresh();
    add(name, after, fmt::format("{} = {}[{}:{}] - 1", name, call.name, low, high));
  }

  Rng rng_;
  uint64_t draws_ = 0;
  int64_t ranks_ = 0, cp_ = 0;
  int names_ = 0;
  std::vector<std::string> tensors_, lines_;
  std::map<std::string, Held> held_;
};

TEST(RandomRanks, Values_EqualTheMeaningOfTheCalls) {
  const Registries registries{builtin_ops(), builtin_backends()};
  int64_t values = 0;
  for (uint64_t seed = 1; seed <= 5 * kPrograms / 2; ++seed) {
    const std::string text = RandomRanks(seed).text();
    const RunResult result = run_scenarios({load_text(text, "random.json")}, {""}, {}, registries);
    ASSERT_EQ(result.exit_code(), 0) << "seed " << seed << "\n"
                                     << text_report(result, {}) << "\n"
                                     << text;
    values += result.values_compared();
  }
  EXPECT_GT(values, kFewDraws ? 128 : 1000);
}

RecordedRun run_in_order(const std::string& text, const char* order, const Registries& registries) {
  RunOptions options;
  options.records_values = true;
  options.order = parse_reduction_schedule(order);
  const RunResult result =
      run_scenarios({load_text(text, "random.json")}, {""}, options, registries);
  EXPECT_EQ(result.exit_code(), 0) << text_report(result, {}) << "\n" << text;
  return result.scenarios.at(0).cases.at(0).runs.at(0);
}

struct Matches {
  int64_t within = 0, not_decided = 0, all = 0;
};

// Two honest runs in different orders of addition are never wrong.
void compare_orders(const std::string& text, const RecordedRun& exact, const Registries& registries,
                    Matches& matches) {
  for (const char* order : {"rank", "ring", "tree"}) {
    const RunComparison comparison = compare_runs(exact, run_in_order(text, order, registries));
    ASSERT_EQ(comparison.count(Cause::bug), 0) << order << "\n" << text;
    ASSERT_EQ(comparison.count(ValueMatch::wrong), 0) << order << "\n" << text;
    matches.within += comparison.count(ValueMatch::within_rounding);
    matches.not_decided += comparison.count(ValueMatch::not_decided);
    matches.all += comparison.count(std::nullopt);
  }
}

TEST(RandomRanks, OtherAdditionOrder_WithoutTruth_IsNotABug) {
  const Registries registries{builtin_ops(), builtin_backends()};
  Matches matches;
  int64_t found = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const std::string dtype = std::vector<std::string>{"f32", "f64", "bf16", "f16"}[seed % 4];
    const std::string text = RandomRanks(seed).text_without_truth(dtype);
    const RecordedRun exact = run_in_order(text, "exact", registries);
    compare_orders(text, exact, registries, matches);
    if (HasFatalFailure()) FAIL() << "seed " << seed;
    std::string wrong = text;
    wrong.replace(wrong.find("+ rank"), 6, dtype[0] == 'b' ? "+ rank * 1.5" : "+ rank * 1.01");
    RecordedRun other = run_in_order(wrong, "ring", registries);
    other.source = exact.source;  // compare_runs() compares only runs of one program
    other.program = exact.program;
    found += compare_runs(exact, other).count(Cause::bug) > 0 ? 1 : 0;
  }
  EXPECT_GT(matches.within, kFewDraws ? 64 : 500);
  EXPECT_LT(matches.not_decided * 100, matches.all);
  EXPECT_GT(found, kFewDraws ? 12 : 100);
}

// Changes the largest element of a value by a share of itself. Returns false if it has no element.
bool plant(RecordedValue& value, double share) {
  for (RecordedShard& part : value.parts) {
    const std::vector<double> numbers = values_of(part.tensor);
    if (numbers.empty()) continue;
    const auto largest = std::max_element(numbers.begin(), numbers.end());
    if (!(*largest > 0)) continue;
    part.tensor = contiguous_copy(part.tensor);
    store_f64(part.tensor.mutate() + (largest - numbers.begin()) * size_of(value.dtype),
              value.dtype, *largest * (1 + share));
    return true;
  }
  return false;
}

TEST(RandomRanks, DifferenceOfATenThousandth_InF32_IsWrong) {
  const Registries registries{builtin_ops(), builtin_backends()};
  int64_t planted = 0, found = 0;
  for (uint64_t seed = 1; seed <= kPrograms / 4; ++seed) {
    const RecordedRun run =
        run_in_order(RandomRanks(seed).text_without_truth("f32"), "rank", registries);
    for (size_t i = 0; i < run.values.size(); ++i) {
      RecordedRun other = run;
      other.order = "tree";
      if (!plant(other.values[i], 1e-4)) continue;
      ++planted;
      const RunComparison comparison = compare_runs(run, other);
      EXPECT_GT(comparison.count(ValueMatch::wrong) + comparison.count(ValueMatch::not_decided), 0)
          << "seed " << seed << ", " << run.values[i].id;
      found += comparison.count(ValueMatch::wrong);
    }
  }
  EXPECT_GT(planted, kFewDraws ? 26 : 200);
  EXPECT_GE(found * 100, planted * 99) << found << " of " << planted;
}

}  // namespace
}  // namespace shardproof::random_ranks_test
