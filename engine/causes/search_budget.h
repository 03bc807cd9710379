// SearchBudget: bounds the search for causes of one case by an estimate of its processor time.
// SharedSearch: the budget, and the other state that all searches of the case share.
//
// The estimate counts instructions, elements and pairs of expressions, so a case has the same
// causes on every machine. Its constants are rounded up from measurements on one core.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "shardproof/engine/causes/rank_text.h"

namespace shardproof {

class SearchBudget {
 public:
  // Begins the search for the cause of one value. It may use a share of what is left, so a value
  // that nothing explains leaves something to the next ones.
  void begin_search() { of_stage_ = of_search_ = kOfSearch * left_; }
  // Begins a stage of the search, which may use a share of what is left to the search.
  void begin_stage(double share) { of_stage_ = share * of_search_; }
  // True if the stage may do nothing more.
  bool is_spent() const { return of_stage_ < kLeast; }
  void charge_run(size_t instructions, double elements) {
    charge(kOfInstruction * static_cast<double>(instructions) + kOfElement * elements);
  }
  void charge_lowering(size_t instructions) {
    charge(kOfLowering * static_cast<double>(instructions));
  }
  void charge_pairs(size_t pairs) { charge(kOfPair * static_cast<double>(pairs)); }

 private:
  void charge(double nanoseconds) {
    left_ -= nanoseconds;
    of_search_ -= nanoseconds;
    of_stage_ -= nanoseconds;
  }
  // All in nanoseconds.
  static constexpr double kAll = 10e9;
  static constexpr double kOfSearch = 0.75;
  static constexpr double kLeast = 5e7;  // a few runs of a small program
  static constexpr double kOfInstruction = 12000;
  static constexpr double kOfElement = 5;
  static constexpr double kOfLowering = 24000;  // of one instruction of the ranks, its text changed
  static constexpr double kOfPair = 300;        // of two expressions that are compared
  double left_ = kAll, of_search_ = 0, of_stage_ = 0;
};

struct SharedSearch {
  SearchBudget budget = {};
  std::optional<NumberedText> text = {};  // of the case's job; nullopt until a search needs it
  const NumberedText& text_of(const Job& job) {
    if (!text) text.emplace(job);
    return *text;
  }
  // Changes of the text towards the truth, and towards other lines of the ranks (truth_changes.h).
  // nullopt until a search needs them.
  std::optional<std::vector<TextChange>> towards_truth = {}, towards_own_lines = {};
};

}  // namespace shardproof
