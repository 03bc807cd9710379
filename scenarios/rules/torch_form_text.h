// FormText: fills the lines of a TorchForm for the tensors and arguments of one row.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/scenarios/json/json_reader.h"
#include "shardproof/scenarios/rules/torch_forms.h"

namespace shardproof {

// Returns the text of an argument in the language. Throws Error(bad_input) for an object.
std::string argument_text(const JsonReader& value, bool is_dtype);
// Returns "y0, y1, y2" for the prefix "y" and 3.
std::string numbered_names(const char* prefix, size_t count);
// Returns the words of a text that spaces separate.
std::vector<std::string> words_of(std::string_view text);
// True for arguments of torch that change no number: memory_format, device, generator.
bool changes_no_number(std::string_view key);

class FormText {
 public:
  // `op` is the name in messages, `attrs` an object of arguments or null. The inputs are x0, x1, ..
  // Those that `attrs` gives as numbers, or as null, are not among them. Throws Error(bad_input)
  // for a wrong number of tensors.
  FormText(const TorchForm& form, std::string op, const JsonReader* attrs,
           const std::vector<TensorMeta>& inputs, size_t results);

  // Returns the lines. Throws Error(bad_input) for a missing argument, one that the op does not
  // have, and one whose value has no counterpart here.
  std::string lines();
  // True if the lines read an input after those of the row: random numbers of the first tensor's
  // shape.
  bool reads_random_numbers() const { return reads_random_numbers_; }
  // True if the lines depend on the sizes of the inputs, or on an argument with those of the
  // result.
  bool depends_on_sizes() const { return depends_on_sizes_; }
  bool states_result() const { return states_result_; }
  // Replaces the sizes of the result among the arguments. Call it before lines().
  void set_result(const Dims& sizes) { result_ = sizes; }

 private:
  void bind_tensors();
  std::string filled(std::string_view text);
  std::string slot_text(std::string_view slot);
  std::string required_text(std::string_view slot);
  std::string optional_text(std::string_view slot);
  std::string fixed_text(std::string_view slot);
  std::string made_text(std::string_view name);
  std::string made_view_text(std::string_view name);
  std::string made_index_text(std::string_view name);
  std::string made_dims_text(std::string_view name);
  std::string squeezed_dims();
  // Return the text of a slot that torch_form_text_composite.cpp or torch_form_text_network.cpp
  // makes; nullopt for others.
  std::optional<std::string> made_composite_text(std::string_view name);
  std::optional<std::string> made_network_text(std::string_view name);
  std::string at_least_dims(int64_t dims);
  std::string batch_norm_backward();
  std::string batch_stats(bool trains);
  std::string bincount();
  std::string convolution(const std::string& target);
  std::string convolution_3d(const std::string& target);
  // Lines that bind `target` to the convolution of x, of these sizes, with the weight.
  std::string depth_sum(const std::string& target, const std::string& x, const Dims& sizes);
  std::string diagonal_scatter();
  std::string fourier(bool is_forward);
  std::string fourier_of_half();
  std::string histogram_range();
  std::string inner();
  std::string kron();
  std::string matrix_exponential();
  std::string membership();
  std::string most_frequent();
  // Lines that bind y1 to the positions of the largest elements of windows.
  std::string pool_indices(int spatial);
  std::string pool_backward(int spatial);
  std::string pseudo_inverse();
  std::string places_in_order();
  std::string put_at(const std::vector<std::string>& entries);
  std::string scatter_reduce();
  std::string section_sizes();
  std::string solved_triangle();
  std::string strided_positions();
  std::string tensordot();
  std::string transposed_convolution_3d(const std::string& target);
  std::string trapezoid();
  std::string triangle(std::string_view name);
  std::string unpool(int spatial);
  std::string upsample();
  std::string windows(const std::string& x);
  std::string reduction();
  void check_arguments() const;

  // The text of a tensor or an argument; nullopt if it is absent. Notes that the form has it.
  std::optional<std::string> given(const std::string& key);
  std::string needed(const std::string& key);
  const JsonReader* argument(const std::string& key);  // null if absent
  int64_t integer_of(const std::string& key, int64_t fallback);
  std::vector<int64_t> integers_of(const std::string& key);
  std::vector<int64_t> triple_of(const std::string& key, int64_t fallback);
  int64_t dim_of(const std::string& key, int64_t dims);  // counted from the front
  const TensorMeta& meta_of(const std::string& tensor) const;
  const Dims& sizes_of(const std::string& tensor);
  std::vector<int64_t> result_sizes(const std::string& key);  // of an argument
  [[noreturn]] void refuse(const std::string& message) const;

  TorchForm form_;
  std::string op_;
  std::map<std::string, JsonReader> attrs_;
  std::vector<TensorMeta> inputs_;
  size_t results_;
  bool reads_random_numbers_ = false, depends_on_sizes_ = false, states_result_ = false;
  std::optional<Dims> result_;
  std::map<std::string, std::string> tensors_;  // texts: "x0"; of a list "x1, x2"
  std::map<std::string, size_t> positions_;     // of the first input of a tensor
  std::vector<std::string> known_;              // arguments that the form has
};

}  // namespace shardproof
