// Implements ops/convolution/conv_padding.h.
#include "shardproof/ops/convolution/conv_padding.h"

#include <algorithm>

#include "shardproof/ops/core/decomposition.h"
#include "shardproof/ops/layout/copy_boxes.h"

namespace shardproof {
namespace {

bool padding_is_a_word(const OpCall& call) {
  const auto found = call.attrs->values().find("padding");
  return found != call.attrs->values().end() && std::holds_alternative<std::string>(found->second);
}

// Pads by half the reach of the kernel on each side; if the reach is odd, the extra zero goes to
// the end.
FormulaTerms conv_with_padding(Formula& f, const std::string& name, int spatial) {
  const std::string& word = f.call.attrs->text("padding");
  Attrs attrs = *f.call.attrs;
  attrs.set("padding", IntegerList{0});
  if (word == "valid") return {f.op(name.c_str(), {f[0], f[1], f[2]}, attrs)};
  if (word != "same") f.refuse("padding must be numbers, 'same' or 'valid', found '{}'", word);
  const IntegerList stride = integer_list(*f.call.attrs, "stride");
  if (std::any_of(stride.begin(), stride.end(), [](int64_t s) { return s != 1; }))
    f.refuse("padding='same' requires a stride of 1");
  IntegerList dilation = integer_list(*f.call.attrs, "dilation");
  if (dilation.size() == 1) dilation.assign(static_cast<size_t>(spatial), dilation[0]);
  if (static_cast<int>(dilation.size()) != spatial)
    f.refuse("dilation needs 1 or {} numbers, found {}", spatial, dilation.size());
  IntegerList both, more;
  for (int i = 0; i < spatial; ++i) {
    const int64_t kernel = f[1].shape()[f[1].dims() - spatial + i];
    const int64_t all = dilation[static_cast<size_t>(i)] * (kernel - 1);
    both.push_back(all / 2);
    more.insert(more.begin(), {0, all % 2});
  }
  attrs.set("padding", both);
  const bool odd = std::any_of(more.begin(), more.end(), [](int64_t n) { return n != 0; });
  const FormulaTerm x = odd ? f.op("pad", {f[0]}, {{"pad", more}, {"value", 0.0}}) : f[0];
  return {f.op(name.c_str(), {x, f[1], f[2]}, attrs)};
}

}  // namespace

void add_padding_forms(OpRecord& record, int spatial) {
  decompose_when(record, padding_is_a_word, [name = record.name, spatial](Formula& f) {
    return conv_with_padding(f, name, spatial);
  });
  accept_one_entry(record, spatial + 1);
}

void accept_one_entry(OpRecord& record, int dims) {
  decompose_when(
      record, [dims](const OpCall& call) { return input_shape(call, 0).size() == dims; },
      [name = record.name](Formula& f) {
        const FormulaTerm batch = f.op("unsqueeze", {f[0]}, {{"dim", int64_t{0}}});
        const FormulaTerm made = f.op(name.c_str(), {batch, f[1], f[2]}, *f.call.attrs);
        return FormulaTerms{f.op("squeeze", {made}, {{"dim", IntegerList{0}}})};
      });
}

}  // namespace shardproof
