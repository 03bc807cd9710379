#include "shardproof/engine/generate/random_ranks.h"
namespace shardproof {
void draw_rank_program(RandomProgram& program, int64_t, const OpRegistry&) {
  program.text.mesh = "tp=2";
}
}  // namespace shardproof
