// Implements random_program.h: draws kind, dtype and conditioning, then attempts to draw a program
// until one is accepted.
#include "shardproof/engine/generate/random_program.h"

#include "shardproof/engine/generate/random_global.h"
#include "shardproof/engine/generate/random_ranks.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr int kProgramAttempts = 100;

DType draw_dtype(Draw& draw) {
  return draw.from({DType::f64, DType::f32, DType::f32, DType::bf16, DType::f16});
}

Conditioning draw_conditioning(Draw& draw) {
  const double share = draw.uniform();
  if (share < 0.05) return Conditioning::whole_numbers;
  return share < 0.55   ? Conditioning::well
         : share < 0.85 ? Conditioning::ill
                        : Conditioning::extreme;
}

}  // namespace

std::string_view name(ProgramKind kind) { return kind == ProgramKind::global ? "global" : "ranks"; }

RandomProgram random_program(uint64_t seed, const ProgramOptions& options, const OpRegistry& ops) {
  Draw draw(seed, "program");
  // All options are drawn, even if they are given, so that one option does not change another.
  const ProgramKind kind = draw.chance(0.5) ? ProgramKind::global : ProgramKind::ranks;
  const DType dtype = draw_dtype(draw);
  const Conditioning conditioning = draw_conditioning(draw);
  RandomProgram program;
  program.seed = seed;
  program.kind = options.kind.value_or(kind);
  program.conditioning = options.conditioning.value_or(conditioning);
  program.has_gradients = options.has_gradients && program.kind == ProgramKind::ranks;
  program.text.dtype = options.dtype.value_or(dtype);
  // Whole numbers of narrower floats are not exact.
  if (program.conditioning == Conditioning::whole_numbers && !options.dtype)
    program.text.dtype = dtype == DType::f64 ? DType::f64 : DType::f32;
  const auto draw_program =
      program.kind == ProgramKind::ranks ? draw_rank_program : draw_global_program;
  int attempt = 0;
  while (!draw_program(program, options.max_lines, attempt, ops))
    SP_CHECK(++attempt < kProgramAttempts, "seed {} gives no honest program", seed);
  program.text.about = fmt::format("Generated: {} program{}, {}, {}, seed {}.", name(program.kind),
                                   program.has_gradients ? " with gradients" : "",
                                   name(program.text.dtype), name(program.conditioning), seed);
  return program;
}

}  // namespace shardproof
