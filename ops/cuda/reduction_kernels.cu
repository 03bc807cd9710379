// Device kernels of reductions, in the host's order (ops/reduction/reduce_kernel.h), which gives
// the same bits. Many threads fold a long contiguous run (ops/cuda/parallel_fold.h); otherwise one
// thread folds the elements of one result.
#include <algorithm>
#include <type_traits>

#include "shardproof/ops/core/load_store_element.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/cuda/parallel_fold.h"
#include "shardproof/ops/reduction/argmax_state.h"
#include "shardproof/ops/reduction/mean_var_states.h"
#include "shardproof/ops/reduction/reduce_kernel.h"
#include "shardproof/ops/reduction/reducers.h"

namespace shardproof {
namespace {

constexpr int kMostAxes = Dims::kCapacity;

// Returns 1 if the element is not 0, for every dtype. Not inline: three loads, in each copy of an
// unrolled loop.
[[gnu::noinline]] constexpr uint8_t truth_of(const std::byte* at, DType dtype) {
  uint8_t truth = 0;
  with_compute(dtype,
               [&](auto compute) { truth = load_as<decltype(compute)>(at, dtype) != 0 ? 1 : 0; });
  return truth;
}

// A run of elements read as the compute type; uint8_t means truth values.
template <typename C>
struct Reader {
  const std::byte* base;
  DType dtype;
  int64_t bytes;
  constexpr C operator[](int64_t i) const {
    if constexpr (std::is_same_v<C, uint8_t>)
      return truth_of(base + i * bytes, dtype);
    else
      return load_as<C>(base + i * bytes, dtype);
  }
};

struct Axes {
  int count = 0;
  ReduceAxis axes[kMostAxes];

  explicit Axes(const std::vector<ReduceAxis>& given) : count(static_cast<int>(given.size())) {
    for (int i = 0; i < count; ++i) axes[i] = given[static_cast<size_t>(i)];
  }
  // Not inline: 64-bit divisions are much code, and every kernel contains this twice.
  [[gnu::noinline]] constexpr int64_t offset(int64_t index) const {
    int64_t offset = 0;
    for (int i = count - 1; i >= 0; --i) {
      offset += index % axes[i].size * axes[i].stride;
      index /= axes[i].size;
    }
    return offset;
  }
  int64_t product() const {
    int64_t product = 1;
    for (int i = 0; i < count; ++i) product *= axes[i].size;
    return product;
  }
};

// Not inline: conversions to all dtypes are much code, and a result is stored once.
template <typename V>
[[gnu::noinline]] constexpr void store_result(std::byte* at, DType dtype, V value) {
  store_as(at, dtype, value);
}

// Data of all bodies of a reduction.
template <typename S>
struct Reduction {
  using C = typename S::Element;
  Axes kept, reduced;
  ReduceAxis inner;
  bool rows, empty_fold;
  int64_t folds, step;  // runs per result, and elements of a run that are read at once
  ReduceNumbers numbers;
  Reader<C> in;
  std::byte* out;
  DType out_dtype;
  int64_t out_bytes;

  constexpr Reader<C> at(int64_t offset) const {
    return {in.base + offset * in.bytes, in.dtype, in.bytes};
  }
  constexpr int64_t base_of(int64_t result) const {
    return rows ? kept.offset(result) : kept.offset(result / inner.size) + result % inner.size;
  }
  constexpr void store(int64_t result, const S& state) const {
    store_result(out + result * out_bytes, out_dtype, state.finish(numbers));
  }
};

template <typename S>
struct ReduceBody {
  Reduction<S> r;

  constexpr void operator()(int64_t index) const {
    const int64_t base = r.base_of(index);
    S state = S::start(r.numbers);
    for (int pass = 0; pass < S::kPasses; ++pass) {
      for (int64_t run = 0; run < r.folds && !r.empty_fold; ++run) fold(state, base, run, pass);
      if (S::kPasses > 1) state.between(pass, r.numbers);
    }
    r.store(index, state);
  }
  constexpr void fold(S& state, int64_t base, int64_t run, int pass) const {
    const int64_t start = base + r.reduced.offset(run), size = r.inner.size;
    if (!r.rows) return fold_element(state, r.at(start)[0], run, pass);
    for (int64_t k = 0; k < size; k += r.step) {
      const int64_t count = size - k < r.step ? size - k : r.step;
      fold_row(state, r.at(start + k), count, run * size + k, pass);
    }
  }
};

// One pass over long runs, in three launches; the states of all results are in memory.
template <typename S>
struct PassOverLines {
  Reduction<S> r;
  FoldShape shape;
  int pass;
  S* states;
  std::byte* slots;

  template <typename V>
  constexpr V* slots_of(int64_t block) const {
    return reinterpret_cast<V*>(slots) + block * kFoldWays;
  }
};

template <typename S>
struct WayBody : PassOverLines<S> {
  constexpr void operator()(int64_t index) const {
    const int64_t way = index % kFoldWays, at = index / kFoldWays;
    const int64_t line = at / this->shape.blocks();
    const FoldBlock block = block_of(this->shape, at % this->shape.blocks());
    const Reduction<S>& r = this->r;
    const auto run = r.at(r.base_of(line) + r.reduced.offset(block.run));
    S state = this->states[line];
    state.in_pass(this->pass, [&](auto& target, auto step, const auto& term) {
      using V = std::decay_t<decltype(target)>;
      const auto get = [&](int64_t number, int64_t i) {
        return term(run[i], number * r.inner.size + i);
      };
      fold_way(block, way, step, get, this->template slots_of<V>(at)[way]);
    });
  }
};

template <typename S>
struct WaysBody : PassOverLines<S> {
  constexpr void operator()(int64_t at) const {
    const int64_t blocks = this->shape.blocks();
    S state = this->states[at / blocks];
    state.in_pass(this->pass, [&](auto& target, auto step, const auto&) {
      using V = std::decay_t<decltype(target)>;
      fold_ways(block_of(this->shape, at % blocks), step, this->template slots_of<V>(at));
    });
  }
};

template <typename S>
struct LineBody : PassOverLines<S> {
  constexpr void operator()(int64_t line) const {
    S state = this->states[line];
    state.in_pass(this->pass, [&](auto& target, auto step, const auto&) {
      using V = std::decay_t<decltype(target)>;
      fold_blocks(this->shape, step, this->template slots_of<V>(line * this->shape.blocks()),
                  target);
    });
    if (S::kPasses > 1) state.between(this->pass, this->r.numbers);
    this->states[line] = state;
    if (this->pass + 1 == S::kPasses) this->r.store(line, state);
  }
};

template <typename S>
struct StartBody {
  ReduceNumbers numbers;
  S* states;
  constexpr void operator()(int64_t line) const { states[line] = S::start(numbers); }
};

template <typename S>
void reduce_lines(const KernelCall& call, const Reduction<S>& r, const FoldShape& shape) {
  auto* states = reinterpret_cast<S*>(call.workspace);
  auto* slots = call.workspace + shape.lines * static_cast<int64_t>(sizeof(S));
  launch(call.stream, shape.lines, StartBody<S>{r.numbers, states});
  for (int pass = 0; pass < S::kPasses; ++pass) {
    const PassOverLines<S> over{r, shape, pass, states, slots};
    launch(call.stream, shape.ways(), WayBody<S>{over});
    launch(call.stream, shape.ways() / kFoldWays, WaysBody<S>{over});
    launch(call.stream, shape.lines, LineBody<S>{over});
  }
}

int64_t step_of(const ReducePlan& plan, DType in) {
  return in == plan.reducer.tile ? plan.inner.size : kReduceTile;
}

bool shares_runs(const ReducePlan& plan) {
  return plan.rows && !plan.empty_fold && plan.inner.size >= kSharedLine;
}

FoldShape fold_shape(const ReducePlan& plan, int64_t step) {
  return {Axes(plan.kept).product(), Axes(plan.reduced).product(), plan.inner.size, step};
}

template <typename S>
Kernel reduce_on_device(const ReducePlan& plan) {
  Kernel kernel;
  // The step depends on the input's dtype; converted inputs have the shorter one.
  if (shares_runs(plan)) {
    const FoldShape shape = fold_shape(plan, std::min(plan.inner.size, kReduceTile));
    kernel.workspace_bytes = (shape.lines + shape.ways()) * static_cast<int64_t>(sizeof(S));
  }
  kernel.run = [plan](const KernelCall& call) {
    const LaneView& in = call.inputs->front();
    const LaneView& out = call.outputs->front();
    Reduction<S> r{Axes(plan.kept),
                   Axes(plan.reduced),
                   plan.inner,
                   plan.rows,
                   plan.empty_fold,
                   Axes(plan.reduced).product(),
                   step_of(plan, in.dtype),
                   plan.numbers,
                   {nullptr, in.dtype, size_of(in.dtype)},
                   nullptr,
                   out.dtype,
                   size_of(out.dtype)};
    for (int64_t lane = 0; lane < call.lanes; ++lane) {
      r.in.base = in.at(lane);
      r.out = out.at(lane);
      if (shares_runs(plan))
        reduce_lines(call, r, fold_shape(plan, r.step));
      else
        launch(call.stream, element_count(out.shape), ReduceBody<S>{r});
    }
  };
  return kernel;
}

using ReducerTable = std::map<std::type_index, Kernel (*)(const ReducePlan&)>;

template <typename S>
void add_state(ReducerTable& table) {
  table[typeid(S)] = reduce_on_device<S>;
}

template <typename F>
void add_fold(ReducerTable& table) {
  add_state<FoldState<F, float>>(table);
  add_state<FoldState<F, double>>(table);
  add_state<FoldState<F, int64_t>>(table);
}

template <typename T>
void add_moments(ReducerTable& table) {
  add_state<MeanState<T>>(table);
  add_state<VarianceState<T, false>>(table);
  add_state<VarianceState<T, true>>(table);
  add_state<NormState<T>>(table);
  add_state<LogSumExpState<T>>(table);
}

template <typename T>
void add_best(ReducerTable& table) {
  add_state<ArgMaxState<T, false>>(table);
  add_state<ArgMaxState<T, true>>(table);
}

}  // namespace

template <>
void KernelFamilies<Target>::add_reductions(DeviceKernels& kernels) {
  ReducerTable table;
  add_fold<SumFold>(table);
  add_fold<ProductFold>(table);
  add_fold<MaxFold>(table);
  add_fold<MinFold>(table);
  add_state<FoldState<AnyFold, uint8_t>>(table);
  add_state<FoldState<AllFold, uint8_t>>(table);
  add_moments<float>(table);
  add_moments<double>(table);
  add_best<float>(table);
  add_best<double>(table);
  add_best<int64_t>(table);
  kernels.add<ReducePlan>([table](const ReducePlan& plan) {
    const auto found = table.find(*plan.reducer.type);
    return found == table.end() ? Kernel() : found->second(plan);
  });
}

}  // namespace shardproof
