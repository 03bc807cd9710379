#include "shardproof/backends/local.h"

namespace shardproof {

BackendRegistry builtin_backends() { return {local_backend()}; }

}  // namespace shardproof
