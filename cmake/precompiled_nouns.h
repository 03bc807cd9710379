// What nearly every source above localtensor includes; read once (cmake/rooms.cmake).
#pragma once

#include "shardproof/cmake/precompiled.h"
#include "shardproof/localtensor/collective.h"
#include "shardproof/localtensor/error.h"
#include "shardproof/localtensor/local_tensor.h"
#include "shardproof/localtensor/record.h"
#include "shardproof/localtensor/spec.h"
