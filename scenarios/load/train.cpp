// Implements train.h: reads the key, writes the lines as text, parses them after the program, and
// puts their statements into the loops.
#include "shardproof/scenarios/load/train.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "shardproof/program/syntax/evaluate.h"
#include "shardproof/scenarios/load/listing_names.h"
#include "shardproof/scenarios/load/scenario_keys.h"

namespace shardproof {
namespace {

// The op of an optimizer and the names of its states.
struct OptimizerForm {
  const char* op;
  std::vector<const char*> states;
  bool counts_steps = false;
};

const std::vector<OptimizerForm>& optimizer_forms() {
  static const std::vector<OptimizerForm> forms = {{"sgd", {}},
                                                   {"sgd_momentum", {"buffer"}},
                                                   {"adam", {"m", "v"}, true},
                                                   {"adamw", {"m", "v"}, true}};
  return forms;
}

struct Training {
  std::string loss;
  std::vector<std::string> params, fresh;
  const OptimizerForm* optimizer = nullptr;
  std::string arguments;      // ", lr=0.1"
  bool counts_steps = false;  // the optimizer takes the number of the step
  int64_t steps = 1, accumulate = 0;
  std::string clip;
  std::map<std::string, std::string> mesh_of;  // by parameter: the key of its mesh
};

std::vector<std::string> read_names(const JsonReader& reader, const Job& job) {
  std::vector<std::string> names;
  for (const JsonReader& item : reader.items("a list of tensors such as [\"w\"]")) {
    names.push_back(item.text());
    NearestName nearest(names.back());
    for (const JobInput& input : job.inputs) nearest.offer(input.name);
    if (std::none_of(job.inputs.begin(), job.inputs.end(),
                     [&](const JobInput& input) { return input.name == names.back(); }))
      item.refuse(fmt::format("{} is not a tensor of \"tensors\"{}", names.back(), nearest.hint()));
    if (std::count(names.begin(), names.end(), names.back()) > 1)
      item.refuse(fmt::format("{} is named twice", names.back()));
  }
  return names;
}

int64_t read_count(const JsonReader& reader, const LoadContext& context) {
  const int64_t count = read_integer(reader, context.scope());
  if (count < 1) reader.refuse(fmt::format("expected 1 or more, found {}", count));
  return count;
}

// Reads the largest norm of gradients that are clipped.
Number read_norm(const JsonReader& reader, const LoadContext& context) {
  const Number norm = read_number(reader, context.scope());
  if (!reader.inside([&] { return norm.real() > 0; }))
    reader.refuse(fmt::format("expected a norm above 0, found {}", to_string(norm)));
  return norm;
}

// Refuses numbers that torch.optim refuses. An argument that is no number yet is not checked.
void check_argument(const std::string& key, const Expr& arg, const LoadContext& context,
                    const JsonReader& reader) {
  static const std::set<std::string> kNotNegative{"lr", "eps", "weight_decay", "momentum"};
  const bool is_beta = key == "beta1" || key == "beta2";
  if (!is_beta && !kNotNegative.contains(key)) return;
  double value = 0;
  try {
    value = evaluate(arg, context.scope()).real();
  } catch (const Error&) {
    return;  // a line of the step reads it and reports errors
  }
  if (value < 0 || (is_beta && value >= 1))
    reader.refuse(fmt::format("{}: expected {}, found {}", key,
                              is_beta ? "0 or more and below 1" : "0 or more", to_string(arg)));
}

void read_optimizer(const JsonReader& reader, const LoadContext& context, Training& training) {
  const Expr call = reader.inside([&] { return parse_expression(reader.text()); });
  std::string name = call.kind == ExprKind::call ? call.symbol : "";
  for (const std::string& key : call.keys)
    if (name == "sgd" && key == "momentum") name = "sgd_momentum";
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  for (const OptimizerForm& form : optimizer_forms()) {
    if (name == form.op) training.optimizer = &form;
    if (name != form.op && lower(name) == form.op)
      reader.refuse(fmt::format("unknown optimizer {}; write {}(..)", name, form.op));
  }
  if (training.optimizer == nullptr)
    reader.expected(
        "an optimizer with its arguments: sgd(lr=0.1), sgd_momentum(..), adam(..) or adamw(..)");
  training.counts_steps = training.optimizer->counts_steps;
  for (size_t i = 0; i < call.args.size(); ++i) {
    // Dampening begins with the second step.
    training.counts_steps = training.counts_steps || call.keys[i] == "dampening";
    if (call.keys[i].empty())
      reader.refuse("arguments of an optimizer have keys, as in sgd(lr=0.1)");
    if (call.keys[i] == "step") reader.refuse("the training counts the steps; leave out step=");
    check_argument(call.keys[i], call.args[i], context, reader);
    training.arguments += fmt::format(", {}={}", call.keys[i], to_string(call.args[i]));
  }
}

std::set<std::string> plain_names_bound(const Listing& listing) {
  std::set<std::string> names;
  for (const NameTemplate& name : names_bound(listing))
    if (name.plain()) names.insert(name.texts[0]);
  return names;
}

std::string nearest_bound(const Listing& program, const std::string& name) {
  NearestName nearest(name);
  for (const std::string& bound : plain_names_bound(program)) nearest.offer(bound);
  return nearest.hint();
}

Training read_training(const JsonReader& train, const LoadContext& context, const Job& job) {
  train.check_keys(train_keys());
  Training training;
  const char* const form =
      R"json("train": {"loss": "loss", "params": ["w"], "optimizer": "sgd(lr=0.1)", "steps": 2})json";
  training.loss = train.at("loss", form).text();
  if (!plain_names_bound(*job.program).contains(training.loss))
    train.at("loss").refuse(fmt::format("no line of \"program\" binds {}{}", training.loss,
                                        nearest_bound(*job.program, training.loss)));
  training.params = read_names(train.at("params", form), job);
  if (training.params.empty()) train.at("params").refuse("expected at least one parameter");
  for (const JobInput& input : job.inputs)
    for (const auto& [key, mesh] : job.meshes)
      if (mesh == input.spec.mesh()) training.mesh_of.emplace(input.name, key);
  read_optimizer(train.at("optimizer", form), context, training);
  training.steps = read_count(train.at("steps", form), context);
  if (train.has("fresh")) training.fresh = read_names(train.at("fresh"), job);
  for (const std::string& name : training.fresh)
    if (std::find(training.params.begin(), training.params.end(), name) != training.params.end())
      train.at("fresh").refuse(fmt::format("{} is a parameter and cannot be drawn anew", name));
  if (train.has("accumulate")) training.accumulate = read_count(train.at("accumulate"), context);
  constexpr double kMostParts = 100'000;  // each expands to the lines of the program
  const double parts = static_cast<double>(training.steps) *
                       static_cast<double>(std::max<int64_t>(training.accumulate, 1));
  if (parts > kMostParts)
    train.at("steps").refuse(
        fmt::format("expected at most {:.0f} steps, parts of \"accumulate\" included, found {:.0f}",
                    kMostParts, parts));
  if (train.has("clip")) training.clip = to_string(read_norm(train.at("clip"), context));
  return training;
}

// The added lines by place, in the order of the program: before the loop over steps; first in each
// step; first and last in each part; last in each step.
struct TrainingLines {
  std::vector<std::string> once, step_first, part_first, part_last, step_last;
};

// Returns the text of a value that is on the mesh of parameter `from`, moved to that of `to`.
std::string on_mesh(const std::string& value, const Training& t, const std::string& from,
                    const std::string& to) {
  const std::string& mesh = t.mesh_of.at(to);
  if (mesh == t.mesh_of.at(from)) return value;
  return fmt::format("redistribute({}, mesh={})", value, mesh);
}

TrainingLines lines_of(const Training& t) {
  TrainingLines lines;
  const bool sums = t.accumulate > 0;
  const std::string prefix = sums ? "part" : "grad";
  std::string gradients, squares;
  for (const std::string& w : t.params) {
    gradients += (gradients.empty() ? "" : ", ") + fmt::format("{}_{}", prefix, w);
    squares += (squares.empty() ? "" : " + ") +
               on_mesh(fmt::format("sum(grad_{0} * grad_{0})", w), t, w, t.params[0]);
    for (const char* state : t.optimizer->states)
      lines.once.push_back(fmt::format("{}_{} = zeros(like={})", state, w, w));
    if (sums) lines.step_first.push_back(fmt::format("grad_{0} = zeros(like={0})", w));
  }
  const std::string part =
      sums ? fmt::format("step * {} + part", t.accumulate) : std::string("step");
  for (const std::string& x : t.fresh) {
    lines.part_first.push_back(fmt::format("if {} > 0:", part));
    lines.part_first.push_back(fmt::format("  {0} = {0}_{{{1}}}", x, part));
  }
  lines.part_last.push_back(
      fmt::format("{} = grad({}, [{}])", gradients, t.loss, fmt::join(t.params, ", ")));
  for (const std::string& w : t.params)
    if (sums) lines.part_last.push_back(fmt::format("grad_{0} = grad_{0} + part_{0}", w));
  if (!t.clip.empty()) {
    lines.step_last.push_back(fmt::format("grad_norm = sqrt({})", squares));
    lines.step_last.push_back(
        fmt::format("grad_scale = minimum({} / (grad_norm + 1e-6), 1)", t.clip));
    for (const std::string& w : t.params)
      lines.step_last.push_back(
          fmt::format("grad_{0} = grad_{0} * {1}", w, on_mesh("grad_scale", t, t.params[0], w)));
  }
  for (const std::string& w : t.params) {
    std::string states, inputs;
    for (const char* state : t.optimizer->states) {
      states += fmt::format(", {}_{}", state, w);
      inputs += fmt::format(", {}_{}", state, w);
    }
    if (t.counts_steps) inputs += ", step=step + 1";
    lines.step_last.push_back(fmt::format("{0}{1} = {2}({0}, grad_{0}{3}{4})", w, states,
                                          t.optimizer->op, inputs, t.arguments));
  }
  return lines;
}

Statement loop(const std::string& name, int64_t passes, std::vector<Statement> body) {
  Statement statement =
      parse_listing({fmt::format("for {} in range({}):", name, passes), "  x = 0"}).statements[0];
  statement.body = std::move(body);
  return statement;
}

Listing listing_of(const Listing& program, const Training& training) {
  const TrainingLines added = lines_of(training);
  std::vector<std::string> lines = program.lines;
  const std::vector<const std::vector<std::string>*> groups = {
      &added.once, &added.step_first, &added.part_first, &added.part_last, &added.step_last};
  for (const auto* group : groups) lines.insert(lines.end(), group->begin(), group->end());
  std::vector<Statement> all = parse_listing(lines).statements;
  std::vector<std::vector<Statement>> parts;
  auto next = all.begin();
  const auto take = [&](size_t count) {
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    parts.emplace_back(std::make_move_iterator(next), std::make_move_iterator(end));
    next = end;
  };
  take(program.statements.size());
  for (const auto* group : groups) take(parse_listing(*group).statements.size());
  std::vector<Statement> part = std::move(parts[3]);
  const auto append = [](std::vector<Statement>& to, std::vector<Statement>& from) {
    std::move(from.begin(), from.end(), std::back_inserter(to));
  };
  append(part, parts[0]);
  append(part, parts[4]);
  std::vector<Statement> step = std::move(parts[2]);
  if (training.accumulate > 0)
    step.push_back(loop("part", training.accumulate, std::move(part)));
  else
    append(step, part);
  append(step, parts[5]);
  Listing result;
  result.lines = std::move(lines);
  parts[1].push_back(loop("step", training.steps, std::move(step)));
  result.statements = std::move(parts[1]);
  return result;
}

// Returns the name of a fresh tensor in a part; the first part has the tensor of the file.
std::string name_in_part(const std::string& fresh, int64_t part) {
  return fmt::format("{}_{}", fresh, part);
}

int64_t count_of_parts(const Training& training) {
  return training.steps * std::max<int64_t>(training.accumulate, 1);
}

void refuse_taken_names(const JsonReader& train, const Training& training, const Listing& listing,
                        const Job& job) {
  std::set<std::string> taken = plain_names_bound(*job.program);
  for (const JobInput& input : job.inputs) taken.insert(input.name);
  for (const auto& [name, number] : job.numbers) taken.insert(name);
  Listing added;
  added.lines.assign(listing.lines.begin() + std::ssize(job.program->lines), listing.lines.end());
  std::set<std::string> made = plain_names_bound(parse_listing(added.lines));
  made.insert({"step", "part"});
  for (const auto* bound_again : {&training.params, &training.fresh})
    for (const std::string& name : *bound_again) made.erase(name);
  for (const std::string& name : training.params) {
    made.insert("grad_" + name);
    for (const char* state : training.optimizer->states)
      made.insert(fmt::format("{}_{}", state, name));
  }
  for (const std::string& name : training.fresh)
    for (int64_t part = 1; part < count_of_parts(training); ++part)
      made.insert(name_in_part(name, part));
  for (const std::string& name : made)
    if (taken.contains(name))
      train.refuse(fmt::format("{} is a name of the training; choose another one", name));
}

// Adds x_1, x_2, ... for each tensor that is drawn again in each step. The name determines the
// numbers drawn.
void add_fresh(const JsonReader& train, const Training& training, Phase& phase) {
  for (const std::string& name : training.fresh) {
    const auto input = std::find_if(phase.job.inputs.begin(), phase.job.inputs.end(),
                                    [&](const JobInput& one) { return one.name == name; });
    const Fill fill = phase.fills[static_cast<size_t>(input - phase.job.inputs.begin())];
    if (fill.kind == FillKind::values)
      train.at("fresh").refuse(fmt::format("{} has values, which cannot be drawn anew", name));
    JobInput copy = *input;
    for (int64_t part = 1; part < count_of_parts(training); ++part) {
      copy.name = name_in_part(name, part);
      phase.job.inputs.push_back(copy);
      phase.fills.push_back(fill);
    }
  }
}

}  // namespace

void add_training(const JsonReader& train, const LoadContext& context, Phase& phase) {
  const Training training = read_training(train, context, phase.job);
  phase.train_path = train.path();
  phase.program_lines = static_cast<int>(std::ssize(phase.job.program->lines));
  Listing listing = listing_of(*phase.job.program, training);
  refuse_taken_names(train, training, listing, phase.job);
  for (const std::string& name : training.params)
    for (JobInput& input : phase.job.inputs)
      if (input.name == name) input.category = Category::parameters;
  add_fresh(train, training, phase);
  phase.job.program = std::move(listing);
}

bool calls_optimizer(const std::string& line) {
  return std::any_of(optimizer_forms().begin(), optimizer_forms().end(),
                     [&](const OptimizerForm& form) {
                       return line.find(fmt::format(" = {}(", form.op)) != line.npos;
                     });
}

}  // namespace shardproof
