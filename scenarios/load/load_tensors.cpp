// Implements read_tensors and read_outputs of load_context.h.

#include "shardproof/program/syntax/placed_text.h"
#include "shardproof/program/syntax/torch_names.h"
#include "shardproof/scenarios/load/load_context.h"
#include "shardproof/scenarios/load/scenario_keys.h"

namespace shardproof {
namespace {

DType read_dtype(const JsonReader& reader) {
  return reader.inside([&] { return parse_dtype_name(reader.text("a dtype such as \"f32\"")); });
}

Fill read_values(const JsonReader& reader, const LoadContext& context, DType dtype, Dims& shape) {
  if (reader.kind() == JsonKind::object)
    reader.expected(
        "the values of the global tensor, such as [[1, 2], [3, 4]] (ranks compute values of their "
        "own, as in x * (1 + index(tp)))");
  NestedNumbers nested =
      read_nested(reader, context.scope(), [dtype](const Number& number, bool complex) {
        if (complex && !is_complex(dtype))
          throw_bad_input("expected a real number for {}; a complex one needs c64 or c128",
                          name(dtype));
        check_element(number, dtype);
      });
  shape = nested.shape;
  Fill fill;
  fill.kind = FillKind::values;
  fill.values = std::move(nested.elements);
  fill.imaginary = std::move(nested.imaginary);
  return fill;
}

// Returns the bytes that a run stores for the tensor: once, or once for each rank of its partial
// axes.
int64_t stored_bytes(const Spec& spec) {
  int64_t copies = 1;
  for (const int axis : spec.partial_axes())
    copies *= spec.mesh().axes()[static_cast<size_t>(axis)].size;
  int64_t bytes = 0;
  if (__builtin_mul_overflow(element_count(spec.shape()), size_of(spec.dtype()), &bytes) ||
      __builtin_mul_overflow(bytes, copies, &bytes))
    return INT64_MAX;
  return bytes;
}

// Refuses placements in PyTorch's form, ["Shard(0)", "Replicate()"] or {"dp": "Shard(0)"}, and
// states the text to write.
void refuse_placement_list(const JsonReader& reader, const Mesh& mesh) {
  const JsonTree& tree = reader.tree();
  if (tree.kind != JsonKind::list && tree.kind != JsonKind::object) return;
  std::string text;
  for (size_t i = 0; i < tree.items.size(); ++i) {
    const bool named = tree.kind == JsonKind::object;
    if (tree.items[i].kind != JsonKind::text || (!named && i >= mesh.axes().size())) return;
    std::string word = tree.items[i].text;
    const size_t open = word.find('(');
    if (word.starts_with("Replicate")) word = "R";
    if (word.starts_with("Partial")) word = "P(sum)";
    if (word.starts_with("Shard") && open != std::string::npos) word = "S" + word.substr(open);
    text += i == 0 ? "" : " ";
    const bool has_axis = word.find(':') != std::string::npos;
    if (!has_axis) text += (named ? tree.keys[i] : mesh.axes()[i].name) + ":";
    text += word;
  }
  if (!text.empty())
    reader.refuse(fmt::format("expected placements in one string, found {}; write \"{}\"",
                              to_string(tree), text));
}

ReadTensor read_tensor(const std::string& name, const JsonReader& reader,
                       const LoadContext& context) {
  if (reader.kind() != JsonKind::object) reader.expected("a tensor such as {\"shape\": [4, 8]}");
  context.errors->add_all(reader.unknown_keys(tensor_keys()));
  if (!reader.has("shape") && !reader.has("values"))
    reader.refuse("expected \"shape\" or \"values\", found neither");
  if (reader.has("fill") && reader.has("values"))
    reader.at("fill").refuse("expected one of \"fill\" and \"values\", found both");
  const DType dtype = reader.has("dtype") ? read_dtype(reader.at("dtype")) : context.dtype;

  Dims shape;
  ReadTensor read;
  read.fill = default_fill(dtype);
  if (reader.has("shape")) shape = read_shape(reader.at("shape"), context);
  if (reader.has("values")) {
    Dims found;
    read.fill = read_values(reader.at("values"), context, dtype, found);
    // Nested lists of no elements cannot state the dims that follow a 0.
    const bool empty = reader.has("shape") && element_count(shape) == 0 && read.fill.values.empty();
    if (empty) found = shape;
    if (reader.has("shape") && !(found == shape))
      reader.at("values").refuse(fmt::format("expected values of \"shape\" {}, found shape {}",
                                             to_string(shape), to_string(found)));
    shape = found;
  }
  if (reader.has("fill")) {
    const JsonReader fill = reader.at("fill");
    read.fill = fill.inside([&] {
      return parse_fill(fill.text("a fill such as \"ones\" or \"const(2)\""), dtype,
                        context.scope());
    });
  }
  std::string mesh_name = context.meshes.front().first;
  if (reader.has("mesh")) {
    const JsonReader mesh = reader.at("mesh");
    mesh_name = mesh.text();
    mesh.inside([&] { return context.mesh(mesh_name).size(); });
  } else if (context.meshes.size() > 1) {
    reader.refuse(
        fmt::format("expected the key \"mesh\", because there are several; write \"mesh\": {}",
                    quoted_json(mesh_name)));
  }
  const Mesh& mesh = context.mesh(mesh_name);
  read.input.name = name;
  read.input.on = mesh.ranks();
  if (reader.has("placements")) {
    const JsonReader text = reader.at("placements");
    refuse_placement_list(text, mesh);
    read.input.spec = text.inside([&] {
      return Spec::parse(text.text("placements in one string such as \"dp:S(0) tp:R\""), mesh,
                         shape, dtype);
    });
  } else {
    read.input.spec = Spec::replicated(mesh, shape, dtype);
  }
  if (reader.has("on")) {
    const JsonReader on = reader.at("on");
    const Lanes ranks = context.ranks(on);
    if (!mesh.ranks().contains(ranks))
      on.refuse(fmt::format("expected ranks of the tensor's mesh ({}), found {}",
                            to_string(mesh.ranks()), to_string(ranks)));
    read.input.on = ranks;
  }
  return read;
}

bool has_axes(const Mesh& mesh, const std::vector<PlacementText>& placements) {
  for (const PlacementText& placement : placements)
    if (!placement.axis.empty() && !mesh.find_axis(placement.axis)) return false;
  return true;
}

// Chooses the first mesh that has all axes and ranks of an output.
void choose_mesh(JobOutput& output, const std::string& selector, const LoadContext& context,
                 const JsonReader& reader) {
  std::vector<PlacementText> placements;
  if (!output.placements.empty())
    placements = reader.inside([&] { return parse_placements(output.placements); });
  Lanes on;
  if (!selector.empty())
    on = reader.inside([&] { return select_ranks(selector, context.meshes, context.world); });
  for (const auto& [name, mesh] : context.meshes) {
    const Lanes ranks = mesh.ranks();
    if (!has_axes(mesh, placements) || !ranks.contains(on)) continue;
    output.mesh = name;
    output.on = on.empty() ? ranks : on;
    return;
  }
  for (const PlacementText& placement : placements)
    reader.inside([&] {
      return placement.axis.empty() ? 0 : context.meshes.front().second.axis(placement.axis);
    });
  reader.refuse("expected axes and ranks of one mesh, found none that has all of them");
}

}  // namespace

Dims read_shape(const JsonReader& reader, const LoadContext& context) {
  Dims shape;
  const std::vector<JsonReader> items = reader.items("a list of sizes such as [4, 8]");
  if (items.size() > static_cast<size_t>(kMaxDims))
    reader.refuse(fmt::format("a tensor has at most {} dims, found {}", kMaxDims, items.size()));
  for (const JsonReader& item : items) {
    const int64_t size = read_integer(item, context.scope());
    if (size < 0) item.refuse(fmt::format("expected a size of 0 or more, found {}", size));
    shape.push_back(size);
  }
  reader.inside([&] { return element_count(shape); });
  return shape;
}

std::vector<ReadTensor> read_tensors(const JsonReader& tensors, const LoadContext& context) {
  std::vector<ReadTensor> out;
  int64_t bytes = 0;
  const int64_t limit =
      context.options->max_bytes > 0 ? context.options->max_bytes : default_max_bytes();
  for (const auto& [name, reader] :
       tensors.members("an object of tensors such as {\"x\": {\"shape\": [4, 8]}}")) {
    if (!context.errors->attempt([&, &name = name, &reader = reader] {
          out.push_back(read_tensor(name, reader, context));
        }))
      continue;
    const int64_t more = stored_bytes(out.back().input.spec);
    if (__builtin_add_overflow(bytes, more, &bytes) || bytes > limit)
      throw Error(
          ErrorKind::limit,
          fmt::format(
              "the tensors up to this one hold {} bytes, the limit is {}; --max-bytes sets it",
              bytes, limit),
          {"", reader.path(), 0, 0});
  }
  return out;
}

std::vector<JobOutput> read_outputs(const JsonReader& outputs, const LoadContext& context) {
  std::vector<JobOutput> out;
  for (const auto& [name, reader] :
       outputs.members("an object of names and placements such as {\"y\": \"tp:S(0)\"}")) {
    JobOutput output;
    output.name = name;
    output.path = reader.path();
    const std::string text = reader.text("placements such as \"tp:S(0)\"");
    const PlacedText parts = split_placed(text);
    if (parts.has_on && parts.on.empty())
      reader.refuse("expected ranks after \"on\", such as \"R on 0-3\", found none");
    output.placements = parts.placements;
    choose_mesh(output, parts.on, context, reader);
    out.push_back(std::move(output));
  }
  return out;
}

}  // namespace shardproof
