// NameTable: the bindings of names while a listing is lowered. A name has disjoint parts, one for
// each set of lanes that bound it. A part is a value or a number, with the line that last bound or
// wrote it.
#pragma once

#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "shardproof/engine/lower/per_rank_number.h"
#include "shardproof/program/ir/spmd_program.h"

namespace shardproof {

using Binding = std::variant<ValueId, PerRankNumber>;

// True if a set is empty or all its lanes are below those of the other. May return false for other
// disjoint sets.
inline bool lie_apart(const Lanes& a, const Lanes& b) {
  return a.empty() || b.empty() || a[a.size() - 1] < b[0] || b[b.size() - 1] < a[0];
}

class NameTable {
 public:
  struct Part {
    Lanes lanes;
    Binding binding;
    int line = 0;              // of the statement that last bound or wrote it
    SharedText instance = {};  // the loop pass of that statement
  };
  using Parts = std::vector<Part>;
  using Values = std::vector<std::pair<ValueId, Lanes>>;

  // Returns the parts of a name; null if it was never bound. A freed name has no parts.
  const Parts* find(const std::string& name) const;
  const std::map<std::string, Parts>& all() const { return names_; }

  // Adds a part. Requires that no part of the name has any of its lanes.
  void add(const std::string& name, Part part);
  // Removes the bindings of a name on these lanes and returns the values that it had there.
  Values remove(const std::string& name, const Lanes& lanes);
  // Replaces the bindings of a name on the lanes of the part, and returns the values that it had
  // there.
  Values rebind(const std::string& name, Part&& part);
  // Removes a name without parts, as if it had never been bound.
  void erase_if_unbound(const std::string& name);

  // Returns the lanes on which some name has the value.
  Lanes lanes_of(ValueId value) const;
  // Sets the line of the part of a name that has exactly these lanes.
  void set_line(const std::string& name, const Lanes& lanes, int line);
  // Sets line and pass of each part for which `selects(value, lanes)` is true.
  template <class Selects>
  void mark_written(int line, const SharedText& instance, Selects selects) {
    for (auto& [name, parts] : names_)
      for (Part& part : parts)
        if (const ValueId* id = std::get_if<ValueId>(&part.binding))
          if (selects(*id, part.lanes)) {
            part.line = line;
            part.instance = instance;
          }
  }

 private:
  using Names = std::map<std::string, Parts>;
  void insert(Names::value_type& name, Part&& part);
  Values cut(Names::value_type& name, const Lanes& lanes);
  void drop_holder(ValueId value, const Names::value_type& name);

  Names names_;
  // The names of each value that has one. Names in it have parts.
  std::unordered_multimap<ValueId, const Names::value_type*> names_of_;
};

}  // namespace shardproof
