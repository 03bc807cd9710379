// Tape: the ops that a listing has applied so far, as entries that `grad` walks backward. Filled
// while a listing is lowered, before composite ops are decomposed, and only if the listing calls
// `grad`.
//
// An entry reads and makes *versions* of values. A value has one version until a rank program
// writes it in place. Each write makes a new version of the value and of all values that share its
// memory.
//
// Example: y = x * x; x[0] = 3; z = x + y. The entries are mul(x.0, x.0) -> y.0, write(x.0, 3) ->
// x.1, add(x.1, y.0) -> z.0. The gradient of mul needs x.0, which the write has replaced, so
// grad(z, ..) is an error that states both lines.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shardproof/ops/core/op.h"
#include "shardproof/program/ir/spmd_program.h"
#include "shardproof/program/syntax/ast.h"

namespace shardproof {

using VersionId = int32_t;  // of a version of a value
inline constexpr VersionId kNoVersion = -1;

enum class TapeKind {
  op,
  merge,  // one value of the parts of several on disjoint lanes
  move,   // redistribute: the same global value
  claim,  // `as`: the same local shards
  write,  // in place: outputs[0] is inputs[0] with inputs[1] in a part of it
  call,   // a collective of rank programs
};

struct TapeEntry {
  TapeKind kind = TapeKind::op;
  Lanes lanes;
  std::vector<VersionId> inputs, outputs;  // an absent optional input is kNoVersion
  // Kind `op`. The record is null if the value is known, but not how it was computed.
  const OpRecord* op = nullptr;
  std::vector<LaneAttrs> attrs;
  size_t wanted = 1;         // results that the statement uses
  std::vector<Lanes> parts;  // kind `merge`: the lanes of each input
  // Kind `write`: the entries of the views that lead from the whole value to the part.
  std::vector<size_t> views;
  // Kind `call`: the verb, and a function that emits the gradient by the input from the gradient by
  // the result on the current lanes. Null: grad stops here.
  std::string verb;
  std::function<ValueId(ValueId)> backward;
  // Kinds `call`, `move` and `claim`: a function that emits the same again on its input, on the
  // current lanes, and returns the result. Null: recompute= does not take the result.
  std::function<ValueId(ValueId)> repeat;
  bool local = false;  // inside `as`
  Origin origin;
};

class Tape {
 public:
  // Returns the present version of a value; kNoVersion of kNoValue.
  VersionId present(ValueId value);
  ValueId value(VersionId version) const { return at(version).value; }
  // Returns the entry that made a version, or -1: an input, a number, a received value.
  int maker(VersionId version) const { return at(version).maker; }
  const TapeEntry& entry(int index) const { return entries_[static_cast<size_t>(index)]; }
  int size() const { return static_cast<int>(entries_.size()); }

  // Appends an entry whose inputs and outputs are the present versions of these values. Records
  // nothing while it is paused.
  void record(TapeEntry entry, const std::vector<ValueId>& inputs,
              const std::vector<ValueId>& outputs);
  // Makes a new version of `value`, which `entry` makes from `inputs` on its lanes.
  void record_new_version(TapeEntry entry, const std::vector<VersionId>& inputs, ValueId value);
  // Returns the line that has written the value in place after this version, on one of the lanes.
  std::optional<Origin> overwritten(VersionId version, const Lanes& lanes) const;

  // A composite op with a gradient of its own is one entry, without those of its decomposition.
  class Pause {
   public:
    explicit Pause(Tape* tape) : tape_(tape) {
      if (tape_ != nullptr) ++tape_->paused_;
    }
    ~Pause() {
      if (tape_ != nullptr) --tape_->paused_;
    }
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;

   private:
    Tape* tape_;
  };

 private:
  struct Version {
    ValueId value = kNoValue;
    int maker = -1;
    VersionId next = kNoVersion;  // after a write in place
    Lanes written_on = {};        // lanes of that write
    Origin written_at = {};
  };
  const Version& at(VersionId version) const { return versions_[static_cast<size_t>(version)]; }
  void append(TapeEntry entry);

  std::vector<TapeEntry> entries_;
  std::vector<Version> versions_;
  std::map<ValueId, VersionId> present_;
  int paused_ = 0;
};

// True if a statement calls the verb anywhere.
bool calls_verb(const std::vector<Statement>& statements, const std::string& verb);

}  // namespace shardproof
