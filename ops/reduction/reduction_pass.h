// One pass of a reduction over its elements. A state defines its fold once, for the host's loops
// and for a device's: `in_pass(pass, use)` calls use(target, step, term). Terms of the elements,
// term(x, index), are combined into the target by step.
#pragma once

#include <type_traits>

#include "shardproof/ops/reduction/fold_order.h"

namespace shardproof {

// Terms of a run of elements; the first element has number `first`. Run is any type with an
// operator[].
template <typename Run, typename Term>
struct Terms {
  const Run& x;
  const Term& term;
  int64_t first;
  constexpr auto operator[](int64_t i) const { return term(x[i], first + i); }
};

struct IdentityTerm {
  template <typename T>
  constexpr T operator()(T x, int64_t) const {
    return x;
  }
};

// True for steps that choose one of two values. They give the same result in every order. On a host
// it is fastest to test one element after the other, because few of them replace the value held.
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
