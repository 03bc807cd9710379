// Implements show_text.h.
#include "shardproof/cli/commands/show_text.h"

#include <fmt/format.h>

#include "shardproof/cli/commands/communication_text.h"

namespace shardproof {
namespace {

void add_lines(const std::vector<ListingLine>& lines, std::string& out) {
  for (const std::string& line : with_remarks(lines)) out.append("  ").append(line).append("\n");
}

std::string inputs_text(const SpmdProgram& program) {
  std::string out;
  for (const ValueId id : program.inputs) {
    const SpmdValue& value = program.values[static_cast<size_t>(id)];
    Lanes lanes;
    for (const LocalShape& local : value.shapes) lanes = lanes.unite(local.lanes);
    out += fmt::format("  {}  # {}{}\n", value.name, value_remark(value, lanes),
                       value.spec ? " of " + to_string(value.spec->shape()) : "");
  }
  return out;
}

}  // namespace

std::string shown_text(const Job& job, const PrintedJob& printed, const ShownParts& parts) {
  std::string out;
  const auto begin = [&](const std::string& title) {
    out += (out.empty() ? "" : "\n") + title + "\n";
  };
  if ((parts.program || parts.rank_program) && !printed.program.inputs.empty()) {
    begin("tensors, as each rank holds them");
    out += inputs_text(printed.program);
  }
  if (parts.program && job.program) {
    begin("global program");
    add_lines(printed.global, out);
  }
  if (parts.rank_program) {
    begin("rank program");
    for (const RankText& text : printed.ranks) {
      out +=
          fmt::format("  # rank{} {}\n", text.lanes.size() == 1 ? "" : "s", to_string(text.lanes));
      add_lines(text.lines, out);
    }
  }
  if (parts.communication) {
    if (!out.empty()) out += "\n";
    out += communication_text(printed.program, job.cost.get());
  }
  for (const Finding& finding : printed.unwritten)
    out += fmt::format("\n{}: {}\n", name(finding.verdict), finding.headline);
  return out;
}

}  // namespace shardproof
