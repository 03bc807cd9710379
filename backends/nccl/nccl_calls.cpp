// Implements nccl_calls.h. NCCL has no collective for gather, scatter, all-to-all and uneven
// pieces: they are groups of sends and receives, of broadcasts, or of reductions.
#include "shardproof/backends/nccl/nccl_calls.h"

#include "shardproof/backends/nccl/nccl_group.h"
#include "shardproof/backends/nccl/nccl_types.h"
#include "shardproof/localtensor/base/error.h"

namespace shardproof {
namespace {

bool is_even(const std::vector<int64_t>& counts) {
  for (const int64_t count : counts)
    if (count != counts.front()) return false;
  return true;
}

// Returns the first code that is an error.
int first_error(int a, int b) { return a == nccl::kSuccess || a == nccl::kInProgress ? b : a; }

class ExchangeIssuer {
 public:
  ExchangeIssuer(const NcclApi& api, const Exchange& e, const NcclPlace& place)
      : api_(api),
        e_(e),
        self_(place.self),
        stream_(place.stream),
        comm_(place.comm),
        elements_(nccl_elements(e.dtype)),
        send_(e.send),
        recv_(e.recv) {}

  int issue() {
    switch (e_.kind) {
      case CollectiveKind::barrier:  // f32: every algorithm supports it
        return api_.all_reduce(recv_, recv_, 1, nccl::f32, nccl::sum, comm_, stream_);
      case CollectiveKind::send:
        return api_.send(send_, bytes(e_.count), nccl::u8, peer(), comm_, stream_);
      case CollectiveKind::recv:
        return api_.recv(recv_, bytes(e_.count), nccl::u8, peer(), comm_, stream_);
      case CollectiveKind::broadcast:
        return api_.broadcast(is_root() ? send_ : recv_, recv_, bytes(e_.count), nccl::u8, e_.root,
                              comm_, stream_);
      case CollectiveKind::all_reduce:
      case CollectiveKind::reduce:
      case CollectiveKind::reduce_scatter: return reduce();
      case CollectiveKind::all_gather:
        if (is_even(e_.recv_counts))
          return api_.all_gather(send_, recv_, bytes(e_.count), nccl::u8, comm_, stream_);
        return in_group([this] { return broadcast_all(); });
      default: return in_group([this] { return send_pieces(); });
    }
  }

 private:
  size_t bytes(int64_t count) const { return static_cast<size_t>(count * size_of(e_.dtype)); }
  size_t elements(int64_t count) const {
    return static_cast<size_t>(count) * static_cast<size_t>(elements_.each);
  }
  int peer() const { return e_.team[static_cast<size_t>(e_.root)]; }
  bool is_root() const { return static_cast<size_t>(e_.root) == self_; }

  template <typename Issue>
  int in_group(Issue issue) {
    NcclGroup group(api_);
    const int code = issue();
    const int end = group.end();
    return code == nccl::kSuccess || code == nccl::kInProgress ? end : code;
  }

  int reduce() {
    int op = nccl_op(e_.reduction, e_.part);
    if (op != nccl::kOps) return reduce_by(op);
    alignas(16) std::byte scalar[16];
    const bool is_double = elements_.type == nccl::f64, is_float = elements_.type == nccl::f32;
    store_f64(scalar,
              is_double  ? DType::f64
              : is_float ? DType::f32
                         : e_.dtype,
              e_.reduction.scalar);
    int code = api_.premul_sum(&op, scalar, elements_.type, nccl::kHostScalar, comm_);
    if (code != nccl::kSuccess) return code;
    code = reduce_by(op);
    api_.op_destroy(op, comm_);
    return code;
  }

  int reduce_by(int op) {
    const int type = elements_.type;
    if (e_.kind == CollectiveKind::all_reduce)
      return api_.all_reduce(send_, recv_, elements(e_.count), type, op, comm_, stream_);
    if (e_.kind == CollectiveKind::reduce)
      return api_.reduce(send_, recv_, elements(e_.count), type, op, e_.root, comm_, stream_);
    if (is_even(e_.recv_counts))
      return api_.reduce_scatter(send_, recv_, elements(e_.recv_counts.front()), type, op, comm_,
                                 stream_);
    return in_group([&] {
      int code = nccl::kSuccess;
      const std::byte* from = send_;
      for (size_t i = 0; i < e_.team.size(); ++i) {
        if (const int64_t count = e_.recv_counts[i]; count != 0)
          code = first_error(code, api_.reduce(from, recv_, elements(count), type, op,
                                               static_cast<int>(i), comm_, stream_));
        from += bytes(e_.recv_counts[i]);
      }
      return code;
    });
  }

  // all_gather with pieces of different length: one broadcast for each.
  int broadcast_all() {
    int code = nccl::kSuccess;
    std::byte* to = recv_;
    for (size_t i = 0; i < e_.team.size(); ++i) {
      const size_t length = bytes(e_.recv_counts[i]);
      if (length != 0)
        code = first_error(code, api_.broadcast(i == self_ ? send_ : to, to, length, nccl::u8,
                                                static_cast<int>(i), comm_, stream_));
      to += length;
    }
    return code;
  }

  // Gather, scatter and both all-to-alls: a send and a receive for each pair.
  int send_pieces() {
    int code = nccl::kSuccess;
    const std::byte* from = send_;
    std::byte* to = recv_;
    for (size_t i = 0; i < e_.team.size(); ++i) {
      const size_t out = piece_to(i), in = piece_from(i);
      const int other = static_cast<int>(i);
      if (out != 0) code = first_error(code, api_.send(from, out, nccl::u8, other, comm_, stream_));
      if (in != 0) code = first_error(code, api_.recv(to, in, nccl::u8, other, comm_, stream_));
      from += out;
      to += in;
    }
    return code;
  }
  size_t piece_to(size_t i) const {
    if (e_.kind == CollectiveKind::gather)
      return static_cast<size_t>(e_.root) == i ? bytes(e_.count) : 0;
    if (e_.kind == CollectiveKind::scatter) return is_root() ? bytes(e_.send_counts[i]) : 0;
    return bytes(e_.send_counts[i]);
  }
  size_t piece_from(size_t i) const {
    if (e_.kind == CollectiveKind::gather) return is_root() ? bytes(e_.recv_counts[i]) : 0;
    if (e_.kind == CollectiveKind::scatter)
      return static_cast<size_t>(e_.root) == i ? bytes(e_.count) : 0;
    return bytes(e_.recv_counts[i]);
  }

  const NcclApi& api_;
  const Exchange& e_;
  size_t self_;
  NcclStream stream_;
  NcclComm comm_;
  NcclElements elements_;
  const std::byte* send_;
  std::byte* recv_;
};

}  // namespace

bool is_message(const Exchange& e) {
  return e.kind == CollectiveKind::send || e.kind == CollectiveKind::recv;
}

NcclComm comm_of(const NcclSession& session, const Exchange& e) {
  return is_message(e) ? session.world(e.self) : session.team(e.team, e.self);
}

int issue_exchange(const NcclApi& api, const Exchange& e, const NcclPlace& place) {
  return ExchangeIssuer(api, e, place).issue();
}

bool is_one_collective(const Exchange& e) {
  switch (e.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce:
    case CollectiveKind::broadcast: return e.count > 0;
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter: return is_even(e.recv_counts) && e.recv_counts.front() > 0;
    default: return false;
  }
}

}  // namespace shardproof
