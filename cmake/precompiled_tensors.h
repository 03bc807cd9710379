// Headers that nearly every source above localtensor includes; precompiled once
// (cmake/rooms.cmake).
#pragma once

#include "shardproof/cmake/precompiled.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/localtensor/tensor/local_tensor.h"
