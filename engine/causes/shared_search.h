// SharedSearch: the state that all searches for causes of one case share.
#pragma once

#include <optional>
#include <vector>

#include "shardproof/engine/causes/rank_text.h"
#include "shardproof/engine/causes/search_budget.h"

namespace shardproof {

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
