// Training: the key "train" over a global program becomes lines of that program.
//
//   "train": {"loss": "loss", "params": ["w"], "optimizer": "adam(lr=0.1)", "steps": 3,
//             "fresh": ["x"], "clip": 1.0, "accumulate": 2}
//
// becomes, with the program in the place of "...":
//
//   m_w = zeros(like=w)
//   v_w = zeros(like=w)
//   for step in range(3):
//     grad_w = zeros(like=w)                       without accumulate: not written
//     for part in range(2):                        without accumulate: not written
//       if step * 2 + part > 0:
//         x = x_{step * 2 + part}                  a tensor drawn anew
//       ...
//       part_w = grad(loss, w)                     without accumulate: grad_w = grad(loss, w)
//       grad_w = grad_w + part_w                   without accumulate: not written
//     grad_norm = sqrt(sum(grad_w * grad_w))       without clip: not written
//     grad_scale = minimum(1.0 / (grad_norm + 1e-6), 1)
//     grad_w = grad_w * grad_scale
//     w, m_w, v_w = adam(w, grad_w, m_w, v_w, step=step + 1, lr=0.1)
//
// Parameters on several meshes are clipped by one norm, computed on the mesh of the first. Sums of
// squares move to this mesh, and grad_scale moves to the mesh of each parameter.
//
// The added lines are stored after those of the program, so that its lines keep their numbers.
#pragma once

#include "shardproof/scenarios/load/load_context.h"

namespace shardproof {

// Changes the program of the phase and adds the tensors that are drawn again in each step. Throws
// Error(bad_input) with the JSON path: an unknown key, name, optimizer, or a number of steps below
// 1.
void add_training(const JsonReader& train, const LoadContext& context, Phase& phase);

// True if a line that add_training added calls the optimizer.
bool calls_optimizer(const std::string& line);

}  // namespace shardproof
