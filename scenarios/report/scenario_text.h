// A generated program as a scenario file, which reproduces it: `shardproof run` on this text at
// seed 0 checks the same job.
#pragma once

#include <string>

#include "shardproof/engine/generate/program_text.h"

namespace shardproof {

// Valid JSON with all elements written out: shortest decimals that read back as the same values,
// "inf", "-inf" and "nan" as text.
std::string scenario_text(const ProgramText& text);

}  // namespace shardproof
