// Explaining: the candidates of causes that causes.h lists, for one wrong value. Internal to
// engine/causes.
#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/causes/confirm_cause.h"
#include "shardproof/engine/causes/local_for_whole.h"
#include "shardproof/engine/causes/rank_text.h"
#include "shardproof/engine/causes/same_lines.h"
#include "shardproof/engine/causes/search_budget.h"
#include "shardproof/engine/causes/source_changes.h"
#include "shardproof/engine/explain/cause_lines.h"
#include "shardproof/engine/explain/way_to_value.h"

namespace shardproof {

struct ConfirmedCause {
  std::string text, fix;
  Edit edit;
  std::set<std::string> made_right = {};  // keys of the wrong values that the edit makes right
  bool is_known = false;                  // provenance shows it, too
};

struct OwnLine;  // of explaining_listings.cpp

class Explaining {
 public:
  // `ratio`: got / expected of all elements, if it is one number.
  Explaining(const RankCase& about, const ComparedValue& value, std::optional<double> ratio,
             SharedSearch& shared)
      : about_(about),
        value_(value),
        ratio_(ratio),
        mesh_(value.spec.mesh()),
        provenance_(about.ranks.program, mesh_, about.registries.ops),
        way_(way_to(about.ranks, value)),
        shared_(shared),
        confirmation_(about, value, shared) {}

  // The search for a change of the text that makes the value right takes many runs.
  enum class Search : uint8_t { short_search, long_search };
  // True if a cause or a hint was found. The first cause is stated, else the first hint.
  bool run(Search search);
  // True if run() has divided and multiplied the value by the size of each axis.
  bool has_tested_factors() const;
  // Returns the keys of the values that are wrong without any change.
  std::set<std::string> wrong_values() const { return confirmation_.wrong_values(); }
  std::vector<std::string> lines;  // "cause   ..." or "hint    ..."
  std::string fix;
  // Keys of the wrong values that the cause, or each change of the hint, explains too.
  std::set<std::string> made_right;

 private:
  struct Found {
    std::vector<std::string> lines = {};
    std::set<std::string> made_right = {};
  };
  // The causes in the table of causes.h: those that placements suggest, and those that fit numbers
  // alone.
  bool shown_by_provenance(const SuspectedWay& on) {
    return adopt(find_local_extremum(on)) || missing_enter() || wrong_group() ||
           never_reduced(Combining::reductions_and_gathers) || scalar_of_each_rank() ||
           adopt(find_uneven_average(on)) || adopt(find_swapped_messages(on)) ||
           differs_between_listings() || declared_otherwise() || wrong_argument() ||
           copies_explain_all();
  }
  bool shown_by_numbers(const SuspectedWay& on) {
    if (!changes_.empty()) return another_word();
    return counted_or_scaled(on) || never_reduced(Combining::reductions) ||
           (is_made_by_grad_on_way() && scaled_loss()) ||
           (!depends_on_senders() && adopt(find_loop_sum(on))) || missing_factor() ||
           adopt(find_local_statistics(on)) || adopt(find_op_on_shards(on));
  }
  enum class Similarity : uint8_t { close, distant };  // of lines of the ranks and of the truth
  std::vector<TextChange> towards_truth();
  bool differs_from_truth(Similarity similarity);
  bool explains_all(bool found);
  bool differs_by_a_number();
  std::set<std::string> lets_of_loops() const;
  std::vector<TextChange> changes_of_sizes() const;
  std::vector<TextChange> changes_to_means_of_passes() const;
  bool divides_several_by_a_size();
  const std::set<ListedLine>& suspects();
  std::set<ListedLine> lines_to_right() const;
  void put_suspects_first(std::vector<TextChange>& changes);
  bool has_small_mistake(const SuspectedWay& on);
  bool has_another_text();
  bool add_small_mistake();
  void add_reduced(const NumberedText& text, std::vector<TextChange>& changes) const;
  bool may_be_size_of_axis(double factor) const;
  bool averages_local_sums();
  bool averages_uneven_parts();
  int64_t count_of_term(const TextStatement& one, const Expr& term) const;
  bool averages_local_means(bool needs_word);
  bool is_local_mean(const TextStatement& one, const Expr& part, bool needs_word);
  void means_of_columns(const Step& step, std::vector<ConfirmedCause>& found);
  bool is_right_with(const Expr& part, const std::string& whole);
  // A call in place of a mean, and the keys of the wrong values that it makes right.
  struct RightMean {
    std::string text = {};
    std::set<std::string> made_right = {};
  };
  RightMean right_mean(const Expr& part, const std::string& reduced, bool needs_word);
  std::vector<std::string> whole_of_part(const Expr& part, const std::string& group) const;
  bool misses_a_line();
  bool reduces_no_gradient();
  bool misses_a_line_like(const OwnLine& like, bool is_same_kind);
  bool is_right_with_line(const OwnLine& like, const NameTemplate& name, ListedLine at,
                          InsertPosition position);
  bool is_copied_over(const std::string& group, size_t listing, const std::string& name) const;
  bool one_of(const std::vector<TextChange>& changes);
  ConfirmedCause cause_of(const TextChange& change, const RightChange& right) const;
  ConfirmedCause cause_of_factor(const TextChange& change, const Expr& product,
                                 const RightChange& right) const;
  bool varies_by_rank(const TextChange& condition) const;
  ConfirmedCause cause_of_shown(const TextChange& change, const RightChange& right) const;
  const SpmdValue& info(ValueId id) const {
    return about_.ranks.program.values[static_cast<size_t>(id)];
  }
  bool is_float(ValueId id) const {
    return info(id).dtype == DType::f64 || info(id).dtype == DType::c128;
  }
  const std::string& target() const { return value_.label.name; }
  std::string axes_text(const std::vector<int>& axes, const char* last = "and") const;
  std::string group_text(const std::vector<int>& axes) const { return group_argument(mesh_, axes); }
  // Returns the axes in place of those of a call, with the axes of one rank that the call names: on
  // another mesh they may have more.
  std::string group_text(std::vector<int> axes, const CallItem& in_place_of) const;
  int64_t size_of_axes(const std::vector<int>& axes) const;
  bool is_same_over_target(int axis) const { return value_.spec.placement(axis).is_replicate(); }
  std::string line_of(const Step& step) const {
    return line_text(about_.ranks.program, {step.listing, step.site.line});
  }
  std::string text_of(const Edit& edit) const {
    return lines_text(about_.ranks.program, lines_of(edit));
  }
  // Returns the author's name, or the names of the values that it is computed from.
  std::string shown(ValueId id, const std::string& line) const;
  std::string origin_text(const AxisState& state, int axis,
                          const std::vector<int>& axes = {}) const;
  void settle(const ConfirmedCause& cause) {
    lines.push_back(kCauseLabel + cause.text);
    fix = cause.fix;
    made_right = cause.made_right.empty() ? confirmation_.made_right() : cause.made_right;
  }
  bool adopt(const std::optional<Suspicion>& found);
  // Calls after which parts of a sum count as added up. Gathered parts may be added by another
  // line; if no other cause is found, they are taken for parts that no line adds.
  enum class Combining : uint8_t { reductions, reductions_and_gathers };
  bool never_reduced(Combining by);
  bool scalar_of_each_rank();
  // True if the value counts too often, or is computed from a sum of each rank's own part, or from
  // a loss with a factor. Settles the one of these causes that explains the most wrong values.
  bool counted_or_scaled(const SuspectedWay& on);
  bool is_part_of_shard(int axis, Combining by) const;
  bool is_part_of_message(int axis, Combining by) const;
  bool is_received(const AxisState& state, int axis) const;
  bool receives_over(const std::vector<int>& axes) const;
  bool never_reduced_over(const std::vector<int>& axes);
  std::optional<ConfirmedCause> reduced_grad(const Step& step, ReduceOp op,
                                             const std::vector<int>& axes,
                                             const std::string& origins);
  ConfirmedCause inside_grad(const Step& step, ReduceOp op, const std::vector<int>& axes,
                             const std::string& origins) const;
  std::set<ValueId> added_to_copies(const std::vector<int>& axes) const;
  std::vector<std::pair<const Step*, size_t>> places_to_reduce(const std::vector<int>& axes) const;
  std::string origins_text(ValueId id, const std::vector<int>& axes) const;
  ConfirmedCause cause_of_missing_reduction(const Step& step, const Edit& edit,
                                            const std::vector<int>& axes);
  bool is_reduced_as_it_is(ValueId id, const std::vector<int>& axes) const;
  bool has_call_after(const Step& step, const std::vector<int>& axes) const;
  bool is_sent_after(const Step& step, ValueId id) const;
  bool is_forward_part(const Edit& edit, const std::vector<int>& axes, const Step& step,
                       size_t slot) const;
  bool is_read_after(const Step& step, ValueId id) const;
  bool is_right_with_gradients(const Edit& edit, const std::vector<int>& axes, const Step& step,
                               size_t slot);
  bool wrong_group();
  bool goes_over_cut_axes(const Step& step, const CallItem& item, const std::vector<int>& have);
  bool is_reduced_next(const Step& step, const CallItem& item, int axis) const;
  bool leaves_out_axes(const Step& step, const CallItem& item, const std::vector<int>& have);
  bool goes_over_other_axes(const Step& step, const CallItem& item, const std::vector<int>& have);
  bool settle_group(const Step& step, const CallItem& item, const std::vector<int>& axes,
                    int varying);
  bool settle_group_of_backward(const Step& step, const CallItem& item,
                                const std::vector<int>& axes, const std::string& why);
  std::vector<int> axes_between_listings() const;
  std::vector<Site> sites_over_axis(const Step& step, int axis) const;
  bool differs_between_listings();
  std::set<ValueId> joined_over(int axis) const;
  bool reduced_over_listings(int axis);
  bool regrouped_over_listings(int axis);
  bool wrong_argument();
  bool copies_explain_all();
  bool missing_enter();
  bool another_word();
  bool scaled_loss();
  bool declared_otherwise();
  bool counted_too_often();
  bool is_made_by_grad_on_way() const;
  std::optional<ConfirmedCause> applied_twice(const std::vector<ConfirmedCause>& found) const;
  // True if an edit of this kind at a step, or of another listing's same line, was found.
  bool is_found(const std::vector<ConfirmedCause>& found, Edit::Kind kind, const Step& step) const;
  bool is_unvaried(const Edit& edit);
  void drop_usual_reductions(std::vector<ConfirmedCause>& found) const;
  std::string terms_of(const Edit& edit) const;
  void copies_added_up(std::vector<ConfirmedCause>& found);
  void other_reductions(std::vector<ConfirmedCause>& found);
  void superfluous_factors(std::vector<ConfirmedCause>& found);
  void terms_of_each_rank(std::vector<ConfirmedCause>& found);
  bool is_backward_of_call(const Step& step) const;
  bool is_differentiated(const Step& step) const;
  bool depends_on_senders() const;
  bool missing_factor();
  bool is_missing(const Step& step, ValueId id, int64_t size, bool times);
  bool is_right_with_statement(const Step& step, int64_t size, bool times);
  bool follows_axis(const Edit& edit, const std::string& what, const std::string& fix,
                    std::vector<std::string>& names);
  std::vector<std::pair<std::string, std::string>> lets_followed(Edit edit, int64_t size,
                                                                 bool times);
  bool is_summed_later(size_t from, int axis) const;
  bool is_first_summed_over(size_t from, int axis) const;
  bool is_part_of(const Step& step, int axis, ReduceOp op) const;
  bool is_called_later(size_t from, int axis,
                       const std::function<bool(const Collective&)>& fits) const;
  bool is_combined_later(size_t from, int axis, Combining by) const;
  std::vector<std::pair<std::string, int64_t>> sizes() const;

  const RankCase& about_;
  const ComparedValue& value_;
  const std::optional<double> ratio_;
  const Mesh mesh_;
  const Provenance provenance_;
  const WayToValue way_;
  SharedSearch& shared_;
  Confirmation confirmation_;
  // The cause is an average for a sum, or the reverse, and no axis can have another size.
  bool fits_one_size_alone_ = false;
  std::vector<SourceCause> changes_;              // of the text; each makes the value right
  std::optional<std::set<ListedLine>> suspects_;  // nullopt until a search needs them
  std::set<std::pair<std::string, std::vector<int>>> regrouped_;  // tested groups of backwards
};

}  // namespace shardproof
