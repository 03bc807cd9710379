// Tests of ListenAddress: failures of a network.
#include "shardproof/backends/remote/rendezvous/listen_address.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

namespace shardproof::listen_address_test {
namespace {

constexpr int kPort = 40001, kNoRight = 77, kNobodyThere = 1, kHeldPort = 2, kMetNobody = 3;

// Enters a network namespace in which a connecting socket can only be given the port kPort.
bool in_a_network_of_one_port() {
  if (unshare(CLONE_NEWNET) != 0) return false;
  const int control = socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  const bool up = ioctl(control, SIOCSIFFLAGS, &loopback) == 0;
  close(control);
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  return up && (range << kPort << " " << kPort << std::endl);
}

int who_comes_too_early_leaves_the_port() {
  if (!in_a_network_of_one_port()) return kNoRight;
  try {
    connect_to(address_of_port("127.0.0.1", kPort));
    return kNobodyThere;
  } catch (const Error& error) {
    if (error.message().find("Permission denied") == std::string::npos) return kMetNobody;
  }
  try {
    ListenAddress::at_port("127.0.0.1", kPort);
  } catch (const Error&) {
    return kHeldPort;
  }
  return 0;
}

// Linux connects a socket to itself if its own port is the one it connects to.
TEST(ListenAddress, EarlyConnection_Fails_AndFreesThePort) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(who_comes_too_early_leaves_the_port());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoRight) GTEST_SKIP() << "no right to a network of its own";
  EXPECT_EQ(WEXITSTATUS(status), 0)
      << "1: it took itself for another; 2: the port is held; 3: it did not meet itself";
}

}  // namespace
}  // namespace shardproof::listen_address_test
