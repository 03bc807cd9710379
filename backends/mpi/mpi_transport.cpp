// Implements mpi_transport.h.
//
// Reductions and broadcasts are MPI's non-blocking collectives. Copies (gather, scatter,
// all-to-all) and reduce_scatter are point-to-point messages: MPI's collectives count all pieces
// together in one int. done() tests all requests; partial results that arrived as messages are then
// folded in rank order.
//
// run() waits, so it may take MPI's blocking form of a reduction or broadcast where that is faster.
// Measured with Open MPI 4.1, 2 processes, non-blocking in brackets: all_reduce of 8 B 0.95 us
// (2.1), of 1 MiB 194 us (196), of 64 MiB 50 ms (24). reduce of 256 KiB: 34 us (92). Other kinds
// take the same time in both forms.
#include "shardproof/backends/mpi/mpi_transport.h"

#include <malloc.h>
#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <map>

#include "shardproof/backends/mpi/mpi_datatypes.h"
#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/collective/partial_fold.h"

namespace shardproof {
namespace {

constexpr int kTags = 32768;  // the least number of tags that MPI guarantees
constexpr int kGroupTag = 1;
constexpr int64_t kBlockingAllReduceBytes = 1 << 20;

void check_mpi(int code) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  SP_UNREACHABLE("MPI reports {}", text);
}

// MPI allocates a buffer of the reduction's size for each one. Fresh pages for it would take longer
// than the reduction.
void keep_pages() {
  constexpr int kKept = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kKept);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

// Open MPI's handlers of these signals print a stack trace. They wait forever if the signal came
// while the process held the lock of malloc, and the process would not count as lost.
void restore_signals() {
  for (const int signal : {SIGABRT, SIGBUS, SIGFPE, SIGSEGV}) std::signal(signal, SIG_DFL);
}

// The contents from or to one process of the team: offset in bytes, count in elements.
struct MpiPiece {
  int64_t start = 0, count = 0;
};

std::vector<MpiPiece> one_after_another(const Exchange& e, const std::vector<int64_t>& counts) {
  std::vector<MpiPiece> pieces;
  pieces.reserve(counts.size());
  const int64_t size = size_of(e.dtype);
  int64_t start = 0;
  for (const int64_t count : counts) {
    pieces.push_back({start, count});
    start += count * size;
  }
  return pieces;
}

class MpiTransport : public Transport {
 public:
  explicit MpiTransport(int64_t most) : most_(most) {
    int provided = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
    restore_signals();
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &self_));
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &processes_));
    datatypes_ = std::make_unique<MpiDatatypes>();
    keep_pages();
  }
  ~MpiTransport() override {
    for (auto& [team, comm] : comms_)
      if (!aborted_) MPI_Comm_free(&comm);
    datatypes_.reset();
    if (!aborted_) MPI_Finalize();  // waits for all processes
  }

  int processes() const override { return processes_; }
  int self() const override { return self_; }
  void abort() noexcept override { aborted_ = true; }

  void start(std::span<const Exchange> exchanges) override {
    SP_CHECK(requests_.empty(), "an exchange is started while another is under way");
    for (const Exchange& e : exchanges) start_one(e);
  }

  void run(std::span<const Exchange> exchanges) override {
    if (exchanges.size() == 1 && has_faster_blocking_form(exchanges.front()))
      return run_blocking(exchanges.front());
    Transport::run(exchanges);
  }

  bool done() override {
    int flag = 0;
    check_mpi(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag,
                          MPI_STATUSES_IGNORE));
    if (flag == 0) return false;
    requests_.clear();
    for (const Fold& fold : folds_) fold_parts(fold);
    folds_.clear();
    return true;
  }

 private:
  // A reduction to be done when its parts have arrived: those of all other processes of the team.
  struct Fold {
    Exchange exchange;
    std::vector<Bytes> parts;
  };

  void start_one(const Exchange& e) {
    switch (e.kind) {
      case CollectiveKind::send:
      case CollectiveKind::recv: return start_message(e);
      case CollectiveKind::barrier: check_mpi(MPI_Ibarrier(comm(e), fresh())); return;
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce: return start_reduction(e);
      case CollectiveKind::broadcast: return start_broadcast(e);
      case CollectiveKind::reduce_scatter: return start_reduce_scatter(e);
      default: return start_copies(e);
    }
  }

  bool has_faster_blocking_form(const Exchange& e) const {
    switch (e.kind) {
      case CollectiveKind::barrier: return true;
      case CollectiveKind::reduce:
      case CollectiveKind::broadcast: return e.count <= most_;
      case CollectiveKind::all_reduce:
        return e.count <= most_ && e.count * size_of(e.dtype) <= kBlockingAllReduceBytes;
      default: return false;
    }
  }

  void run_blocking(const Exchange& e) {
    const MPI_Comm team = comm(e);
    if (e.kind == CollectiveKind::barrier) return check_mpi(MPI_Barrier(team));
    const MPI_Datatype type = datatypes_->type(e.dtype);
    const int count = static_cast<int>(e.count);
    if (e.kind == CollectiveKind::broadcast)
      return check_mpi(MPI_Bcast(e.recv, count, type, e.root, team));
    const MPI_Op op = datatypes_->op(e.reduction.op, e.dtype);
    if (e.kind == CollectiveKind::all_reduce)
      return check_mpi(MPI_Allreduce(e.send, e.recv, count, type, op, team));
    check_mpi(MPI_Reduce(e.send, e.recv, count, type, op, e.root, team));
  }

  MPI_Request* fresh() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

  // Returns the communicator of a team. All its processes make it at the same place in their order.
  MPI_Comm comm(const Exchange& e) {
    if (static_cast<int>(e.team.size()) == processes_) return MPI_COMM_WORLD;
    const auto [at, first] = comms_.emplace(e.team, MPI_COMM_NULL);
    if (!first) return at->second;
    MPI_Group all, some;
    check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &all));
    check_mpi(MPI_Group_incl(all, static_cast<int>(e.team.size()), e.team.data(), &some));
    check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, some, kGroupTag, &at->second));
    MPI_Group_free(&some);
    MPI_Group_free(&all);
    return at->second;
  }

  // Calls part(byte offset, elements) for each piece of at most most_ elements.
  template <typename F>
  void in_chunks(int64_t count, int64_t size, F&& part) const {
    for (int64_t at = 0; at < count; at += most_)
      part(at * size, static_cast<int>(std::min(most_, count - at)));
  }

  void send(const std::byte* from, int64_t count, DType dtype, int to) {
    const MPI_Datatype type = datatypes_->type(dtype);
    in_chunks(count, size_of(dtype), [&](int64_t at, int length) {
      check_mpi(MPI_Isend(from + at, length, type, to, kGroupTag, MPI_COMM_WORLD, fresh()));
    });
  }
  void receive(std::byte* into, int64_t count, DType dtype, int from) {
    const MPI_Datatype type = datatypes_->type(dtype);
    in_chunks(count, size_of(dtype), [&](int64_t at, int length) {
      check_mpi(MPI_Irecv(into + at, length, type, from, kGroupTag, MPI_COMM_WORLD, fresh()));
    });
  }

  size_t position_in(const Exchange& e) const {
    return static_cast<size_t>(std::lower_bound(e.team.begin(), e.team.end(), self_) -
                               e.team.begin());
  }
  bool is_root(const Exchange& e) const { return e.root == static_cast<int>(position_in(e)); }

  // Return what this process sends to each process of the team, and receives from each.
  std::vector<MpiPiece> pieces_out(const Exchange& e) const {
    const bool pieces = e.kind == CollectiveKind::all_to_all || has_counts(e.kind) ||
                        (e.kind == CollectiveKind::scatter && is_root(e));
    if (pieces) return one_after_another(e, e.send_counts);
    std::vector<MpiPiece> out(e.team.size());
    if (e.kind == CollectiveKind::gather) out[static_cast<size_t>(e.root)].count = e.count;
    if (e.kind == CollectiveKind::all_gather)
      for (MpiPiece& piece : out) piece.count = e.count;
    return out;
  }
  std::vector<MpiPiece> pieces_in(const Exchange& e) const {
    if (e.kind == CollectiveKind::gather && !is_root(e))
      return std::vector<MpiPiece>(e.team.size());
    if (e.kind != CollectiveKind::scatter) return one_after_another(e, e.recv_counts);
    std::vector<MpiPiece> in(e.team.size());
    in[static_cast<size_t>(e.root)].count = e.count;
    return in;
  }

  void start_message(const Exchange& e) {
    const int other = e.team[static_cast<size_t>(e.root)];
    const int tag = kGroupTag + 1 + static_cast<int>(e.number % (kTags - kGroupTag - 1));
    in_chunks(e.count, 1, [&](int64_t at, int length) {
      if (e.kind == CollectiveKind::send) {
        check_mpi(MPI_Isend(e.send + at, length, MPI_BYTE, other, tag, MPI_COMM_WORLD, fresh()));
      } else {
        check_mpi(MPI_Irecv(e.recv + at, length, MPI_BYTE, other, tag, MPI_COMM_WORLD, fresh()));
      }
    });
  }

  void start_reduction(const Exchange& e) {
    const MPI_Datatype type = datatypes_->type(e.dtype);
    const MPI_Op op = datatypes_->op(e.reduction.op, e.dtype);
    const MPI_Comm team = comm(e);
    in_chunks(e.count, size_of(e.dtype), [&](int64_t at, int length) {
      if (e.kind == CollectiveKind::all_reduce) {
        check_mpi(MPI_Iallreduce(e.send + at, e.recv + at, length, type, op, team, fresh()));
      } else {
        check_mpi(MPI_Ireduce(e.send + at, e.recv + at, length, type, op, e.root, team, fresh()));
      }
    });
  }

  void start_broadcast(const Exchange& e) {
    const MPI_Comm team = comm(e);
    in_chunks(e.count, size_of(e.dtype), [&](int64_t at, int length) {
      check_mpi(MPI_Ibcast(e.recv + at, length, datatypes_->type(e.dtype), e.root, team, fresh()));
    });
  }

  // Each process receives the others' parts of its piece and folds them in rank order. MPI's own
  // reduce_scatter moves more: it reduces everything on one process first.
  void start_reduce_scatter(const Exchange& e) {
    const std::vector<MpiPiece> out = one_after_another(e, e.recv_counts);
    const size_t own = position_in(e);
    const int64_t bytes = out[own].count * size_of(e.dtype);
    Fold& fold = folds_.emplace_back(Fold{e, std::vector<Bytes>(e.team.size())});
    for (size_t other = 0; other < e.team.size(); ++other)
      if (other != own) fold.parts[other] = Bytes::uninitialized(bytes);
    for (size_t from = 0; from < e.team.size(); ++from)
      if (from != own) receive(fold.parts[from].mutate(), out[own].count, e.dtype, e.team[from]);
    for (size_t to = 0; to < e.team.size(); ++to)
      if (to != own) send(e.send + out[to].start, out[to].count, e.dtype, e.team[to]);
  }

  void fold_parts(const Fold& fold) const {
    const Exchange& e = fold.exchange;
    const MpiPiece own = one_after_another(e, e.recv_counts)[position_in(e)];
    std::vector<const std::byte*> inputs;
    for (const Bytes& part : fold.parts) inputs.push_back(part.data());
    inputs[position_in(e)] = e.send + own.start;
    if (own.count != 0)
      fold_part(FoldPart::joining, e.reduction, e.dtype, inputs, own.count,
                static_cast<int64_t>(inputs.size()), e.recv);
  }

  // Messages between each pair: MPI's collectives count all pieces in one int.
  void start_copies(const Exchange& e) {
    const std::vector<MpiPiece> out = pieces_out(e), in = pieces_in(e);
    const size_t n = e.team.size(), own = position_in(e);
    for (size_t step = 1; step < n; ++step) {
      const size_t from = (own + n - step) % n;
      receive(e.recv + in[from].start, in[from].count, e.dtype, e.team[from]);
    }
    for (size_t step = 1; step < n; ++step) {
      const size_t to = (own + step) % n;
      send(e.send + out[to].start, out[to].count, e.dtype, e.team[to]);
    }
    const size_t bytes = static_cast<size_t>(in[own].count * size_of(e.dtype));
    if (bytes != 0) std::memcpy(e.recv + in[own].start, e.send + out[own].start, bytes);
  }

  int64_t most_;  // elements of one MPI call
  std::atomic<bool> aborted_{false};
  int self_ = 0, processes_ = 1;
  std::unique_ptr<MpiDatatypes> datatypes_;
  std::map<std::vector<int>, MPI_Comm> comms_;
  std::vector<MPI_Request> requests_;
  std::vector<Fold> folds_;
};

}  // namespace

std::unique_ptr<Transport> mpi_transport(int64_t most_elements) {
  return std::make_unique<MpiTransport>(most_elements);
}

}  // namespace shardproof
