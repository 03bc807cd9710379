// Headers that nearly every source of engine, scenarios and cli includes; precompiled once
// (cmake/rooms.cmake). Sources of ops without loops over elements use it, too.
#pragma once

#include "shardproof/backends/api/execution_context.h"
#include "shardproof/cmake/precompiled_ops.h"
#include "shardproof/program/ir/global_program.h"
#include "shardproof/program/ir/spmd_program.h"
