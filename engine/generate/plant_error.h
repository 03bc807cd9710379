// Plants one error of a given size on one compared line of a generated program.
//
// Global programs: the line `y = expression as placements` becomes
//   y = (expression) + planted_d * sum(planted_e) as placements
// where planted_e is a row of ones, one for each of the n ranks of an axis. If planted_e lies
// replicated, each rank adds what one device adds: n * d; if the axis cuts it, each rank adds d. On
// a P(sum) over the axis it is the other way round. So one placement decides whether the line is
// right, and the clean twin is the same program with the other one.
// Rank programs: the ranks add planted_d to an output, the truth does not; the twin does not
// either.
//
// The size is a share of the line's largest element. It is made exact by measuring: the line runs
// on one device first, planted_d is scaled by its largest element and rounded up in the program's
// dtype, and the size that is returned is computed from the rounded planted_d and the twin's
// largest element. Lines that are not finite or only zeros get no error, nor do lines where one
// device, in the program's dtypes and from the same inputs, loses 4 times the error or more, nor,
// in f32 and f64, lines where the ranks hold the bits of one device all the same (12 ranks that
// each add less than half a unit).
#pragma once

#include <optional>

#include "shardproof/engine/generate/random_program.h"
#include "shardproof/engine/job/registries.h"

namespace shardproof {

// Which elements are wrong.
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
  double size = 0;  // of the largest wrong element, over the line's largest element
  double loss = 0;  // of one device on this line, over the same
  ErrorPattern pattern = ErrorPattern::uniform;
};

struct PlantedProgram {
  ProgramText text, twin;
  PlantedError error;
};

// A site and a pattern are drawn from the program's seed. Nothing if no line suits.
std::optional<PlantedProgram> plant_error(const RandomProgram& program, double size,
                                          const Registries& registries);

}  // namespace shardproof
