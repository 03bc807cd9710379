// shardproof explain: prints the placements of inputs and results under which an op runs without
// communication, and the cost of all others. It partitions one line on a small mesh of one axis for
// every choice of placements of its tensors.
#include <algorithm>
#include <optional>
#include <set>

#include "shardproof/cli/commands/command.h"
#include "shardproof/cli/commands/op_text.h"
#include "shardproof/cli/commands/plan_text.h"
#include "shardproof/cli/options/parse_options.h"
#include "shardproof/engine/check_ops/op_instance.h"
#include "shardproof/engine/lower/global_lowering.h"
#include "shardproof/engine/partition/partition.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/base/join_text.h"
#include "shardproof/localtensor/collective/collective.h"
#include "shardproof/program/syntax/torch_names.h"

namespace shardproof {
namespace {

namespace po = boost::program_options;

// Sizes of the samples are multiplied by it, so that the ranks of a small axis get equal shards.
constexpr int64_t kLarger = 8;
constexpr size_t kMostRows = 400;

po::options_description explain_options() {
  po::options_description options;
  options.add_options()                      //
      ("op", po::value<CommandArguments>())  //
      ("mesh", po::value<std::string>()->default_value("tp=4"));
  return options;
}

// One line that calls the op, with the tensors that it reads.
struct ExampleLine {
  std::string text;
  Listing listing;
  std::vector<std::pair<std::string, TensorMeta>> tensors;
  std::vector<std::string> results;
};

std::string number_of(const Tensor& value, DType dtype) {
  const double number = values_of(value).at(0);
  if (dtype == DType::boolean) return number != 0 ? "True" : "False";
  return is_floating(dtype) ? to_string(Number(number))
                            : to_string(Number(static_cast<int64_t>(number)));
}

std::string result_name(size_t i, size_t count) { return count == 1 ? "y" : fmt::format("y{}", i); }

ExampleLine line_of(const OpInstance& instance, size_t results) {
  ExampleLine line;
  std::vector<std::string> names;
  for (size_t i = 0; i < instance.inputs.size(); ++i) {
    const TensorMeta& meta = instance.inputs[i];
    if (meta.absent) {
      names.emplace_back();
    } else if (meta.weak) {
      names.push_back(number_of(instance.tensors[i], meta.dtype));
    } else {
      names.push_back(std::string(1, static_cast<char>('a' + line.tensors.size())));
      line.tensors.emplace_back(names.back(), meta);
    }
  }
  for (size_t i = 0; i < results; ++i) line.results.push_back(result_name(i, results));
  line.text = fmt::format("{} = {}", join_text(line.results, ", "), call_text(instance, names));
  line.listing = parse_listing({line.text});
  return line;
}

// One row of the tables: placements of the inputs and of the results, and the calls that a rank
// makes.
struct Row {
  std::vector<Placement> given;
  std::string made;
  std::vector<std::string> calls;
  Fraction bytes;
};

class OpExplanation {
 public:
  OpExplanation(const OpRecord& op, const Mesh& mesh, const OpRegistry& ops)
      : op_(op), mesh_(mesh), ops_(ops), example_(find_example()) {}

  std::string text() const {
    std::string out = fmt::format("{}\n  {}\n", signature(op_), op_.summary);
    if (!example_)
      return out + "\nThe op has no example of tensors, so no placements are listed.\n";
    out += fmt::format("\nexample on {}\n  {}\n", to_string(mesh_), example_->text);
    for (const auto& [name, meta] : example_->tensors)
      out +=
          fmt::format("  {} is {}{}\n", name, shardproof::name(meta.dtype), to_string(meta.shape));
    std::set<std::string> used;
    const std::vector<Row> rows = rows_of(used);
    if (used.size() > 1 || (used.size() == 1 && *used.begin() != op_.name))
      out += fmt::format("\ncomputed with\n  {}\n", join_text(used, ", "));
    out += table("placements that need no communication", rows, false);
    out += table("placements that need communication", rows, true);
    return out +
           "\nR is Replicate(), S(d) is Shard(d), P(op) is Partial(op) of PyTorch's DTensor.\n";
  }

 private:
  std::optional<ExampleLine> find_example() const {
    for (const Sample& sample : op_.samples())
      for (const int64_t factor : {kLarger, int64_t{1}})
        for (const size_t results : {1, 2, 3}) {
          OpInstance instance = instance_of(op_, sample, 1);
          bool shaped = false;
          for (TensorMeta& meta : instance.inputs)
            for (int64_t& size : meta.shape)
              if (size > 1) {
                size *= factor;
                shaped = true;
              }
          if (!shaped) continue;
          try {
            ExampleLine line = line_of(instance, results);
            partitioned(line, std::vector<Placement>(line.tensors.size(), R()));
            return line;
          } catch (const Error&) {
            continue;  // attributes that do not fit larger sizes, or another number of results
          }
        }
    return std::nullopt;
  }

  Job job_of(const ExampleLine& line, const std::vector<Placement>& given) const {
    Job job;
    job.world = mesh_.size();
    job.meshes = {{"", mesh_}};
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& [name, meta] = line.tensors[i];
      job.inputs.push_back(
          {name, Spec(mesh_, {given[i]}, meta.shape, meta.dtype), mesh_.ranks(), {}});
    }
    return job;
  }

  Partitioned partitioned(const ExampleLine& line, const std::vector<Placement>& given,
                          std::map<std::string, ValueId>* names = nullptr) const {
    const Job job = job_of(line, given);
    const GlobalProgram program = lower_global(line.listing, context_of(job, ops_), "/program");
    if (names) *names = program.names;
    return partition(program, job, ops_);
  }

  // Returns the row of some placements; nullopt if no plan leads from them.
  std::optional<Row> row_of(const std::vector<Placement>& given,
                            std::set<std::string>& used) const {
    Row row{given, "", {}, Fraction(0)};
    std::map<std::string, ValueId> names;
    std::optional<Partitioned> made;
    try {
      made = partitioned(*example_, given, &names);
    } catch (const Error&) {
      return std::nullopt;
    }
    for (const std::string& name : example_->results) {
      const ValueId id = made->placed[static_cast<size_t>(names.at(name))];
      const std::optional<Spec>& spec = made->program.values[static_cast<size_t>(id)].spec;
      row.made += (row.made.empty() ? "" : ", ") + (spec ? to_string(spec->placement(0)) : "R");
    }
    for (const Instr& instr : made->program.listings.at(0).instrs) {
      if (const auto* compute = std::get_if<Compute>(&instr.action)) used.insert(compute->op);
      const auto* calls = std::get_if<Communicate>(&instr.action);
      if (!calls) continue;
      for (const CallItem& item : calls->items) add_call(*made, item, row);
    }
    return row;
  }

  static void add_call(const Partitioned& made, const CallItem& item, Row& row) {
    const SpmdValue& value = made.program.values[static_cast<size_t>(item.input)];
    row.calls.push_back(fmt::format("{} of {}", name(item.collective.kind),
                                    value.bound.empty() ? "a value inside" : value.bound));
    if (item.step) row.bytes = row.bytes + average_of(bytes_sent(*item.step));
  }

  std::vector<Placement> placements_of(const TensorMeta& meta) const {
    std::vector<Placement> all{R()};
    for (int d = 0; d < meta.shape.size(); ++d) all.push_back(S(d));
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min}) try {
        all.push_back(Spec(mesh_, {P(op)}, meta.shape, meta.dtype).placement(0));
      } catch (const Error&) {
        continue;  // the dtype has no such reduction
      }
    return all;
  }

  std::vector<Row> rows_of(std::set<std::string>& used) const {
    std::vector<std::vector<Placement>> choices;
    size_t count = 1;
    for (const auto& [name, meta] : example_->tensors) {
      choices.push_back(placements_of(meta));
      count = std::min(count * choices.back().size(), kMostRows);
    }
    std::vector<Row> rows;
    std::vector<size_t> at(choices.size(), 0);
    for (size_t done = 0; done < count; ++done) {
      std::vector<Placement> given;
      for (size_t i = 0; i < at.size(); ++i) given.push_back(choices[i][at[i]]);
      if (std::optional<Row> row = row_of(given, used)) rows.push_back(std::move(*row));
      for (size_t i = at.size(); i-- > 0;) {
        if (++at[i] < choices[i].size()) break;
        at[i] = 0;
      }
    }
    return rows;
  }

  // True for rows that the table of communication prints: one tensor is placed and all others are
  // whole, or all tensors have the same placement.
  static bool is_plain(const Row& row) {
    const auto placed = std::count_if(row.given.begin(), row.given.end(),
                                      [](const Placement& p) { return !p.is_replicate(); });
    return placed <= 1 || std::all_of(row.given.begin(), row.given.end(),
                                      [&](const Placement& p) { return p == row.given.front(); });
  }

  std::string table(const char* title, const std::vector<Row>& rows, bool communicates) const {
    std::string lines;
    for (const Row& row : rows) {
      if (row.calls.empty() == communicates || (communicates && !is_plain(row))) continue;
      lines += "  ";
      for (const Placement& placement : row.given)
        lines += fmt::format("{:<8}", to_string(placement));
      lines += fmt::format("-> {:<8}", row.made);
      if (communicates)
        lines +=
            fmt::format(" {}; a rank sends {}", join_text(row.calls, ", "), bytes_text(row.bytes));
      while (lines.back() == ' ') lines.pop_back();
      lines += '\n';
    }
    if (lines.empty()) return "";
    std::string head = "  ";
    for (const auto& [name, meta] : example_->tensors) head += fmt::format("{:<8}", name);
    return fmt::format("\n{}\n{}   {}\n{}", title, head, join_text(example_->results, ", "), lines);
  }

  const OpRecord& op_;
  const Mesh& mesh_;
  const OpRegistry& ops_;
  std::optional<ExampleLine> example_;
};

const OpRecord& op_named(const std::string& word, const OpRegistry& ops) {
  if (const OpRecord* op = ops.find(word)) return *op;
  if (const OpRecord* op = ops.find_infix(word)) return *op;
  if (parse_collective_kind(word) || word == "redistribute" || word == "grad")
    throw_bad_input("{} is a verb, not an op; shardproof help language describes it", word);
  const std::string torch = other_name_hint(word);
  if (!torch.empty()) throw_bad_input("unknown op '{}'{}", word, torch);
  const std::string last = word.substr(word.rfind('.') + 1);
  if (last != word && ops.find(last) != nullptr)
    throw_bad_input("unknown op '{}'; ops have no prefix: write {}", word, last);
  if (word.find_first_of("./") != std::string::npos)
    throw_bad_input("unknown op '{}'; shardproof list ops prints all", word);
  return ops.at(word);
}

}  // namespace

int explain_command(const CommandArguments& words, const Registries& registries) {
  const po::variables_map given = parse_words(words, explain_options(), "op");
  const CommandArguments names =
      given.count("op") ? given["op"].as<CommandArguments>() : CommandArguments{};
  if (names.size() != 1)
    throw_bad_input("explain: expected one op, found {}; shardproof list ops prints all",
                    names.size());
  const std::string text = given["mesh"].as<std::string>();
  Mesh mesh;
  try {
    mesh = Mesh::parse(text);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("--mesh: {}", error.message()));
  }
  if (mesh.axis_count() != 1 || mesh.size() > 1024)
    throw_bad_input("--mesh: expected one axis of up to 1024 ranks such as tp=4, found \"{}\"",
                    text);
  const OpRecord& op = op_named(names[0], registries.ops);
  print_out(OpExplanation(op, mesh, registries.ops).text());
  return 0;
}

std::string explain_help() {
  return R"text(shardproof explain OP [--mesh tp=4]

Prints, for a small example on one mesh axis, the placements of inputs and results under which an
op needs no communication, and the calls and bytes of all other placements. Rows with communication
show one tensor that is not R, or the same placement for all tensors.

  --mesh AXIS=SIZE   the axis (default tp=4)
)text";
}

}  // namespace shardproof
