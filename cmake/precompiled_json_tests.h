// Headers that nearly every test with recorded JSON includes; precompiled once (cmake/rooms.cmake).
#pragma once

#include <nlohmann/json.hpp>

#include "shardproof/cmake/precompiled_tests.h"
