// Changes of the text of rank programs. Visits the expressions and statements of a job's listings,
// numbered in the order of the text. Changes some of them in a copy of the job.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shardproof/engine/job/job.h"

namespace shardproof {

inline constexpr size_t kMostChanges = 64;  // of one kind; each costs a lowering and a run

// Calls visit(expression) for the expressions of statements and the bounds of their loops,
// arguments before their call.
void visit_expressions(std::vector<Statement>& statements, const std::function<void(Expr&)>& visit);

// An expression or a statement of the listings.
struct TextPlace {
  int number = 0;  // in the order of the text
  size_t listing = 0;
};

// Call visit(place, ..) for the expressions or statements of all listings. A statement comes
// before those of its body. Changes that `visit` makes are stored in the job.
void visit_expressions(Job& job, const std::function<void(const TextPlace&, Expr&)>& visit);
void visit_statements(Job& job, const std::function<void(const TextPlace&, Statement&)>& visit);

using ChangeOfJob = std::function<Job(const Job&)>;
// Returns a change of the expressions of these numbers.
ChangeOfJob change_of(std::set<int> numbers, std::function<void(Expr&)> change);

// Returns a change of several expressions, each in its own way.
using NumberedChanges = std::map<int, std::function<void(Expr&)>>;  // by number
ChangeOfJob change_of_all(NumberedChanges changes);
// Puts an expression in the place of another one.
void replace_expression(Expr& expr, Expr by);

// Returns a change that exchanges two statements of a block.
ChangeOfJob with_swapped_lines(size_t listing, int first, int second);

// Return a change that inserts a statement, or moves those of lines of the same block, before or
// after the statement of a line.
enum class InsertPosition : uint8_t { before, after };
ChangeOfJob with_inserted_line(size_t listing, int line, InsertPosition position,
                               Statement statement);
ChangeOfJob with_moved_lines(size_t listing, std::vector<int> lines, int line,
                             InsertPosition position);

// Returns a change that moves a line to the begin of a loop of the same block.
ChangeOfJob with_line_in_loop(size_t listing, int line, int loop);

// Returns the job with one listing in place of those with equal lines; nullopt if all differ. Rank
// programs that are written once for each rank become one listing, so an edit is of all ranks.
std::optional<Job> with_merged_listings(const Job& job);

// Returns the argument of a key; null if the call has none.
const Expr* argument_of(const Expr& call, const std::string& key);
Expr* argument_of(Expr& call, const std::string& key);

// True if a listing calls grad(..).
bool calls_grad(const Job& job);

// Returns "(expr) / size" for the symbol "/".
Expr scaled_expression(Expr expr, const char* symbol, Expr by);
Expr scaled_expression(Expr expr, const char* symbol, const Number& size);

// Returns "all_reduce(expr, arguments)".
Expr reduced_expression(Expr expr, const std::string& arguments);

}  // namespace shardproof
