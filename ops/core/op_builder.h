// Builders: how an op is written as other ops. An op record writes itself in two places: where it
// is only a name for other ops (OpRecord::expand), before anything else happens to the program; and
// where its inputs lie so that no rank can run it alone (Rule::lower).
//
// Values are handles, global in shape and dtype. A handle below 0 is an absent optional input.
#pragma once

#include <string>
#include <vector>

#include "shardproof/ops/core/sharding_rule.h"
#include "shardproof/program/value/number.h"

namespace shardproof {

inline constexpr int kAbsent = -1;

class OpBuilder {
 public:
  virtual ~OpBuilder() = default;
  virtual int input(int i) = 0;  // kAbsent when it was not given
  // All results of an op; attributes that are left out have their fallbacks.
  virtual std::vector<int> ops(const std::string& name, Attrs attrs, std::vector<int> inputs) = 0;
  virtual int number(Number value) = 0;  // weak 0-d
  virtual const TensorMeta& meta(int value) = 0;
  // What is written follows from the sizes of a value, not only from its dtype and dims.
  virtual void reads_sizes() {}
  int op(const std::string& name, Attrs attrs, std::vector<int> inputs) {
    return ops(name, std::move(attrs), std::move(inputs)).front();
  }
};

// Under `lower` each value has a placement, from its op's own rule, with inputs taken as they lie
// where legal.
class LowerBuilder : public OpBuilder {
 public:
  virtual int redistribute(int value, const std::vector<Placement>& placements) = 0;
  virtual int replicate_partials(int value) = 0;  // P axes become R, others stay
  virtual const Spec& spec(int value) = 0;
};

}  // namespace shardproof
