// What nearly every test includes, beside what all sources do; read once (cmake/rooms.cmake).
#pragma once

#include <gtest/gtest.h>

#include "shardproof/cmake/precompiled.h"
