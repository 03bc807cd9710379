// Functors of two operands that compare, or combine truth values and bits. Maximum and minimum give
// NaN if an operand is NaN, as in torch. Templates on the compute type.
#pragma once

#include <cstdint>

#include "shardproof/ops/elementwise/tile_loops.h"

namespace shardproof::functor {

struct Maximum {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    const C larger = a < b ? b : a;  // equals a if either is NaN
    return b != b ? b : larger;
  }
};
struct Minimum {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr C apply(C a, C b) {
    const C smaller = b < a ? b : a;
    return b != b ? b : smaller;
  }
};
struct Eq {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a == b;
  }
};
struct Ne {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a != b;
  }
};
struct Lt {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a < b;
  }
};
struct Le {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a <= b;
  }
};
struct Gt {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a > b;
  }
};
struct Ge {
  static constexpr unsigned kTypes = kReals;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a >= b;
  }
};
struct LogicalAnd {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a != C{0} && b != C{0};
  }
};
struct LogicalOr {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return a != C{0} || b != C{0};
  }
};
struct LogicalXor {
  static constexpr unsigned kTypes = kAllTypes;
  template <typename C>
  static constexpr bool apply(C a, C b) {
    return (a != C{0}) != (b != C{0});
  }
};
struct BitAnd {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a & b;
  }
};
struct BitOr {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a | b;
  }
};
struct BitXor {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a ^ b;
  }
};
// The greatest common divisor, which is not negative; gcd(0, 0) is 0.
struct Gcd {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    uint64_t x = size_of_number(a), y = size_of_number(b);
    while (y != 0) {
      const uint64_t rest = x % y;
      x = y;
      y = rest;
    }
    return static_cast<C>(x);
  }
  static constexpr uint64_t size_of_number(int64_t a) {
    return a < 0 ? uint64_t{0} - static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  }
};
// Shifts by a negative number, or by all bits and more, shift every bit out, as in torch.
struct ShiftLeft {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return b < 0 || b > 63 ? C{0} : static_cast<C>(static_cast<uint64_t>(a) << b);
  }
};
struct ShiftRight {
  static constexpr unsigned kTypes = kIntegers;
  template <typename C>
  static constexpr C apply(C a, C b) {
    return a >> (b < 0 || b > 63 ? 63 : b);
  }
};

}  // namespace shardproof::functor
