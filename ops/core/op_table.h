// Tables of ops: a family of ops that differ only in the columns of a table. A row is a struct of
// the family's source with at least `name` and `summary`; the family's functions read the rest.
//
//   const UnaryRow kUnaryRows[] = {{"neg", "-x", unary<Neg>, ...}, {"abs", "|x|", unary<Abs>,
//   ...}}; add_rows(ops, kUnaryTable, kUnaryRows);
#pragma once

#include <cstddef>
#include <vector>

#include "shardproof/ops/core/op.h"

namespace shardproof {

// The functions of a family. Each gets the row of the op, which must outlive the registry.
template <typename Row>
struct OpTable {
  const char* family;
  std::vector<Param> (*params)(const Row&);
  std::vector<TensorMeta> (*infer)(const Row&, const OpCall&);
  Kernel (*prepare)(const Row&, const OpCall&, const std::vector<TensorMeta>& outputs);
  std::vector<Strategy> (*strategies)(const Row&, const OpCall&,
                                      const std::vector<TensorMeta>& outputs);
  std::vector<Sample> (*samples)(const Row&);
  // Sets the remaining fields of a record: cost, check, lowering, decompositions. Null: none.
  void (*complete)(const Row&, OpRecord&) = nullptr;
};

// Returns the record of one row.
template <typename Row>
OpRecord record_of_row(const OpTable<Row>& table, const Row& row) {
  OpRecord op;
  op.name = row.name;
  op.family = table.family;
  op.summary = row.summary;
  op.params = table.params(row);
  op.infer = [&row, infer = table.infer](const OpCall& call) { return infer(row, call); };
  op.prepare = [&row, prepare = table.prepare](const OpCall& call,
                                               const std::vector<TensorMeta>& outputs) {
    return prepare(row, call, outputs);
  };
  op.rule.strategies = [&row, strategies = table.strategies](
                           const OpCall& call, const std::vector<TensorMeta>& outputs, int64_t) {
    return strategies(row, call, outputs);
  };
  op.samples = [&row, samples = table.samples] { return samples(row); };
  if (table.complete) table.complete(row, op);
  return op;
}

// Adds one op for each row, in the order of the table.
template <typename Row, size_t kCount>
void add_rows(OpRegistry& ops, const OpTable<Row>& table, const Row (&rows)[kCount]) {
  for (const Row& row : rows) ops.add(record_of_row(table, row));
}

}  // namespace shardproof
