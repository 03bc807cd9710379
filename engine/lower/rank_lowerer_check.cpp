// Implements check(x, 'name', placements) of rank_lowerer.h:
//
// 1. read the arguments: x, the truth's name with its holes filled in, placements, `on`;
// 2. choose the mesh, and place the truth's shape and dtype on it (place_check.h);
// 3. compare shape and dtype with those of the ranks' tensors;
// 4. emit a Snapshot of x and the RankCheck that names the value with which it is compared.
//
// Ranks outside the mesh or not selected by `on` skip the check.
#include <algorithm>

#include "shardproof/engine/lower/bind_arguments.h"
#include "shardproof/engine/lower/rank_lowerer.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

constexpr const char* kCheckForm = "check(x, 'h', dp:S(0))";

}  // namespace

WrittenCheck RankLowerer::read_check(const Expr& call) {
  if (group_depth_ > 0)
    fail(call.place,
         "check cannot stand inside group:, whose calls start together at its end; write it before "
         "or after the group");
  if (!job_.truth)
    fail(call.place,
         "check compares with the truth, and this scenario has none; expected the key \"truth\"");
  for (size_t i = 0; i < call.args.size(); ++i)
    if (!call.keys[i].empty())
      fail(call.key_places[i],
           fmt::format("check has no argument {}; write {}", call.keys[i], kCheckForm));
  if (call.args.size() < 2)
    fail(call.place,
         fmt::format("check needs a tensor and a name of the truth, as in {}", kCheckForm));
  WrittenCheck written{&call.args[0], "", call.args[1].place, {}, call.args[1].place, {}, {}};
  if (call.args[1].kind != ExprKind::text)
    fail(call.args[1].place,
         fmt::format("expected a name of the truth in quotes, as in {}, found {}", kCheckForm,
                     to_string(call.args[1])));
  written.name = name_of(call.args[1].name);
  for (size_t i = 2; i < call.args.size(); ++i) {
    const Expr& arg = call.args[i];
    if (arg.kind != ExprKind::placements)
      fail(arg.place, fmt::format("expected placements such as tp:S(0), found {}{}", to_string(arg),
                                  torch_placement_hint(arg)));
    if (!arg.on.empty() && i + 1 < call.args.size())
      fail(arg.on_place, fmt::format("expected \"on {}\" after the last placements", arg.on));
    if (i == 2) written.placed_at = arg.place;
    written.placements.insert(written.placements.end(), arg.placements.begin(),
                              arg.placements.end());
    written.on = arg.on;
    written.on_place = arg.on_place;
  }
  return written;
}

// Returns the shapes of x on the current lanes. Throws Error if a shape or the dtype differs from
// that of the truth's value with these placements.
std::vector<LocalShape> RankLowerer::fitting_shapes(const WrittenCheck& written, ValueId id,
                                                    const Spec& spec, const std::string& shown) {
  if (value(id).dtype != spec.dtype())
    fail(written.value->place,
         fmt::format("{} is {} on rank {}, but {} is {} in the truth; cast one of them", shown,
                     name(value(id).dtype), lanes_[0], written.name, name(spec.dtype())));
  std::vector<LocalShape> shapes;
  for (const Lanes& lanes : classes_of({id}, {})) {
    const Dims held = shape_on(id, lanes[0]);
    for (int64_t i = 0; i < lanes.size(); ++i)
      if (const Dims placed = spec.local_shape(lanes[i]); !(placed == held))
        fail(written.value->place,
             fmt::format("{} has shape {} on rank {}; {} placed as {} would be {} there", shown,
                         to_string(held), lanes[i], written.name, placements_text(spec),
                         to_string(placed)));
    shapes.push_back({lanes, held});
  }
  return shapes;
}

void RankLowerer::lower_check_part(const WrittenCheck& written, const CheckPart& part) {
  const Spec spec = spec_of_check(written, part, truth_.program());
  const Expr& expr = *written.value;
  RankCheck check;
  check.name = written.name;
  check.placements = placements_text(spec);
  check.mesh = part.key;
  if (!(part.owners == part.mesh->ranks())) check.on = part.owners;
  check.lanes = lanes_.intersect(part.owners);
  check.shown = expr.kind == ExprKind::name ? name_of(expr.name) : to_string(expr);
  check.origin = origin();
  check.path = path_;
  if (!check.lanes.empty()) {
    const Lanes all = lanes_;
    lanes_ = check.lanes;
    const ValueId input = lower_value(expr);
    check.value = add_value(value(input).dtype, fitting_shapes(written, input, spec, check.shown),
                            value(input).category);
    into_.program.values[static_cast<size_t>(check.value)].spec = spec;
    std::string placed = check.placements;
    if (!written.on.empty()) placed += " on " + written.on;
    add(Snapshot{input, check.value, check.name, placed == "R" ? "" : placed});
    lanes_ = all;
  }
  into_.checks.push_back(std::move(check));
}

// Throws Error if an earlier pass of a loop has checked the name, and the truth binds it more than
// once. Each pass would be compared with the last value.
void RankLowerer::refuse_check_of_last_value(const WrittenCheck& written, const Expr& call) {
  const bool is_repeated =
      std::any_of(into_.checks.begin(), into_.checks.end(), [&](const RankCheck& earlier) {
        return earlier.name == written.name && earlier.origin.line == origin().line &&
               !earlier.lanes.intersect(lanes_).empty();
      });
  if (!is_repeated) return;
  const std::vector<GlobalValue>& values = truth_.program().values;
  const auto bound = std::count_if(values.begin(), values.end(), [&](const GlobalValue& value) {
    return value.name == written.name;
  });
  if (bound > 1)
    fail(call.place,
         fmt::format("the truth binds {0} more than once, and each pass of this loop would be "
                     "compared with the last value; write {0}_{{i}} = {0} in the truth's loop, and "
                     "check(.., '{0}_{{i}}') here, where i is the variable of the loop",
                     written.name));
}

void RankLowerer::lower_check(const Expr& call) {
  const WrittenCheck written = read_check(call);
  refuse_check_of_last_value(written, call);
  if (is_number(*written.value))
    fail(written.value->place,
         fmt::format("check compares a tensor; {} is a number", to_string(*written.value)));
  for (const CheckPart& part : parts_of_check(written, job_, lanes_))
    lower_check_part(written, part);
}

}  // namespace shardproof
