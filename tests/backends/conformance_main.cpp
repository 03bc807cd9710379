// The conformance suite as a test program: instantiates it for the backends of the linked source.
#include "shardproof/tests/backends/conformance.h"

namespace shardproof {

INSTANTIATE_TEST_SUITE_P(Backend, Conformance, testing::ValuesIn(conformance_backends()),
                         [](const auto& backend) { return backend.param.name; });

}  // namespace shardproof
