// States whether a test draws few inputs.
#pragma once

namespace shardproof {

// True in the presets asan and clang (CMake's option SHARDPROOF_FEW_DRAWS). Laws draw fewer inputs
// there: sanitizers slow a program down thirty times, and ./dev test makes all draws.
#if defined(SHARDPROOF_FEW_DRAWS)
inline constexpr bool kFewDraws = true;
#else
inline constexpr bool kFewDraws = false;
#endif

}  // namespace shardproof
