// Measures whole processes `shardproof show file.json`: partition stores the choices that it has
// made, so a line that equals an earlier one costs little. The baseline has each line once.
//
//   decoder  8 layers of a decoder on 4 axes; 1 layer
//   lines    1,000 redistributions, of which 64 differ; 64
#include <fstream>

#include "shardproof/bench/measure.h"

namespace {

using namespace shardproof;
using namespace shardproof::bench;

std::string write_scenario(const std::string& name, const std::string& mesh,
                           const std::vector<std::string>& tensors,
                           const std::vector<std::string>& lines) {
  const std::string path = fmt::format("{}/show_{}.json", SHARDPROOF_BENCH_FOLDER, name);
  std::ofstream out(path);
  out << R"({"version": 1, "mesh": ")" << mesh << R"(", "tensors": {)";
  for (size_t i = 0; i < tensors.size(); ++i) out << (i == 0 ? "\n  " : ",\n  ") << tensors[i];
  out << "},\n \"program\": [";
  for (size_t i = 0; i < lines.size(); ++i)
    out << (i == 0 ? "\n  \"" : ",\n  \"") << lines[i] << "\"";
  out << "]}\n";
  return path;
}

std::string tensor(const std::string& name, const std::string& shape, const std::string& placed) {
  return fmt::format(R"("{}": {{"shape": {}, "placements": "{}"}})", name, shape, placed);
}

// Attention of 4 heads and an MLP, with column- and row-parallel weights over tp that fs cuts too.
std::string write_decoder(int layers) {
  std::vector<std::string> tensors = {tensor("h0", "[8, 16, 64]", "dp:S(0)")}, lines;
  for (int i = 0; i < layers; ++i) {
    const auto weight = [&](const char* name, const char* shape, const char* placed) {
      tensors.push_back(tensor(fmt::format("{}{}", name, i), shape, placed));
    };
    for (const char* name : {"wq", "wk", "wv"}) weight(name, "[64, 64]", "tp:S(1) fs:S(0)");
    weight("wo", "[64, 64]", "tp:S(0) fs:S(1)");
    weight("wu", "[64, 256]", "tp:S(1) fs:S(0)");
    weight("wd", "[256, 64]", "tp:S(0) fs:S(1)");
    weight("g", "[64]", "R");
    lines.push_back(fmt::format("a{0} = rms_norm(h{0}, [64], g{0})", i));
    for (const char* name : {"q", "k", "v"})
      lines.push_back(fmt::format(
          "{1}{0} = transpose(reshape(a{0} @ w{1}{0}, [8, 16, 4, 16]), 1, 2)", i, name));
    lines.push_back(fmt::format("s{0} = sdpa(q{0}, k{0}, v{0}, causal=true)", i));
    lines.push_back(
        fmt::format("r{0} = h{0} + reshape(transpose(s{0}, 1, 2), [8, 16, 64]) @ wo{0}", i));
    lines.push_back(fmt::format("h{1} = r{0} + gelu(r{0} @ wu{0}) @ wd{0}", i, i + 1));
  }
  return write_scenario(fmt::format("decoder_{}", layers), "dp=2, fs=2, cp=2, tp=2", tensors,
                        lines);
}

// Redistributes a tensor from each of its 64 placements by R and S to the next one, in a cycle.
std::string write_lines(int count) {
  std::vector<std::string> placements = {""};
  for (const char* axis : {"a", "b", "c"}) {
    std::vector<std::string> more;
    for (const std::string& before : placements)
      for (const char* placed : {"R", "S(0)", "S(1)", "S(2)"})
        more.push_back(fmt::format("{}{}{}:{}", before, before.empty() ? "" : " ", axis, placed));
    placements = std::move(more);
  }
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i)
    lines.push_back(fmt::format("x{} = redistribute(x{}, {})", i + 1, i,
                                placements[static_cast<size_t>(i + 1) % placements.size()]));
  return write_scenario(fmt::format("lines_{}", count), "a=2, b=2, c=2",
                        {tensor("x0", "[64, 64, 64]", placements[0])}, lines);
}

void print_show(const std::string& what, const std::string& file, const std::string& fewer,
                const std::string& other, double target) {
  const auto show = [](const std::string& path) { run_child({SHARDPROOF_TOOL, "show", path}); };
  const std::vector<double> s =
      race({{[&] { show(other); }, 1, RUSAGE_CHILDREN}, {[&] { show(file); }, 1, RUSAGE_CHILDREN}});
  print({fmt::format("show of {}, whole process", what), milliseconds(s[1]),
         fmt::format("{}: {}", fewer, milliseconds(s[0])), fmt::format("{:.1f}", s[1] / s[0]),
         milliseconds(target)});
}

}  // namespace

int main() {
  print_head();
  print_show("a decoder of 8 layers on 4 axes", write_decoder(8), "1 layer", write_decoder(1),
             0.15);
  print_show("1,000 redistributions, 64 of them distinct", write_lines(1000), "64 of them",
             write_lines(64), 0.05);
}
