#include "shardproof/backends/mpi/detail/mpi_transport.h"

#include <malloc.h>
#include <mpi.h>

#include <algorithm>
#include <climits>
#include <deque>
#include <map>

#include "shardproof/backends/mpi/detail/mpi_datatypes.h"
#include "shardproof/localtensor/error.h"

namespace shardproof {
namespace {

constexpr int64_t kChunk = int64_t{1} << 30;  // elements of one MPI call
constexpr int kTags = 32768;                  // every MPI has as many
constexpr int kGroupTag = 1;

void check(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  SP_UNREACHABLE("MPI says {}", text);
}

// Pieces of an exchange as MPI wants them. Throws Error(limit) where they do not fit into an int.
struct Counts {
  std::vector<int> counts, starts;
  explicit Counts(const std::vector<int64_t>& pieces) {
    int64_t start = 0;
    for (int64_t piece : pieces) {
      if (start + piece > INT_MAX)
        throw Error(
            ErrorKind::limit,
            fmt::format("MPI counts to {}: an exchange of more elements is refused", INT_MAX));
      counts.push_back(static_cast<int>(piece));
      starts.push_back(static_cast<int>(start));
      start += piece;
    }
  }
};

// MPI allocates as much as a reduction's contents for each one: from fresh pages, that takes longer
// than the reduction.
void keep_pages() {
  constexpr int kKept = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

class MpiTransport : public Transport {
 public:
  MpiTransport() {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    check(MPI_Comm_rank(MPI_COMM_WORLD, &self_));
    check(MPI_Comm_size(MPI_COMM_WORLD, &processes_));
    datatypes_ = std::make_unique<MpiDatatypes>();
    keep_pages();
  }
  ~MpiTransport() override {
    for (auto& [team, comm] : comms_) MPI_Comm_free(&comm);
    datatypes_.reset();
    MPI_Finalize();
  }

  int processes() const override { return processes_; }
  int self() const override { return self_; }

  void start(const Exchange& e) override {
    SP_CHECK(requests_.empty(), "an exchange is started while another is under way");
    kept_.clear();
    switch (e.kind) {
      case CollectiveKind::send:
      case CollectiveKind::recv: return start_message(e);
      case CollectiveKind::barrier: check(MPI_Ibarrier(comm(e), fresh())); return;
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return start_reduction(e);
      case CollectiveKind::broadcast: return start_broadcast(e);
      default: return start_pieces(e);
    }
  }

  bool done() override {
    int flag = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag,
                      MPI_STATUSES_IGNORE));
    if (flag != 0) requests_.clear();
    return flag != 0;
  }

 private:
  MPI_Request* fresh() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  // All processes of the team make it at the same place of their order.
  MPI_Comm comm(const Exchange& e) {
    if (static_cast<int>(e.team.size()) == processes_) return MPI_COMM_WORLD;
    const auto [at, first] = comms_.emplace(e.team, MPI_COMM_NULL);
    if (!first) return at->second;
    MPI_Group all, some;
    check(MPI_Comm_group(MPI_COMM_WORLD, &all));
    check(MPI_Group_incl(all, static_cast<int>(e.team.size()), e.team.data(), &some));
    check(MPI_Comm_create_group(MPI_COMM_WORLD, some, kGroupTag, &at->second));
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return at->second;
  }

  // Parts that an int can count.
  template <typename F>
  static void in_chunks(int64_t count, int64_t size, F&& part) {
    int64_t at = 0;
    do {
      const int64_t length = std::min(kChunk, count - at);
      part(at * size, static_cast<int>(length));
      at += length;
    } while (at < count);
  }

  void start_message(const Exchange& e) {
    const int other = e.team[static_cast<size_t>(e.root)];
    const int tag = kGroupTag + 1 + static_cast<int>(e.number % (kTags - kGroupTag - 1));
    in_chunks(e.count, 1, [&](int64_t at, int length) {
      if (e.kind == CollectiveKind::send) {
        check(MPI_Isend(e.send + (length == 0 ? 0 : at), length, MPI_BYTE, other, tag,
                        MPI_COMM_WORLD, fresh()));
      } else {
        check(MPI_Irecv(e.recv + (length == 0 ? 0 : at), length, MPI_BYTE, other, tag,
                        MPI_COMM_WORLD, fresh()));
      }
    });
  }

  void start_reduction(const Exchange& e) {
    const MPI_Datatype type = datatypes_->type(e.dtype);
    const MPI_Op op = datatypes_->op(e.reduction.op, e.dtype);
    const MPI_Comm team = comm(e);
    in_chunks(e.count, size_of(e.dtype), [&](int64_t at, int length) {
      if (e.kind == CollectiveKind::all_reduce) {
        check(MPI_Iallreduce(e.send + at, e.recv + at, length, type, op, team, fresh()));
      } else {
        check(MPI_Ireduce(e.send + at, e.recv + at, length, type, op, e.root, team, fresh()));
      }
    });
  }

  void start_broadcast(const Exchange& e) {
    const MPI_Comm team = comm(e);
    in_chunks(e.count, size_of(e.dtype), [&](int64_t at, int length) {
      check(MPI_Ibcast(e.recv + at, length, datatypes_->type(e.dtype), e.root, team, fresh()));
    });
  }

  void start_pieces(const Exchange& e) {
    const Counts& out = kept_.emplace_back(e.send_counts);
    const Counts& in = kept_.emplace_back(e.recv_counts);
    const Counts mine({e.count});
    const int own = mine.counts.front();
    const MPI_Datatype type = datatypes_->type(e.dtype);
    const MPI_Comm team = comm(e);
    switch (e.kind) {
      case CollectiveKind::reduce_scatter:
        check(MPI_Ireduce_scatter(e.send, e.recv, in.counts.data(), type,
                                  datatypes_->op(e.reduction.op, e.dtype), team, fresh()));
        return;
      case CollectiveKind::all_gather:
        check(MPI_Iallgatherv(e.send, own, type, e.recv, in.counts.data(), in.starts.data(), type,
                              team, fresh()));
        return;
      case CollectiveKind::gather:
        check(MPI_Igatherv(e.send, own, type, e.recv, in.counts.data(), in.starts.data(), type,
                           e.root, team, fresh()));
        return;
      case CollectiveKind::scatter:
        check(MPI_Iscatterv(e.send, out.counts.data(), out.starts.data(), type, e.recv, own, type,
                            e.root, team, fresh()));
        return;
      case CollectiveKind::all_to_all:
      case CollectiveKind::all_to_all_v:
        check(MPI_Ialltoallv(e.send, out.counts.data(), out.starts.data(), type, e.recv,
                             in.counts.data(), in.starts.data(), type, team, fresh()));
        return;
      default: SP_UNREACHABLE("{} is no exchange of pieces", name(e.kind));
    }
  }

  int self_ = 0, processes_ = 1;
  std::unique_ptr<MpiDatatypes> datatypes_;
  std::map<std::vector<int>, MPI_Comm> comms_;
  std::vector<MPI_Request> requests_;
  std::deque<Counts> kept_;  // MPI reads them until the exchange is done
};

}  // namespace

std::unique_ptr<Transport> mpi_transport() { return std::make_unique<MpiTransport>(); }

}  // namespace shardproof
