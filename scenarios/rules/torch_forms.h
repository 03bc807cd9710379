// Table of torch's ops whose name, arguments or results differ from ours, as calls of the scenario
// language. Other ops of torch have a record in the registry with the same arguments.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string_view>

namespace shardproof {

// How an op of torch is called here.
//
//   tensors   torch's names of the tensors in order: "input weight? indices*"; `?` may be left
//             out, `*` is a list
//   text      lines of the language over these names and those of torch's other arguments:
//     {dim}         its value, which must be given   {a|b=1}   the first given of a and b; else 1
//     {, dim}       ", dim=VALUE" if it is given     {, causal:is_causal}  under another name
//     {~out_int32}  changes no number                {=p:0}    must have this value if it is given
//     {#random}     random numbers, one for each element of the first tensor
//     {ys}          all results: "y0, y1"            {#cast}   a text made by torch_calls.cpp
//   results   torch's names of the results, if there are several: "output mean? info!"; a row may
//             leave `?` and `!` out; `!` has no counterpart here and is not judged; "*": any number
struct TorchForm {
  std::string_view tensors, text, results;
};

// Entries by the name after "aten.".
using FormTable = std::map<std::string_view, TorchForm>;
const FormTable& backward_forms();

// Returns nullopt for a name without an entry. Names are those after "aten.": "gather", "max.dim".
std::optional<TorchForm> torch_form(std::string_view name);
// Returns the name under which an op has an entry or a record: "abs" for "absolute", "erf" for
// "special_erf", "view" for "view_copy". Returns the name itself if it is no other op's name.
std::string_view torch_alias(std::string_view name);
// True for an op such as "masked_select": the shape of its result depends on values, so that no
// placement of it can be judged.
bool has_shape_by_values(std::string_view name);
// Calls `offer` with each name of the table and each alias.
void for_each_torch_name(const std::function<void(std::string_view)>& offer);

}  // namespace shardproof
