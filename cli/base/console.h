// Arguments, standard output and standard error of a command: what every part of the tool reads
// from and writes to the terminal.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {

// Arguments after the name of a command: {"my.json", "--seed", "3"} of `shardproof run my.json
// --seed 3`.
using CommandArguments = std::vector<std::string>;

// Writes to standard output and flushes it. Throws Error(io) if that fails.
void print_out(std::string_view text);

// Writes an error to standard error: at most six lines of 400 characters. Begins with "shardproof:
// " if the error names no file.
void print_error(const Error& error);

// Returns what `run` returns. Prints an Error or std::bad_alloc that it throws, and returns 2.
int run_and_report_errors(const std::function<int()>& run);

// True if standard output is a terminal of a person. False below mpirun and srun, which give each
// process a terminal and pass on its output. The first call decides for the whole process.
bool stdout_is_terminal();
// True if standard output is a terminal that shows colors and redraws lines: TERM is not "dumb".
bool stdout_redraws();
// True if colors are wanted, too: NO_COLOR is not set, or empty (https://no-color.org).
bool stdout_has_colors();

}  // namespace shardproof
