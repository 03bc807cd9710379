// Headers that nearly every source of ops includes; precompiled once (cmake/rooms.cmake).
#pragma once

#include <any>

#include "shardproof/cmake/precompiled_tensors.h"
#include "shardproof/ops/core/op.h"
#include "shardproof/ops/core/op_builder.h"
