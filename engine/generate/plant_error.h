// Plants one error of a given size on one compared line of a generated program.
//
// Global programs: the line `y = expression as placements` becomes
//   y = (expression) + planted_d * sum(planted_e) as placements
// where planted_e holds n ones, one for each rank of an axis. If planted_e is replicated, each rank
// adds n * d, as one device does. If the axis cuts it, each rank adds d. If y is P(sum) over the
// axis, the cut is right and the replicated one wrong. So one placement decides if the line is
// right, and the clean twin is the same program with the other placement. Rank programs: the ranks
// add planted_d to an output; the truth and the twin do not.
//
// Example: tp=4, y is tp:R, its largest element is 2 and the size 1e-3. The error is (n - 1) * d
// with n = 4, so d is 1e-3 * 2 / 3. With planted_e as tp:R each rank adds 4 * d, which is right. As
// tp:S(0) each adds d, which is off by 3 * d = 2e-3.
//
// The size is a share of the line's largest element and is measured. The line runs on one device;
// planted_d is scaled by its largest element and rounded up in the program's dtype. The returned
// size is computed from the rounded planted_d and the twin's largest element. No error is
// planted on these lines:
// - lines that are not finite or only zeros;
// - lines on which one device loses 4 times the error or more to rounding; in f64, lines where the
//   error is within 64 roundings of the line, because no wider dtype resolves them;
// - in f32 and f64, lines where the ranks still hold the bits of one device (12 ranks that each add
//   less than half a unit).
#pragma once

#include <optional>

#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/job/registries.h"

namespace shardproof {

// The elements that are wrong.
enum class ErrorPattern : uint8_t {
  uniform,       // all, by the same amount
  one_element,   // one
  proportional,  // each in proportion to its value
  random_signs,  // all, up or down
};
std::string_view name(ErrorPattern pattern);

struct PlantedError {
  int line = 0;  // in the global program, or in the listing of the ranks
  std::string name;
  double size = 0;  // largest error of an element, divided by the line's largest element
  double loss = 0;  // loss of one device on this line, divided by the same
  ErrorPattern pattern = ErrorPattern::uniform;
};

struct PlantedProgram {
  ProgramText text, twin;
  PlantedError error;
};

// Returns the program with one error; nullopt if no line suits. The line and the pattern are drawn
// from the program's seed.
std::optional<PlantedProgram> plant_error(const RandomProgram& program, double size,
                                          const Registries& registries);

}  // namespace shardproof
