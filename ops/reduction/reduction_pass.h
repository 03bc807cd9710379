// A pass of a reduction over its elements. What it folds, a state says once, for the host's loops
// and for a device's: `in_pass(pass, use)` calls use(target, step, term), and terms of the
// elements, term(x, index), are combined into the target by step.
#pragma once

#include <type_traits>

#include "shardproof/ops/reduction/fold_order.h"

namespace shardproof {

// Terms of a run of elements, of which the first has number `first`. A run is whatever has an
// operator[].
template <typename Run, typename Term>
struct Terms {
  const Run& x;
  const Term& term;
  int64_t first;
  constexpr auto operator[](int64_t i) const { return term(x[i], first + i); }
};

struct Itself {
  template <typename T>
  constexpr T operator()(T x, int64_t) const {
    return x;
  }
};

// Steps that choose one of two come to the same in every order. On a host it is fastest to look at
// one after the other, since few of them beat what is held.
template <typename Step>
inline constexpr bool kChooses = requires {
  Step::kChooses;
};

template <typename S>
constexpr void fold_element(S& s, typename S::Element x, int64_t index, int pass) {
  s.in_pass(pass, [&](auto& target, auto step, const auto& term) {
    if constexpr (!kChooses<decltype(step)>)
      target = step.apply(target, term(x, index));
    else if (const auto found = term(x, index); step.beats(found, target))
      target = found;
  });
}

template <typename S, typename Run>
constexpr void fold_row(S& s, const Run& x, int64_t count, int64_t first, int pass) {
  s.in_pass(pass, [&](auto& target, auto step, const auto& term) {
    const auto none = step.template identity<std::decay_t<decltype(target)>>();
    const Terms<Run, std::decay_t<decltype(term)>> terms{x, term, first};
    if constexpr (kChooses<decltype(step)>)
      for (int64_t i = 0; i < count; ++i) fold_element(s, x[i], first + i, pass);
    else
      target = step.apply(target, fold_run(none, terms, count, step));
  });
}

}  // namespace shardproof
