// Uses an installed shardproof: parses a mesh and prints it.
#include <cstdio>

#include "shardproof/localtensor/mesh/mesh.h"

int main() {
  shardproof::Mesh mesh = shardproof::Mesh::parse("dp=2, tp=4");
  bool right = mesh.size() == 8 && shardproof::to_string(mesh) == "dp=2, tp=4";
  std::printf("%s: %s\n", shardproof::to_string(mesh).c_str(), right ? "right" : "wrong");
  return right ? 0 : 1;
}
