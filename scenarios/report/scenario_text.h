// The scenario file of a generated program. `shardproof run` on it at seed 0 checks the same job.
#pragma once

#include <string>

#include "shardproof/engine/generate/forms/program_text.h"

namespace shardproof {

// Returns JSON with all elements: shortest decimals that read back as the same values; "inf",
// "-inf" and "nan" are texts.
std::string scenario_text(const ProgramText& text);

}  // namespace shardproof
