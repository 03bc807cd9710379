// Implements load_phases of load_context.h and placed_in of scenario.h. Steps for each phase:
// meshes, lets, world, dtype, groups, tensors, listings, names, machine, expectation. Later steps
// use what earlier ones read.
#include <algorithm>

#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/program/value/names.h"
#include "shardproof/program/value/quantity.h"
#include "shardproof/scenarios/load/listing_names.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/load/scenario_keys.h"
#include "shardproof/scenarios/load/train.h"
#include "shardproof/scenarios/load/unsupported_features.h"
#include "shardproof/scenarios/model/topology.h"
#include "shardproof/sim/analysis/mismatch.h"
#include "shardproof/sim/cost/fault.h"

namespace shardproof {
namespace {

// Looks up a key in the phase, then in the file. If a phase has a program, all keys about the
// program of the file (program, ranks, truth, outputs) are ignored.
class Section {
 public:
  Section(JsonReader root, std::optional<JsonReader> phase)
      : root_(std::move(root)), phase_(std::move(phase)) {}

  std::optional<JsonReader> find(std::string_view key) const {
    if (phase_ && phase_->has(key)) return phase_->at(key);
    const bool of_program =
        key == "program" || key == "ranks" || key == "truth" || key == "outputs";
    if (phase_ && of_program && (phase_->has("program") || phase_->has("ranks")))
      return std::nullopt;
    if (root_.has(key)) return root_.at(key);
    return std::nullopt;
  }
  const JsonReader& place() const { return phase_ ? *phase_ : root_; }

 private:
  JsonReader root_;
  std::optional<JsonReader> phase_;
};

// Returns "dp=2, tp=4" for {"dp": 2, "tp": 4} or [2, 4], as init_device_mesh accepts them; else "".
std::string mesh_of_sizes(const JsonReader& reader) {
  std::string text;
  const JsonTree& tree = reader.tree();
  for (size_t i = 0; i < tree.items.size(); ++i) {
    if (tree.items[i].kind != JsonKind::integer) return "";
    text += fmt::format("{}{}={}", i == 0 ? "" : ", ",
                        tree.kind == JsonKind::object ? tree.keys[i] : fmt::format("dim{}", i),
                        tree.items[i].integer);
  }
  return text;
}

NamedMeshes read_meshes(const JsonReader& reader, int64_t max_ranks) {
  const auto parse = [&](const JsonReader& text) {
    const Mesh mesh =
        text.inside([&] { return Mesh::parse(text.text("a mesh such as \"dp=2, tp=4\"")); });
    if (mesh.size() > max_ranks)
      throw Error(
          ErrorKind::limit,
          fmt::format("{} ranks, the limit is {}; --max-ranks sets it", mesh.size(), max_ranks),
          {"", text.path(), 0, 0});
    for (const MeshAxis& axis : mesh.axes())
      if (is_reserved(axis.name))
        text.refuse(fmt::format("{} is a reserved word and cannot name an axis", axis.name));
    return mesh;
  };
  NamedMeshes meshes;
  if (reader.kind() == JsonKind::text) return {{"", parse(reader)}};
  if (reader.kind() != JsonKind::object && mesh_of_sizes(reader).empty())
    reader.expected("a mesh such as \"dp=2, tp=4\", or an object of named meshes");
  if (const std::string text = mesh_of_sizes(reader); !text.empty())
    reader.refuse(fmt::format("expected a mesh in one text, found {}; write \"mesh\": \"{}\"",
                              to_string(reader.tree()), text));
  for (const auto& [name, text] : reader.members()) {
    if (!is_name(name) || is_reserved(name))
      text.refuse(
          fmt::format("expected a name of letters, digits and _ that is not reserved, found {}",
                      quoted_json(name)));
    meshes.emplace_back(name, parse(text));
  }
  if (meshes.empty()) reader.refuse("expected at least one mesh, found none");
  return meshes;
}

int64_t read_world(const Section& section, const LoadContext& context) {
  int64_t ranks = 0;
  for (const auto& [name, mesh] : context.meshes) {
    const Lanes lanes = mesh.ranks();
    ranks = std::max<int64_t>(ranks, lanes[lanes.size() - 1] + int64_t{1});
  }
  int64_t world = ranks;
  Where where;
  if (const auto reader = section.find("world")) {
    world = read_integer(*reader, context.scope());
    where.path = reader->path();
    if (world < ranks)
      reader->refuse(
          fmt::format("the meshes use ranks up to {}, a world of {} is too small; write "
                      "{} or more",
                      ranks - 1, world, ranks));
  }
  if (world > context.options->max_ranks)
    throw Error(ErrorKind::limit,
                fmt::format("{} ranks, the limit is {}; --max-ranks sets it", world,
                            context.options->max_ranks),
                where);
  return world;
}

// Returns the name with "_" for each character that no name has: weight_0 for weight.0.
std::string legal_name(std::string name) {
  for (char& c : name)
    if (!is_name_character(c)) c = '_';
  return is_name(name) ? name : "x" + name;
}

// Refuses a name that means two things: tensors, lets, axes, groups and streams share one space of
// names.
class NameSpace {
 public:
  void add(const std::string& name, const std::string& what, const Where& where) {
    const auto refuse = [&](const std::string& message) {
      throw Error(ErrorKind::bad_input, message, where);
    };
    if (!is_name(name))
      refuse(fmt::format(
          "expected a name of letters, digits and _ that begins with no digit, found {}; write {}",
          quoted_json(name), quoted_json(legal_name(name))));
    if (is_reserved(name) && !(what == "a stream" && name == "main"))
      refuse(
          fmt::format("{0} is a reserved word and cannot name {1}; write another name, such as "
                      "{0}_1",
                      name, what));
    const auto [found, added] = taken_.emplace(name, what);
    if (!added && found->second != what)
      refuse(
          fmt::format("{} is already the name of {}; tensors, lets, axes, groups and streams need "
                      "different names",
                      name, found->second));
  }

  bool has(const std::string& name, const std::string& what) const {
    const auto found = taken_.find(name);
    return found != taken_.end() && found->second == what;
  }

 private:
  std::map<std::string, std::string> taken_;
};

void check_names(const Section& section, const LoadContext& context, const Job& job) {
  NameSpace names;
  for (const auto& [name, mesh] : context.meshes)
    for (const MeshAxis& axis : mesh.axes())
      names.add(axis.name, "an axis", {"", section.find("mesh")->path(), 0, 0});
  for (const std::string& let : context.lets->names())
    names.add(let, "a let", {"", "/let" + pointer_step(let), 0, 0});
  for (const JobInput& input : job.inputs)
    names.add(input.name, "a tensor", {"", "/tensors" + pointer_step(input.name), 0, 0});
  for (const auto& [group, ranks] : context.groups)
    names.add(group, "a group", {"", "/groups" + pointer_step(group), 0, 0});
  for (const JobListing& listing : job.ranks)
    for (const auto& [stream, place] : streams_named(listing.listing))
      names.add(stream, "a stream", {"", listing.path, place.line, place.column});
  // wait(c) would mean two things.
  for (const JobListing& listing : job.ranks)
    for (const NameTemplate& bound : names_bound(listing.listing))
      if (bound.plain() && names.has(bound.texts[0], "a stream"))
        names.add(bound.texts[0], "a value",
                  {"", listing.path, bound.place.line, bound.place.column});
}

std::vector<std::string> read_lines(const JsonReader& reader) {
  std::vector<std::string> lines;
  for (const JsonReader& item : reader.items("a list of lines such as [\"y = relu(x)\"]")) {
    const std::string& line = item.text("a line such as \"y = relu(x)\"");
    if (line.find('\n') != std::string::npos || line.find('\r') != std::string::npos)
      throw Error(ErrorKind::bad_input, "expected one line, found a line break in it",
                  {"", reader.path(), static_cast<int>(lines.size()) + 1, 0});
    lines.push_back(line);
  }
  return lines;
}

size_t indentation(const std::string& line) {
  return std::min(line.find_first_not_of(' '), line.size());
}

// Replaces a malformed line by a legal one, and blanks the lines of its block.
void replace_line(std::vector<std::string>& lines, size_t at) {
  const size_t indent = indentation(lines[at]);
  lines[at] = std::string(indent, ' ') + "barrier()";
  for (size_t i = at + 1; i < lines.size() && (lines[i].empty() || indentation(lines[i]) > indent);
       ++i)
    lines[i].clear();
}

// Parses the lines. After a malformed line it continues with the next one, and adds the errors.
Listing parse_lines(std::vector<std::string> lines, const JsonReader& reader, ErrorList& errors) {
  for (size_t tries = 0; tries < kMaxFileErrors; ++tries) {
    try {
      return parse_listing(lines);
    } catch (const Error& error) {
      errors.add(error.inside({.path = reader.path()}));
      const auto line = static_cast<size_t>(error.where().line);
      if (line < 1 || line > lines.size()) break;
      replace_line(lines, line - 1);
    }
  }
  return {};
}

Listing read_listing(const JsonReader& reader, const LoadContext& context) {
  Listing listing = parse_lines(read_lines(reader), reader, *context.errors);
  refuse_unsupported_verbs(listing, reader.path());
  context.lets->check_uses(listing);
  return listing;
}

std::vector<JobListing> read_ranks(const JsonReader& reader, const LoadContext& context) {
  std::vector<JobListing> out;
  Lanes covered;
  for (const SelectedEntry& entry : select_entries(reader, context.meshes, context.world)) {
    covered = covered.unite(entry.lanes);
    context.errors->attempt([&] {
      out.push_back({entry.lanes, read_listing(entry.reader, context), entry.reader.path()});
    });
  }
  const Lanes missing = Lanes::range(0, context.world).minus(covered);
  if (!missing.empty())
    reader.refuse(fmt::format("{} {} no listing; add one, such as \"rest\": []",
                              ranks_text(missing), missing.size() == 1 ? "has" : "have"));
  return out;
}

void read_groups(const Section& section, LoadContext& context) {
  const auto groups = section.find("groups");
  if (!groups) return;
  for (const auto& [name, reader] :
       groups->members("an object of names and ranks such as {\"even\": \"0 2\"}")) {
    const Lanes lanes = context.ranks(reader);
    std::vector<int32_t> ranks;
    for (int64_t i = 0; i < lanes.size(); ++i) ranks.push_back(lanes[i]);
    context.groups.emplace_back(name, std::move(ranks));
  }
}

DType read_default_dtype(const Section& section) {
  const auto reader = section.find("dtype");
  if (!reader) return DType::f32;
  return reader->inside([&] { return parse_dtype_name(reader->text("a dtype such as \"f32\"")); });
}

bool has_check(const std::vector<JobListing>& listings) {
  return std::any_of(listings.begin(), listings.end(), [](const JobListing& one) {
    const std::vector<NameUse> verbs = verbs_called(one.listing);
    return std::any_of(verbs.begin(), verbs.end(),
                       [](const NameUse& verb) { return verb.first == "check"; });
  });
}

// A line of a global program runs on all ranks.
void refuse_on_few_ranks(const Job& job) {
  for (const JobInput& input : job.inputs)
    if (!(input.on == input.spec.mesh().ranks()) && may_read(*job.program, input.name))
      throw Error(ErrorKind::bad_input,
                  fmt::format("a global program reads {} on all ranks of its mesh; remove \"on\", "
                              "or write the lines under \"ranks\"",
                              input.name),
                  {"", "/tensors" + pointer_step(input.name) + "/on", 0, 0});
}

void read_programs(const Section& section, const LoadContext& context, Phase& phase) {
  Job& job = phase.job;
  const auto program = section.find("program"), ranks = section.find("ranks");
  const auto truth = section.find("truth"), outputs = section.find("outputs");
  if (program && ranks) ranks->refuse("expected one of \"program\" and \"ranks\", found both");
  if (!program && !ranks)
    section.place().refuse(
        "expected \"program\" (global) or \"ranks\" (for each rank), found neither");
  if (program) {
    for (const auto& extra : {truth, outputs})
      if (extra) extra->refuse("this key is for \"ranks\"; a global program is its own truth");
    job.program = read_listing(*program, context);
    phase.program_path = program->path();
    refuse_on_few_ranks(job);
    return;
  }
  job.ranks = read_ranks(*ranks, context);
  if (truth) {
    job.truth = read_listing(*truth, context);
    phase.truth_path = truth->path();
  }
  if (truth && !outputs && !has_check(job.ranks))
    truth->refuse(
        "\"truth\" needs \"outputs\", such as {\"y\": \"dp:S(0)\"}, or a line such as "
        "check(x, 'h', dp:S(0)) in \"ranks\"");
  if (outputs) job.outputs = read_outputs(*outputs, context);
}

void read_machine(const Section& section, const LoadOptions& options, Job& job) {
  if (const auto topology = section.find("topology"))
    job.cost = topology->inside([&] {
      return parse_topology(
          topology->text(
              "\"ideal\", \"flat(latency='5 us', bandwidth='50 GB/s')\" or a .json file"),
          options.folder);
    });
  if (const auto faults = section.find("faults"))
    for (const JsonReader& reader :
         faults->items("a list of faults such as [\"hang(rank=1, call=1)\"]")) {
      const Fault fault = reader.inside(
          [&] { return parse_fault(reader.text("a fault such as \"hang(rank=1, call=1)\"")); });
      if (fault.rank >= job.world)
        reader.refuse(
            fmt::format("rank {} does not exist: the world has {} ranks; ranks count from 0",
                        fault.rank, job.world));
      job.faults.push_back(reader.text());
    }
  if (const auto flag = section.find("explicit")) job.explicit_only = flag->flag();
  if (const auto moves = section.find("moves"))
    job.moves =
        moves->inside([&] { return parse_plan_moves(moves->text("\"all\" or \"collectives\"")); });
  if (const auto limit = section.find("peak_limit"))
    job.peak_limit = limit->inside(
        [&] { return parse_quantity(limit->text("bytes such as \"16 MiB\""), Unit::bytes).whole; });
}

void read_train(const Section& section, const LoadContext& context, Phase& phase) {
  const auto train = section.find("train");
  if (!train) return;
  if (!phase.job.program)
    refuse_unsupported("\"train\" over rank programs", {"", train->path(), 0, 0});
  if (context.errors->empty()) add_training(*train, context, phase);
}

void read_expectation(const JsonReader& expect, const LoadContext& context, Phase& phase) {
  ErrorList& errors = *context.errors;
  const bool complete = errors.empty();
  errors.attempt([&] {
    phase.expect = read_expect(expect, context);
    phase.job.precision_limits = read_precision_limits(expect, context);
    if (complete && errors.empty()) check_expected_names(expect, phase.expect, phase.job);
  });
}

Phase read_phase(const Section& section, LetTable& lets, const LoadOptions& options,
                 ErrorList& errors) {
  LoadContext context;
  context.lets = &lets;
  context.options = &options;
  context.errors = &errors;
  const auto mesh = section.find("mesh");
  if (!mesh)
    section.place().refuse("key \"mesh\" is missing; write for example \"mesh\": \"dp=2, tp=4\"");
  context.meshes = read_meshes(*mesh, options.max_ranks);
  lets.evaluate_all(context.meshes);
  context.world = read_world(section, context);
  context.dtype = read_default_dtype(section);
  read_groups(section, context);

  Phase phase;
  Job& job = phase.job;
  job.world = context.world;
  job.meshes = context.meshes;
  job.groups = context.groups;
  job.dtype = context.dtype;
  job.numbers = lets.numbers();
  const auto tensors = section.find("tensors");
  if (!tensors)
    section.place().refuse(
        "key \"tensors\" is missing; write for example \"tensors\": {\"x\": {\"shape\": [4, 8]}}");
  for (ReadTensor& tensor : read_tensors(*tensors, context)) {
    job.inputs.push_back(std::move(tensor.input));
    phase.fills.push_back(std::move(tensor.fill));
  }
  // A line that uses a bad name has a message of its own, which hides this one.
  if (!errors.attempt([&] { check_names(section, context, job); })) return phase;
  errors.attempt([&] {
    read_programs(section, context, phase);
    read_train(section, context, phase);
  });
  errors.attempt([&] { read_machine(section, options, job); });
  // Names that a failed part defines would be unknown below.
  if (errors.empty()) errors.attempt([&] { check_names(section, context, job); });
  context.timed = section.find("topology").has_value();
  if (const auto expect = section.find("expect")) read_expectation(*expect, context, phase);
  job.keep = phase.expect.kept_names();
  return phase;
}

void paste_all(JsonTree& root, const LetTable& lets) {
  for (size_t i = 0; i < root.keys.size(); ++i)
    if (root.keys[i] != "let" && root.keys[i] != "about")
      lets.paste(root.items[i], pointer_step(root.keys[i]));
}

}  // namespace

namespace {

// Returns the error with a place in the file. A line that "train" adds has none of its own; an
// error of the gradient gets the place of "loss".
Error placed_in_training(const Phase& phase, const Error& error) {
  const std::string& line = phase.job.program->lines[static_cast<size_t>(error.where().line) - 1];
  const char* const key = line.find(" = grad(") != line.npos ? "/loss"
                          : calls_optimizer(line)            ? "/optimizer"
                                                             : "";
  return {error.kind(),
          fmt::format("line \"{}\" of the training step: {}",
                      line.substr(line.find_first_not_of(' ')), error.message()),
          Where{"", phase.train_path + key, 0, 0}};
}

}  // namespace

Error placed_in(const Phase& phase, const Error& error) {
  Where where = error.where();
  if (where.path == "/program" && is_of_training(phase, where.line))
    return placed_in_training(phase, error);
  if (where.path == "/program") where.path = phase.program_path;
  if (where.path == "/truth") where.path = phase.truth_path;
  return {error.kind(), error.message(), where};
}

std::vector<Phase> load_phases(const JsonTree& tree, const LoadOptions& options,
                               ErrorList& errors) {
  JsonTree root = tree;
  JsonReader reader(root, "");
  errors.add_all(reader.unknown_keys(root_keys()));
  refuse_unsupported_keys(reader);
  if (reader.has("about")) reader.at("about").text();
  LetTable lets;
  if (reader.has("let")) lets = LetTable(reader.at("let"));
  paste_all(root, lets);

  std::vector<Phase> phases;
  if (!reader.has("phases")) {
    phases.push_back(read_phase(Section(reader, std::nullopt), lets, options, errors));
    return phases;
  }
  for (const JsonReader& phase : reader.at("phases").items("a list of phases, which are objects")) {
    errors.attempt([&, &phase = phase] {
      errors.add_all(phase.unknown_keys(phase_keys()));
      refuse_unsupported_keys(phase);
      phases.push_back(read_phase(Section(reader, phase), lets, options, errors));
    });
  }
  if (phases.empty() && errors.empty())
    reader.at("phases").refuse("expected a list with at least one phase, found an empty one");
  return phases;
}

}  // namespace shardproof
