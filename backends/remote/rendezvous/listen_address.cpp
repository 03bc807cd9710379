// Implements listen_address.h, except the file of an address (listen_address_file.cpp).
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "shardproof/backends/remote/rendezvous/listen_address.h"

namespace shardproof {
namespace {

constexpr int kConnectMilliseconds = 2000;
constexpr timeval kSecretTimeout{2, 0};   // seconds until a new connection has sent the secret
constexpr timeval kAnswerTimeout{10, 0};  // the coordinator may still be reading its files
constexpr size_t kSecretCharacters = 32;  // characters
// The secret of a port that the user chose: it is public, and only distinguishes shardproof from
// other programs.
constexpr const char* kPortSecret = "shardproof-meets-at-this-port-1.";

[[noreturn]] void throw_errno(const std::string& what) {
  throw Error(ErrorKind::io, fmt::format("{}: {}", what, std::strerror(errno)));
}

std::string random_word() {
  unsigned char bytes[kSecretCharacters / 2];
  if (getrandom(bytes, sizeof(bytes), 0) != static_cast<ssize_t>(sizeof(bytes)))
    throw_errno("cannot get random numbers");
  std::string word;
  for (unsigned char byte : bytes) word += fmt::format("{:02x}", byte);
  return word;
}

// A leading zero byte makes an abstract name, for which no file exists.
socklen_t unix_address(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(),
              std::min(name.size(), sizeof(address.sun_path) - 1));
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

int open_socket(int family) {
  const int socket = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) throw_errno("cannot open a socket");
  return socket;
}

// Returns the addresses at which other machines may reach this one; the loopback address comes
// last.
std::string hosts_of_this_machine() {
  std::string hosts;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return "127.0.0.1";
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    char text[NI_MAXHOST];
    if (::getnameinfo(one->ifa_addr, sizeof(sockaddr_in), text, sizeof(text), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      hosts += std::string(text) + ",";
  }
  ::freeifaddrs(all);
  return hosts + "127.0.0.1";
}

int listen_at(int port) {
  const int socket = open_socket(AF_INET);
  const int yes = 1;
  if (port != 0) ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  if (::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0 &&
      ::listen(socket, SOMAXCONN) == 0)
    return socket;
  const int number = errno;
  ::close(socket);
  errno = number;
  if (errno == EADDRINUSE && port != 0) throw_errno(fmt::format("port {} is in use", port));
  throw_errno("cannot listen");
}

std::unique_ptr<MessagePipe> pipe_over_tcp(int socket) {
  const int yes = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof(yes));
  return std::make_unique<MessagePipe>(socket);
}

bool receives_word(int socket, const std::string& word, const timeval& time) {
  std::string received(word.size(), '\0');
  ::setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof(time));
  const ssize_t n = ::recv(socket, received.data(), received.size(), MSG_WAITALL);
  return n == static_cast<ssize_t>(received.size()) && received == word;
}

bool send_word(int socket, const std::string& word) {
  return ::send(socket, word.data(), word.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(word.size());
}

std::string answer_to(const std::string& secret) { return {secret.rbegin(), secret.rend()}; }

bool same_user(int socket) {
  ucred who{};
  socklen_t length = sizeof(who);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 && who.uid == ::getuid();
}

}  // namespace

// --- listening -----------------------------------------------------------------------------------

std::unique_ptr<ListenAddress> ListenAddress::on_this_machine() {
  return on_this_machine("shardproof-" + random_word());
}

std::unique_ptr<ListenAddress> ListenAddress::on_this_machine(const std::string& name) {
  std::unique_ptr<ListenAddress> place(new ListenAddress);
  sockaddr_un address;
  const socklen_t length = unix_address(name, address);
  place->socket_ = open_socket(AF_UNIX);
  if (::bind(place->socket_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(place->socket_, SOMAXCONN) != 0)
    throw_errno("cannot listen");
  place->address_ = "unix:" + name;
  return place;
}

std::unique_ptr<ListenAddress> ListenAddress::between_machines() {
  std::unique_ptr<ListenAddress> place(new ListenAddress);
  place->socket_ = listen_at(0);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  if (::getsockname(place->socket_, reinterpret_cast<sockaddr*>(&address), &length) != 0)
    throw_errno("cannot listen");
  place->secret_ = random_word();
  place->address_ =
      fmt::format("tcp:{}:{}:{}", hosts_of_this_machine(), ntohs(address.sin_port), place->secret_);
  return place;
}

std::string address_of_port(const std::string& host, int port) {
  return fmt::format("tcp:{}:{}:{}", host, port, kPortSecret);
}

std::unique_ptr<ListenAddress> ListenAddress::at_port(const std::string& host, int port) {
  std::unique_ptr<ListenAddress> place(new ListenAddress);
  place->socket_ = listen_at(port);
  place->secret_ = kPortSecret;
  place->address_ = address_of_port("127.0.0.1," + host, port);
  return place;
}

ListenAddress::~ListenAddress() { close(); }

void ListenAddress::close() {
  try {
    if (!file_.empty() && published_at(file_) == address_) ::unlink(file_.c_str());
  } catch (const Error&) {  // the path holds another file now
  }
  file_.clear();
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

std::unique_ptr<MessagePipe> ListenAddress::accept() {
  const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) return nullptr;
  if (secret_.empty() && same_user(connection)) return std::make_unique<MessagePipe>(connection);
  if (!secret_.empty() && receives_word(connection, secret_, kSecretTimeout) &&
      send_word(connection, answer_to(secret_)))
    return pipe_over_tcp(connection);
  ::close(connection);
  return nullptr;
}

// --- connecting ----------------------------------------------------------------------------------

namespace {

int connect_unix(const std::string& name) {
  sockaddr_un address;
  const socklen_t length = unix_address(name, address);
  const int socket = open_socket(AF_UNIX);
  if (::connect(socket, reinterpret_cast<sockaddr*>(&address), length) == 0 && same_user(socket))
    return socket;
  const int number = errno;
  ::close(socket);
  errno = number;
  throw_errno("cannot connect to the coordinating process");
}

// Connects to one address. Returns the socket; -1 if no process there has the secret.
int connect_tcp(const addrinfo& address, const std::string& secret) {
  const int socket = open_socket(AF_INET);
  const int flags = ::fcntl(socket, F_GETFL);
  ::fcntl(socket, F_SETFL, flags | O_NONBLOCK);
  int failed = ::connect(socket, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (failed == EINPROGRESS) {
    pollfd entry{socket, POLLOUT, 0};
    socklen_t length = sizeof(failed);
    failed = ETIMEDOUT;
    if (::poll(&entry, 1, kConnectMilliseconds) > 0)
      ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &failed, &length);
  }
  ::fcntl(socket, F_SETFL, flags);
  if (failed == 0 && send_word(socket, secret) &&
      receives_word(socket, answer_to(secret), kAnswerTimeout))
    return socket;
  // If nothing listens yet, the kernel may connect the socket to itself. An ordinary close would
  // then hold the port for a minute (TIME_WAIT), and the coordinator could not listen there.
  const linger at_once{1, 0};
  ::setsockopt(socket, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
  ::close(socket);
  errno = failed == 0 ? EACCES : failed;
  return -1;
}

int connect_tcp(const std::string& hosts, const std::string& port, const std::string& secret) {
  std::istringstream in(hosts);
  int number = EHOSTUNREACH;
  for (std::string host; std::getline(in, host, ',');) {
    addrinfo hints{}, *found = nullptr;
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) continue;
    const int socket = connect_tcp(*found, secret);
    number = errno;
    ::freeaddrinfo(found);
    if (socket >= 0) return socket;
  }
  errno = number;
  throw_errno(fmt::format("cannot connect to the coordinating process ({}, port {})", hosts, port));
}

}  // namespace

std::unique_ptr<MessagePipe> connect_to(const std::string& address) {
  if (address.starts_with("unix:") && address.size() < 100)
    return std::make_unique<MessagePipe>(connect_unix(address.substr(5)));
  const size_t secret = address.rfind(':');
  const size_t port = secret == std::string::npos ? secret : address.rfind(':', secret - 1);
  if (!address.starts_with("tcp:") || port == std::string::npos || port < 4)
    throw Error(ErrorKind::io,
                fmt::format("\"{}\" is not the address of a coordinating process", address));
  return pipe_over_tcp(connect_tcp(address.substr(4, port - 4),
                                   address.substr(port + 1, secret - port - 1),
                                   address.substr(secret + 1)));
}

}  // namespace shardproof
