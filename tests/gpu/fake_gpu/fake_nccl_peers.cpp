// Implements fake_nccl_peers.h over abstract Unix sockets.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/tests/gpu/fake_gpu/fake_nccl_peers.h"

namespace shardproof::fake_gpu {
namespace {

constexpr size_t kChunk = 1 << 17;

// An abstract name, which ends with its process.
socklen_t address_of(const std::string& name, int rank, sockaddr_un& address) {
  const std::string text = fmt::format("{}-{}", name, rank);
  std::memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  SP_CHECK(text.size() + 1 < sizeof(address.sun_path), "the name {} is too long", text);
  std::memcpy(address.sun_path + 1, text.data(), text.size());
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
}

int open_socket() {
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  SP_CHECK(socket >= 0, "no socket: {}", std::strerror(errno));
  return socket;
}

}  // namespace

Peers::Peers(const std::string& name, int rank, int size)
    : name_(name),
      rank_(rank),
      listening_(open_socket()),
      peers_(at(size)),
      chunk_(new char[kChunk]) {
  sockaddr_un address;
  const socklen_t length = address_of(name_, rank_, address);
  SP_CHECK(::bind(listening_, reinterpret_cast<sockaddr*>(&address), length) == 0 &&
               ::listen(listening_, SOMAXCONN) == 0,
           "rank {} cannot listen: {}", rank_, std::strerror(errno));
}

Peers::~Peers() {
  for (const Peer& peer : peers_)
    if (peer.socket >= 0) ::close(peer.socket);
  for (const int connection : connections_) ::close(connection);
  ::close(listening_);
}

void Peers::connect_to(int peer) {
  sockaddr_un address;
  const socklen_t length = address_of(name_, peer, address);
  const int socket = open_socket();
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    ::close(socket);  // the peer does not listen yet
    return;
  }
  const char own = static_cast<char>(rank_);
  SP_CHECK(::send(socket, &own, 1, MSG_NOSIGNAL) == 1, "a new socket does not send");
  peers_[at(peer)].socket = socket;
}

void Peers::accept_connections() {
  for (int connection;
       (connection = ::accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0;)
    connections_.push_back(connection);
  std::erase_if(connections_, [this](int connection) {
    char rank = 0;
    if (::recv(connection, &rank, 1, MSG_DONTWAIT) != 1) return false;
    peers_[at(rank)].socket = connection;
    return true;
  });
}

bool Peers::connect() {
  bool all = true;
  accept_connections();
  for (int peer = 0; peer < size(); ++peer) {
    if (peer == rank_ || peers_[at(peer)].socket >= 0) continue;
    if (peer < rank_) connect_to(peer);
    all = all && peers_[at(peer)].socket >= 0;
  }
  return all;
}

void Peers::send(int peer, const void* data, size_t bytes) {
  peers_[at(peer)].out.append(static_cast<const char*>(data), bytes);
}

std::string Peers::read(int peer, size_t bytes) {
  std::string& in = peers_[at(peer)].in;
  std::string text = in.substr(0, bytes);
  in.erase(0, bytes);
  return text;
}

void Peers::transfer(Peer& peer) {
  size_t sent = 0;
  while (sent < peer.out.size()) {
    const ssize_t n = ::send(peer.socket, peer.out.data() + sent, peer.out.size() - sent,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n <= 0) {
      if (errno != EAGAIN && errno != EINTR) peer.has_exited = true;
      break;
    }
    sent += static_cast<size_t>(n);
  }
  peer.out.erase(0, sent);
  for (;;) {
    const ssize_t n = ::recv(peer.socket, chunk_.get(), kChunk, MSG_DONTWAIT);
    if (n == 0) peer.has_exited = true;
    if (n <= 0) return;
    peer.in.append(chunk_.get(), static_cast<size_t>(n));
  }
}

void Peers::transfer() {
  for (Peer& peer : peers_)
    if (peer.socket >= 0 && !peer.has_exited) transfer(peer);
}

bool Peers::all_sent() const {
  for (const Peer& peer : peers_)
    if (!peer.out.empty()) return false;
  return true;
}

}  // namespace shardproof::fake_gpu
