#include "shardproof/backends/mpi/mpi_datatypes.h"

#include <array>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {
namespace {

// What partial results are joined by: avg, premul_sum and norm are sums on their way.
constexpr ReduceOp kJoins[] = {ReduceOp::sum,  ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                               ReduceOp::band, ReduceOp::bor,  ReduceOp::bxor};
constexpr size_t kJoinCount = std::size(kJoins);

size_t join_of(ReduceOp op) {
  for (size_t i = 0; i < kJoinCount; ++i)
    if (kJoins[i] == op) return i;
  return 0;
}

// MPI's functions get no context, so there is one for each operator and dtype.
template <size_t kIndex>
void join(void* in, void* inout, int* count, MPI_Datatype*) {
  const Reduction reduction{kJoins[kIndex % kJoinCount], 0};
  const DType dtype = static_cast<DType>(kIndex / kJoinCount);
  std::byte* const sum = static_cast<std::byte*>(inout);
  const std::byte* const inputs[] = {static_cast<const std::byte*>(in), sum};
  fold_part(FoldPart::joining, reduction, dtype, inputs, *count, 2, sum);
}

template <size_t... kIndices>
constexpr auto functions_of(std::index_sequence<kIndices...>) {
  return std::array<MPI_User_function*, sizeof...(kIndices)>{join<kIndices>...};
}
constexpr auto kFunctions = functions_of(std::make_index_sequence<kJoinCount * kDTypeCount>());

// Not the narrow integers: Open MPI's sums of these stop at the largest number where the processor
// has an instruction for it, ours wrap.
MPI_Datatype own_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return MPI_DOUBLE;
    case DType::f32: return MPI_FLOAT;
    case DType::i64: return MPI_INT64_T;
    case DType::i32: return MPI_INT32_T;
    default: return MPI_DATATYPE_NULL;
  }
}

void check(int code) { SP_CHECK(code == MPI_SUCCESS, "MPI says {}", code); }

}  // namespace

MpiDatatypes::~MpiDatatypes() {
  for (auto& [key, op] : made_ops_) MPI_Op_free(&op);
  for (auto& [dtype, type] : made_types_) MPI_Type_free(&type);
}

MPI_Datatype MpiDatatypes::type(DType dtype) {
  if (const MPI_Datatype known = own_type(dtype); known != MPI_DATATYPE_NULL) return known;
  const auto [at, fresh] = made_types_.emplace(dtype, MPI_DATATYPE_NULL);
  if (fresh) {
    check(MPI_Type_contiguous(static_cast<int>(size_of(dtype)), MPI_BYTE, &at->second));
    check(MPI_Type_commit(&at->second));
  }
  return at->second;
}

MPI_Op MpiDatatypes::op(ReduceOp reduction, DType dtype) {
  const size_t join = join_of(reduction);
  if (kJoins[join] == ReduceOp::sum && own_type(dtype) != MPI_DATATYPE_NULL) return MPI_SUM;
  const auto [at, fresh] = made_ops_.emplace(std::pair(kJoins[join], dtype), MPI_OP_NULL);
  if (fresh) {
    MPI_User_function* const function = kFunctions[static_cast<size_t>(dtype) * kJoinCount + join];
    check(MPI_Op_create(function, 1, &at->second));
  }
  return at->second;
}

}  // namespace shardproof
