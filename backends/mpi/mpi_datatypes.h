// MpiDatatypes: MPI's datatypes and operators for every dtype and reduction; makes those that MPI
// lacks. Internal to the mpi backend. Owns what it makes; must end before MPI_Finalize.
#pragma once

#include <mpi.h>

#include <map>

#include "shardproof/localtensor/collective/collective.h"

namespace shardproof {

class MpiDatatypes {
 public:
  MpiDatatypes() = default;
  ~MpiDatatypes();
  MpiDatatypes(const MpiDatatypes&) = delete;
  MpiDatatypes& operator=(const MpiDatatypes&) = delete;

  // Returns MPI's own type if MPI reduces it with our result, else a type of as many bytes as
  // `dtype`.
  MPI_Datatype type(DType dtype);
  // Returns the operator that joins partial results: avg, premul_sum and norm join as sums.
  MPI_Op op(ReduceOp reduction, DType dtype);

 private:
  std::map<DType, MPI_Datatype> made_types_;
  std::map<std::pair<ReduceOp, DType>, MPI_Op> made_ops_;
};

}  // namespace shardproof
