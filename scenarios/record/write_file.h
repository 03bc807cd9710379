// Writing of result files: reports, records and generated scenarios. A reader of the path never
// gets a half-written file.
#pragma once

#include <string>

namespace shardproof {

// Replaces the file at `path` by `text`. Writes a temporary file in the same folder and renames it;
// a symbolic link is followed to its target first. Devices such as /dev/stdout and mounted files
// cannot be renamed over, so they are written directly. Throws Error(io) with the path.
void write_whole_file(const std::string& path, const std::string& text);

// Throws the Error(io) that write_whole_file would throw for `path`, except for a full disk. Leaves
// no file behind. For calls before a long run whose result goes to `path`.
void check_writable(const std::string& path);

}  // namespace shardproof
