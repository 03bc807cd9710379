// Headers that nearly every test includes, besides those of all sources; precompiled once
// (cmake/rooms.cmake).
#pragma once

#include <gtest/gtest.h>

#include "shardproof/cmake/precompiled.h"
