// Headers that nearly every source of cli includes; precompiled once (cmake/rooms.cmake).
#pragma once

#include <boost/program_options.hpp>

#include "shardproof/cmake/precompiled_engine.h"
