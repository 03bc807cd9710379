// Pictures of meshes, shards, deadlocks and times as SVG. Each returns "" if there is nothing to
// draw or if the picture would have more than some hundred shapes.
#pragma once

#include <string>
#include <vector>

#include "shardproof/localtensor/placement/spec.h"
#include "shardproof/localtensor/plan/plan.h"
#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/localtensor/report/finding.h"
#include "shardproof/scenarios/report/svg.h"

namespace shardproof {

// One box for each rank; the last axis runs to the right.
std::string mesh_picture(const Mesh& mesh);

// The global tensor as a rectangle, cut into the parts that ranks own; each part lists its ranks.
// Draws the two dims that are cut first, or the last two. `standalone`: as a whole file.
std::string owners_picture(const std::string& title, const Spec& spec, bool standalone = false);

// The owners before a plan and after each of its steps, one below the other.
std::string plan_picture(const Plan& plan, const Spec& from);

// The wait-for graph of a deadlock or of a missing rank: an arrow from each rank to the one that it
// waits for. The arrows of cycles are red.
std::string wait_graph_picture(const Finding& finding);

// One row for each rank and stream, one bar for each call and work.
std::string timeline_picture(const std::vector<Record>& records);

}  // namespace shardproof
