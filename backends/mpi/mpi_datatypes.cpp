// Implements mpi_datatypes.h. MPI calls a user function without context, so a template makes one
// function for each pair of operator and dtype.
#include "shardproof/backends/mpi/mpi_datatypes.h"

#include <array>
#include <utility>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {
namespace {

// The operators that join partial results; avg, premul_sum and norm join as sums.
constexpr ReduceOp kJoins[] = {ReduceOp::sum,  ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                               ReduceOp::band, ReduceOp::bor,  ReduceOp::bxor};
constexpr size_t kJoinCount = std::size(kJoins);

size_t join_of(ReduceOp op) {
  for (size_t i = 0; i < kJoinCount; ++i)
    if (kJoins[i] == op) return i;
  return 0;
}

// MPI gives its functions no context: there is one for each operator and dtype.
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

// Excludes narrow integers: Open MPI's sums of them saturate if the processor has an instruction
// for that; ours wrap.
MPI_Datatype own_type(DType dtype) {
  switch (dtype) {
    case DType::f64: return MPI_DOUBLE;
    case DType::f32: return MPI_FLOAT;
    case DType::i64: return MPI_INT64_T;
    case DType::i32: return MPI_INT32_T;
    default: return MPI_DATATYPE_NULL;
  }
}

void check_type_call(int code) { SP_CHECK(code == MPI_SUCCESS, "MPI reports {}", code); }

}  // namespace

MpiDatatypes::~MpiDatatypes() {
  for (auto& [key, op] : made_ops_) MPI_Op_free(&op);
  for (auto& [dtype, type] : made_types_) MPI_Type_free(&type);
}

MPI_Datatype MpiDatatypes::type(DType dtype) {
  if (const MPI_Datatype known = own_type(dtype); known != MPI_DATATYPE_NULL) return known;
  const auto [at, fresh] = made_types_.emplace(dtype, MPI_DATATYPE_NULL);
  if (fresh) {
    check_type_call(MPI_Type_contiguous(static_cast<int>(size_of(dtype)), MPI_BYTE, &at->second));
    check_type_call(MPI_Type_commit(&at->second));
  }
  return at->second;
}

MPI_Op MpiDatatypes::op(ReduceOp reduction, DType dtype) {
  const size_t join = join_of(reduction);
  if (kJoins[join] == ReduceOp::sum && own_type(dtype) != MPI_DATATYPE_NULL) return MPI_SUM;
  const auto [at, fresh] = made_ops_.emplace(std::pair(kJoins[join], dtype), MPI_OP_NULL);
  if (fresh) {
    MPI_User_function* const function = kFunctions[static_cast<size_t>(dtype) * kJoinCount + join];
    check_type_call(MPI_Op_create(function, 1, &at->second));
  }
  return at->second;
}

}  // namespace shardproof
