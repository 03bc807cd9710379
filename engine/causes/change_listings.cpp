// Implements change_listings.h. A listing shares its statements with copies of the job, so they are
// copied, changed and stored again.
#include "shardproof/engine/causes/change_listings.h"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

namespace shardproof {
namespace {

void visit_expression(Expr& expr, const std::function<void(Expr&)>& visit) {
  for (Expr& argument : expr.args) visit_expression(argument, visit);
  for (IndexItem& item : expr.items)
    for (std::vector<Expr>* part : {&item.at, &item.low, &item.high, &item.step})
      for (Expr& one : *part) visit_expression(one, visit);
  visit(expr);
}

void visit_all(std::vector<Statement>& statements, const std::function<void(Statement&)>& visit) {
  for (Statement& statement : statements) {
    visit(statement);
    visit_all(statement.body, visit);
    visit_all(statement.otherwise, visit);
  }
}

void change_listings(Job& job, const std::function<void(std::vector<Statement>&)>& change) {
  for (JobListing& one : job.ranks) {
    std::vector<Statement> statements = one.listing.statements;
    change(statements);
    one.listing.statements = Statements(std::move(statements));
  }
}

}  // namespace

void visit_expressions(std::vector<Statement>& statements,
                       const std::function<void(Expr&)>& visit) {
  visit_all(statements, [&](Statement& statement) {
    if (statement.value) visit_expression(*statement.value, visit);
    for (Expr& bound : statement.range) visit_expression(bound, visit);
  });
}

void visit_expressions(Job& job, const std::function<void(const TextPlace&, Expr&)>& visit) {
  TextPlace place;
  change_listings(job, [&](std::vector<Statement>& statements) {
    visit_expressions(statements, [&](Expr& expr) {
      visit(place, expr);
      ++place.number;
    });
    ++place.listing;
  });
}

void visit_statements(Job& job, const std::function<void(const TextPlace&, Statement&)>& visit) {
  TextPlace place;
  change_listings(job, [&](std::vector<Statement>& statements) {
    visit_all(statements, [&](Statement& statement) {
      visit(place, statement);
      ++place.number;
    });
    ++place.listing;
  });
}

// Returns a change that applies to the expressions with these numbers.
ChangeOfJob change_of(std::set<int> numbers, std::function<void(Expr&)> change) {
  return [numbers = std::move(numbers), change = std::move(change)](const Job& job) {
    Job result = job;
    visit_expressions(result, [&](const TextPlace& place, Expr& expr) {
      if (numbers.contains(place.number)) change(expr);
    });
    return result;
  };
}

ChangeOfJob change_of_all(NumberedChanges changes) {
  return [changes = std::move(changes)](const Job& job) {
    Job result = job;
    visit_expressions(result, [&](const TextPlace& place, Expr& expr) {
      if (const auto found = changes.find(place.number); found != changes.end())
        found->second(expr);
    });
    return result;
  };
}

void replace_expression(Expr& expr, Expr by) {
  by.place = expr.place;
  expr = std::move(by);
}

namespace {

// Returns the place of a line in a block; its end if the line is not there.
std::vector<Statement>::iterator find_line(std::vector<Statement>& statements, int line) {
  return std::find_if(statements.begin(), statements.end(),
                      [&](const Statement& one) { return one.place.line == line; });
}

// Calls change(block) for the block that has a line.
void change_block(std::vector<Statement>& statements, int line,
                  const std::function<void(std::vector<Statement>&)>& change) {
  if (find_line(statements, line) != statements.end()) return change(statements);
  for (Statement& one : statements) {
    change_block(one.body, line, change);
    change_block(one.otherwise, line, change);
  }
}

// Returns a change of the block of a listing that has a line.
ChangeOfJob change_of_block(size_t listing, int line,
                            std::function<void(std::vector<Statement>&)> change) {
  return [=, change = std::move(change)](const Job& job) {
    Job result = job;
    Listing& changed = result.ranks.at(listing).listing;
    std::vector<Statement> statements = changed.statements;
    change_block(statements, line, change);
    changed.statements = Statements(std::move(statements));
    return result;
  };
}

}  // namespace

ChangeOfJob with_swapped_lines(size_t listing, int first, int second) {
  return change_of_block(listing, first, [=](std::vector<Statement>& block) {
    const auto a = find_line(block, first), b = find_line(block, second);
    if (b != block.end()) std::swap(*a, *b);
  });
}

ChangeOfJob with_moved_lines(size_t listing, std::vector<int> lines, int line,
                             InsertPosition position) {
  return change_of_block(listing, line, [=](std::vector<Statement>& block) {
    std::vector<Statement> moved;
    for (const int one : lines)
      if (const auto at = find_line(block, one); at != block.end()) {
        moved.push_back(std::move(*at));
        block.erase(at);
      }
    const auto at = find_line(block, line) + (position == InsertPosition::after ? 1 : 0);
    block.insert(at, moved.begin(), moved.end());
  });
}

ChangeOfJob with_inserted_line(size_t listing, int line, InsertPosition position,
                               Statement statement) {
  return change_of_block(listing, line, [=](std::vector<Statement>& block) {
    block.insert(find_line(block, line) + (position == InsertPosition::after ? 1 : 0), statement);
  });
}

ChangeOfJob with_line_in_loop(size_t listing, int line, int loop) {
  return change_of_block(listing, line, [=](std::vector<Statement>& block) {
    const auto at = find_line(block, line), around = find_line(block, loop);
    if (around == block.end()) return;
    around->body.insert(around->body.begin(), *at);
    block.erase(at);
  });
}

std::optional<Job> with_merged_listings(const Job& job) {
  std::vector<JobListing> merged;
  for (const JobListing& one : job.ranks) {
    const auto same = std::find_if(merged.begin(), merged.end(), [&](const JobListing& known) {
      return known.listing == one.listing;
    });
    if (same == merged.end())
      merged.push_back(one);
    else
      same->lanes = same->lanes.unite(one.lanes);
  }
  if (merged.size() == job.ranks.size()) return std::nullopt;
  Job result = job;
  result.ranks = std::move(merged);
  return result;
}

// Returns the argument of a key; null if the call has none.
const Expr* argument_of(const Expr& call, const std::string& key) {
  for (size_t i = 0; i < call.keys.size(); ++i)
    if (call.keys[i] == key) return &call.args[i];
  return nullptr;
}

Expr* argument_of(Expr& call, const std::string& key) {
  return const_cast<Expr*>(argument_of(std::as_const(call), key));
}

bool calls_grad(const Job& job) {
  for (const JobListing& one : job.ranks)
    for (const std::string& line : one.listing.lines)
      if (line.find("grad(") != std::string::npos) return true;
  return false;
}

// Returns "(expr) / by".
Expr scaled_expression(Expr expr, const char* symbol, Expr by) {
  Expr scaled;
  scaled.kind = ExprKind::binary;
  scaled.symbol = symbol;
  scaled.place = by.place = expr.place;
  scaled.args = {std::move(expr), std::move(by)};
  return scaled;
}

Expr scaled_expression(Expr expr, const char* symbol, const Number& size) {
  Expr number;
  number.number = size;
  return scaled_expression(std::move(expr), symbol, std::move(number));
}

// Returns "all_reduce(expr, arguments)".
Expr reduced_expression(Expr expr, const std::string& arguments) {
  Expr reduced = parse_expression(fmt::format("all_reduce(x, {})", arguments));
  reduced.place = expr.place;
  reduced.args[0] = std::move(expr);
  return reduced;
}

}  // namespace shardproof
