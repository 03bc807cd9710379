// Reductions: a thread folds the elements of one result in the order of the host's engine
// (reduce.h), so that the bits are the same.
#include <type_traits>

#include "shardproof/ops/best_state.h"
#include "shardproof/ops/cuda/elements.h"
#include "shardproof/ops/cuda/kernel_families.h"
#include "shardproof/ops/moment_states.h"
#include "shardproof/ops/reduce.h"
#include "shardproof/ops/reducers.h"

namespace shardproof {
namespace {

constexpr int kMostAxes = Dims::kCapacity;

// A run of elements read as the compute type.
template <typename C>
struct Reader {
  const std::byte* base;
  DType dtype;
  int64_t bytes;
  constexpr C operator[](int64_t i) const {
    if constexpr (!std::is_same_v<C, uint8_t>) return load_as<C>(base + i * bytes, dtype);
    C truth = 0;  // whatever the dtype
    with_compute(dtype, [&](auto compute) {
      truth = load_as<decltype(compute)>(base + i * bytes, dtype) != 0 ? 1 : 0;
    });
    return truth;
  }
};

struct Axes {
  int count = 0;
  ReduceAxis axes[kMostAxes];

  explicit Axes(const std::vector<ReduceAxis>& given) : count(static_cast<int>(given.size())) {
    for (int i = 0; i < count; ++i) axes[i] = given[static_cast<size_t>(i)];
  }
  // Not inline: divisions of 64 bits are much code, and every kernel has this twice.
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

template <typename S>
struct ReduceBody {
  using C = typename S::Element;
  Axes kept, reduced;
  ReduceAxis inner;
  bool rows, empty_fold;
  int64_t folds, step;  // runs of a result, and what is read at once of a run
  ReduceNumbers numbers;
  Reader<C> in;
  std::byte* out;
  DType out_dtype;
  int64_t out_bytes;

  constexpr Reader<C> at(int64_t offset) const {
    return {in.base + offset * in.bytes, in.dtype, in.bytes};
  }
  constexpr void operator()(int64_t index) const {
    const int64_t base =
        rows ? kept.offset(index) : kept.offset(index / inner.size) + index % inner.size;
    S state = S::start(numbers);
    for (int pass = 0; pass < S::kPasses; ++pass) {
      for (int64_t r = 0; r < folds && !empty_fold; ++r) fold(state, base, r, pass);
      if (S::kPasses > 1) state.between(pass, numbers);
    }
    store_as(out + index * out_bytes, out_dtype, state.finish(numbers));
  }
  constexpr void fold(S& state, int64_t base, int64_t r, int pass) const {
    const int64_t start = base + reduced.offset(r);
    if (!rows) return state.fold(at(start)[0], r, pass);
    for (int64_t k = 0; k < inner.size; k += step) {
      const int64_t count = inner.size - k < step ? inner.size - k : step;
      S::row(state, at(start + k), count, r * inner.size + k, pass);
    }
  }
};

template <typename S>
Kernel reduce_on_device(const ReducePlan& plan) {
  Kernel kernel;
  kernel.run = [plan](const KernelCall& call) {
    const LaneView& in = call.inputs->front();
    const LaneView& out = call.outputs->front();
    ReduceBody<S> body{Axes(plan.kept),
                       Axes(plan.reduced),
                       plan.inner,
                       plan.rows,
                       plan.empty_fold,
                       0,
                       in.dtype == plan.reducer.tile ? plan.inner.size : kReduceTile,
                       plan.numbers,
                       {nullptr, in.dtype, size_of(in.dtype)},
                       nullptr,
                       out.dtype,
                       size_of(out.dtype)};
    body.folds = body.reduced.product();
    for (int64_t lane = 0; lane < call.lanes; ++lane) {
      body.in.base = in.at(lane);
      body.out = out.at(lane);
      launch(call.stream, element_count(out.shape), body);
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
  add_state<SpreadState<T, false>>(table);
  add_state<SpreadState<T, true>>(table);
  add_state<NormState<T>>(table);
  add_state<LogSumExpState<T>>(table);
}

template <typename T>
void add_best(ReducerTable& table) {
  add_state<BestState<T, false>>(table);
  add_state<BestState<T, true>>(table);
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
