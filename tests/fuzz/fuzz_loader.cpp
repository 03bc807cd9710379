// Any bytes are a scenario or an Error whose text is short; nothing else may come out of the
// loader.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/scenarios/load/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  shardproof::LoadOptions options;
  options.max_ranks = 4096;
  options.max_bytes = 1 << 24;
  options.max_cases = 16;
  // No scenario names a folder that exists, so no other file is read.
  options.folder = "/nonexistent";
  try {
    shardproof::load_text(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz.json",
                          options);
  } catch (const shardproof::Error& error) {
    if (error.message().empty()) std::abort();
  }
  return 0;
}
