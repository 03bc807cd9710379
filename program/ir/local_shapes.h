// LocalShapes: the local shapes of a value, each on some lanes. Copies share one list.
#pragma once

#include <initializer_list>
#include <map>
#include <vector>

#include "shardproof/localtensor/base/dims.h"
#include "shardproof/localtensor/base/lanes.h"
#include "shardproof/program/value/shared.h"

namespace shardproof {

struct LocalShape {
  Lanes lanes;
  Dims shape;
  bool operator==(const LocalShape&) const = default;
};

// In order of the first rank. Invariant: the lanes are disjoint and not empty.
class LocalShapes {
 public:
  LocalShapes() = default;
  LocalShapes(std::vector<LocalShape> shapes);  // in any order
  LocalShapes(std::initializer_list<LocalShape> shapes)
      : LocalShapes(std::vector<LocalShape>(shapes)) {}
  const std::vector<LocalShape>& list() const {
    static const std::vector<LocalShape> none;
    return shapes_ ? *shapes_ : none;
  }
  operator const std::vector<LocalShape>&() const { return list(); }
  auto begin() const { return list().begin(); }
  auto end() const { return list().end(); }
  size_t size() const { return list().size(); }
  bool empty() const { return list().empty(); }
  const LocalShape& operator[](size_t i) const { return list()[i]; }
  const LocalShape& at(size_t i) const { return list().at(i); }
  bool operator==(const LocalShapes&) const = default;

  // Returns the shape on a rank; null if the value is not on it. Takes logarithmic time if the
  // lanes of no two shapes interleave.
  const LocalShape* find(int64_t rank) const;
  Lanes lanes() const;  // of all shapes

 private:
  Shared<std::vector<LocalShape>> shapes_;
};

// Collects the shapes of a value, each on some lanes. Lanes of equal shape become one LocalShape.
// Takes time linear in the lanes, and logarithmic in the shapes for each.
class ShapesByLanes {
 public:
  void add(const Lanes& lanes, const Dims& shape);
  LocalShapes shapes() const;

 private:
  std::map<Dims, std::vector<Lanes>> lanes_;
};

}  // namespace shardproof
