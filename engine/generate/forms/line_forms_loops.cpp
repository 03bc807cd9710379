// Implements a table of line_forms.h: loops that change a value in each pass, sum over passes, or
// bind names with the number of the pass.
#include "shardproof/engine/generate/forms/line_forms.h"

#include <fmt/format.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

// Returns a square matrix that `value` can be multiplied with repeatedly.
const DraftValue* square_for(LineWriter& writer, const DraftValue& value) {
  const int64_t size = value.shape[value.shape.size() - 1];
  return writer.any_of([&](const DraftValue& other) {
    return other.dtype == value.dtype && other.shape.size() == 2 && other.shape[0] == size &&
           other.shape[1] == size;
  });
}

Lines write_layers(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  const DraftValue* w = x == nullptr ? nullptr : square_for(writer, *x);
  if (w == nullptr) return {};
  const std::string h = writer.fresh();
  const int64_t passes = writer.draw().between(2, 8);
  const std::string body = writer.draw().from({"tanh({0} @ {1})", "{0} + tanh({0} @ {1}) * 0.1",
                                               "rms_norm({0} + relu({0} @ {1}), eps=0.01)",
                                               "softmax({0} @ {1}, dim=-1)"});
  return {fmt::format("{} = {} * 1", h, x->name), fmt::format("for i in range({}):", passes),
          fmt::format("  {} = {}", h, fmt::format(fmt::runtime(body), h, w->name))};
}

Lines write_running_sum(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  const DraftValue* y = x == nullptr ? nullptr : writer.like(*x);
  if (y == nullptr) return {};
  const std::string sum = writer.fresh();
  const int64_t passes = writer.draw().between(2, 5);
  return {fmt::format("{} = {} * 2", sum, x->name), fmt::format("for i in range({}):", passes),
          fmt::format("  {0} = {0} + {1} * (i + 1)", sum, y->name)};
}

Lines write_descent(LineWriter& writer) {
  const DraftValue* x = writer.any_float(2);
  if (x == nullptr || x->shape.size() != 2) return {};
  const DraftValue* w = writer.any_of([&](const DraftValue& other) {
    return other.dtype == x->dtype && other.shape.size() == 2 && other.shape[0] == x->shape[1];
  });
  if (w == nullptr) return {};
  const std::string weights = writer.fresh(), step = writer.fresh();
  return {fmt::format("{} = {} * 1", weights, w->name),
          fmt::format("for i in range({}):", writer.draw().between(2, 6)),
          fmt::format("  {} = {}.T @ ({} @ {} - 1) / {}", step, x->name, x->name, weights,
                      4 * x->shape[0]),
          fmt::format("  {0} = {0} - {1} * 0.1", weights, step)};
}

Lines write_numbered(LineWriter& writer) {
  const DraftValue* x = writer.any_float(1);
  if (x == nullptr) return {};
  const std::string h = writer.fresh();
  return {fmt::format("{}_0 = {} * 1", h, x->name), "for i in range(3):",
          writer.is_whole() ? fmt::format("  {0}_{{i + 1}} = {0}_{{i}} - {1}", h, x->name)
                            : fmt::format("  {0}_{{i + 1}} = {0}_{{i}} * 0.7 + i", h)};
}

}  // namespace

void add_loop_forms(std::vector<LineForm>& forms) {
  forms.push_back({"layers", false, 0.6, write_layers});
  forms.push_back({"running_sum", true, 0.4, write_running_sum});
  forms.push_back({"descent", false, 0.4, write_descent});
  forms.push_back({"numbered", true, 0.3, write_numbered});
}

}  // namespace shardproof
