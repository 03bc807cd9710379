// Implements long_samples.h: samples by family of ops.
#include "shardproof/tests/gpu/kernels/long_samples.h"

#include <limits>

#include "shardproof/ops/core/params.h"

namespace shardproof::testing {
namespace {

using Samples = std::vector<std::pair<std::string, Sample>>;
constexpr int64_t kLong = 4107;    // two blocks of 2048, and 11 elements
constexpr int64_t kMiddling = 61;  // one thread has a line to itself and folds it in 16 parts

Sample labelled(Dims logits, Attrs attrs) {
  Dims labels = logits;
  labels.erase(1);
  Sample sample = sample_of({{logits}}, std::move(attrs));
  sample.inputs.push_back({DType::i64, labels});
  sample.inputs.push_back(absent_input());
  sample.fills = {"uniform(-2, 2)", "ints(-1, 100)", ""};  // values that i8 can hold
  return sample;
}

void add_reductions(Samples& samples) {
  const Attrs rows{{"dim", int64_t{-1}}}, all, ends{{"dim", std::vector<int64_t>{0, 2}}};
  for (const char* name : {"sum", "prod", "max", "min", "mean", "var", "std", "norm", "logsumexp",
                           "argmax", "argmin"}) {
    const bool one_dim = std::string_view(name).starts_with("arg");
    for (const Attrs& attrs : {rows, one_dim ? rows : all, one_dim ? rows : ends})
      samples.emplace_back(name,
                           Sample{attrs, {{DType::f32, {2, 2, kLong}}}, {"uniform(-1.5, 1.5)"}});
    samples.emplace_back(name, Sample{rows, {{DType::f32, {3, 130}}}, {"ints"}});
    samples.emplace_back(name,
                         Sample{rows, {{DType::f32, {5, kMiddling}}}, {"uniform(-1.5, 1.5)"}});
  }
  for (const char* name : {"sum", "prod", "max", "min", "argmax", "argmin"})
    for (const int64_t length : {kLong, kMiddling})
      samples.emplace_back(name, Sample{rows, {{DType::i64, {2, length}}}, {"ints(-40, 40)"}});
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double p : {0.0, 1.0, 3.0, infinity, -infinity}) {
    Attrs attrs = rows;
    attrs.set("p", p);
    for (const int64_t length : {kLong, kMiddling})
      samples.emplace_back("norm", Sample{attrs, {{DType::f32, {2, length}}}, {"uniform(-1, 1)"}});
  }
  for (const char* name : {"any", "all"})
    for (const int64_t length : {kLong, kMiddling})
      samples.emplace_back(name, Sample{rows, {{DType::boolean, {4, length}}}, {"bools"}});
}

void add_rows(Samples& samples) {
  for (const char* name : {"softmax", "log_softmax"}) {
    samples.emplace_back(
        name, sample_of({{{4, 2500}}, DType::f32, {"uniform(-9, 9)"}}, {{"dim", int64_t{1}}}));
    samples.emplace_back(
        name, sample_of({{{4, kMiddling}}, DType::f32, {"uniform(-9, 9)"}}, {{"dim", int64_t{1}}}));
    samples.emplace_back(
        name, sample_of({{{130, 7}}, DType::f32, {"uniform(-9, 9)"}}, {{"dim", int64_t{0}}}));
  }
  const Attrs last{{"eps", 1e-5}, {"dims", int64_t{1}}};
  for (const int64_t length : {kLong, kMiddling}) {
    samples.emplace_back("layer_norm", sample_of({{{3, length}, {length}, {length}}}, last));
    samples.emplace_back("rms_norm", sample_of({{{3, length}, {length}}}, last));
    for (const char* name : {"layer_norm_grad", "rms_norm_grad"})
      samples.emplace_back(name, sample_of({{{3, length}, {3, length}, {length}}}, last));
  }
  for (const double smoothing : {0.0, 0.1})
    for (const char* reduction : {"none", "mean"})
      samples.emplace_back("cross_entropy",
                           labelled({3, 2100, 2}, {{"ignore_index", int64_t{-1}},
                                                   {"reduction", std::string(reduction)},
                                                   {"label_smoothing", smoothing}}));
  for (const bool has_sum : {false, true}) {
    Sample sample = labelled({3, 2100, 2}, {{"label_smoothing", 0.1}});
    const TensorMeta rows{DType::f32, {3, 2}};
    sample.inputs.insert(sample.inputs.begin(), rows);
    if (has_sum) sample.inputs.back() = rows;
    sample.fills = {"uniform(-1, 1)", "uniform(-2, 2)", "ints(-1, 100)", "uniform(7, 9)"};
    samples.emplace_back("cross_entropy_grad", std::move(sample));
  }
  for (const char* reduction : {"sum", "mean"})
    for (const int64_t length : {kLong, kMiddling, int64_t{0}}) {
      Sample sample = sample_of({{{length}, {length}}, DType::f32, {"uniform(-9, 9)"}},
                                {{"reduction", std::string(reduction)}});
      sample.inputs.push_back(absent_input());
      samples.emplace_back("mse_loss", std::move(sample));
    }
}

void add_attention(Samples& samples) {
  for (const bool causal : {false, true}) {
    const Sample sample = sample_of({{{2, 4, 7, 16}, {2, 2, 150, 16}, {2, 2, 150, 8}},
                                     DType::f32,
                                     {"uniform(-2, 2)", "uniform(-2, 2)", "uniform(-2, 2)"}},
                                    {{"causal", causal}});
    samples.emplace_back("sdpa", sample);
    Sample both = sample;
    both.attrs.set("return_lse", true);
    samples.emplace_back("sdpa", both);
    for (const bool has_results : {false, true}) {
      Sample grad = sample_of({{{1, 2, 70, 4},
                                {1, 2, 70, 8},
                                {1, 1, 150, 8},
                                {1, 1, 150, 4},
                                {1, 2, 70, 4},
                                {1, 2, 70},
                                {1, 2, 70}}},
                              {{"causal", causal}});
      grad.fills.assign(grad.inputs.size(), "uniform(-1, 1)");
      grad.fills[5] = "uniform(4, 6)";
      if (!has_results)
        for (size_t i = 4; i < grad.inputs.size(); ++i) grad.inputs[i] = absent_input();
      samples.emplace_back("sdpa_grad", std::move(grad));
    }
  }
}

void add_order(Samples& samples) {
  for (const bool descending : {false, true})
    samples.emplace_back("sort", sample_of({{{2, 259, 3}}, DType::f32, {"ints(-40, 40)"}},
                                           {{"dim", int64_t{1}}, {"descending", descending}}));
  samples.emplace_back("topk", sample_of({{{3, 512}}, DType::f32, {"uniform(-1, 1)"}},
                                         {{"k", int64_t{17}}, {"dim", int64_t{-1}}}));
}

}  // namespace

Samples long_samples() {
  Samples samples;
  add_reductions(samples);
  add_rows(samples);
  add_attention(samples);
  add_order(samples);
  return samples;
}

}  // namespace shardproof::testing
