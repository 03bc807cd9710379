// Tests of MessagePipe: large messages arrive whole, and a fast sender can wait for the receiver.
#include "shardproof/backends/remote/wire/message_pipe.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <memory>
#include <thread>

namespace shardproof::message_pipe_test {
namespace {

struct Ends {
  Ends() {
    int sockets[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    here = std::make_unique<MessagePipe>(sockets[0]);
    there = std::make_unique<MessagePipe>(sockets[1]);
  }
  std::unique_ptr<MessagePipe> here, there;
};

WireWriter message_of(int64_t number, size_t bytes) {
  WireWriter message;
  message.add(number);
  message.add(std::string_view(std::string(bytes, static_cast<char>('a' + number % 26))));
  return message;
}

TEST(MessagePipe, FastSender_WaitsForReader) {
  constexpr int64_t kMessages = 40;
  constexpr size_t kBytes = 1 << 20, kMost = 2 << 20;
  Ends ends;
  int64_t taken = 0;
  std::thread reader([&] {
    while (taken < kMessages && !ends.there->closed()) {
      const std::optional<std::string> message = ends.there->receive();
      if (!message) {
        ends.there->wait(std::chrono::milliseconds(20));
        continue;
      }
      WireReader in(*message);
      EXPECT_EQ(in.number(), taken);
      EXPECT_EQ(in.text(), std::string(kBytes, static_cast<char>('a' + taken % 26)));
      ++taken;
    }
  });
  for (int64_t number = 0; number < kMessages; ++number) {
    ends.here->send(message_of(number, kBytes));
    ends.here->wait_until_sent(kMost);
  }
  ends.here->wait_until_sent(0);
  EXPECT_FALSE(ends.here->has_unsent());
  reader.join();
  EXPECT_EQ(taken, kMessages);
}

TEST(MessagePipe, Sender_ReaderGone_DoesNotWait) {
  Ends ends;
  ends.here->send(message_of(0, 4 << 20));
  ends.there.reset();
  ends.here->wait_until_sent(0);
  EXPECT_FALSE(ends.here->has_unsent());
}

}  // namespace
}  // namespace shardproof::message_pipe_test
