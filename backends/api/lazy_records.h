// LazyRecords: the flight record of a run, made when it is first read. If peers differ by rank, a
// call of many ranks is one record a rank, and most runs read no record. Totals of calls are
// computed from the recorder's own state. Copies share the recorder's contents; not thread-safe.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shardproof/localtensor/report/call_record.h"
#include "shardproof/sim/analysis/call_totals.h"

namespace shardproof {

class RecordSource {
 public:
  virtual ~RecordSource() = default;
  virtual std::vector<Record> records() = 0;  // in order (sim/analysis/record_order.h)
  virtual std::vector<CallTotal> call_totals() = 0;
};

class LazyRecords {
 public:
  LazyRecords() = default;
  explicit LazyRecords(std::shared_ptr<RecordSource> source) : source_(std::move(source)) {}

  const std::vector<Record>& all() const {
    if (source_ && !is_made_) {
      made_ = source_->records();
      is_made_ = true;
    }
    return made_;
  }
  operator const std::vector<Record>&() const { return all(); }
  auto begin() const { return all().begin(); }
  auto end() const { return all().end(); }
  size_t size() const { return all().size(); }
  bool empty() const { return all().empty(); }
  const Record& operator[](size_t i) const { return all()[i]; }
  bool operator==(const LazyRecords& other) const { return all() == other.all(); }

  // Calls that are done, without making the records.
  std::vector<CallTotal> call_totals() const {
    return source_ ? source_->call_totals() : std::vector<CallTotal>();
  }
  void clear() { *this = LazyRecords(); }

 private:
  std::shared_ptr<RecordSource> source_;
  mutable std::vector<Record> made_;
  mutable bool is_made_ = false;
};

}  // namespace shardproof
