// MPI's datatypes and operators for every dtype and reduction, also those MPI does not have.
// Internal to the mpi backend.
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

  // Elements are folded as MPI's own type where MPI adds it as we do, else as so many bytes.
  MPI_Datatype type(DType dtype);
  // Joins partial results.
  MPI_Op op(ReduceOp reduction, DType dtype);

 private:
  std::map<DType, MPI_Datatype> made_types_;
  std::map<std::pair<ReduceOp, DType>, MPI_Op> made_ops_;
};

}  // namespace shardproof
