// Tests of CallTermsStore.
#include <gtest/gtest.h>

#include <functional>

#include "shardproof/sim/call/call_terms_store.h"

namespace shardproof::call_terms_store_test {
namespace {

const Group& group_of_four() {
  static const Group group = Group::world(4);
  return group;
}

CallTerms terms_of_line(int line) {
  CallTerms terms;
  terms.collective.kind = CollectiveKind::all_reduce;
  terms.collective.group = group_of_four();
  terms.collective.count = 8;
  terms.site = {line, "y = all_reduce(x, sum)", "i=2"};
  return terms;
}

TEST(CallTermsStore, EqualTerms_AreSharedInTurns) {
  CallTermsStore store;
  const std::shared_ptr<const CallTerms> first = store.share(terms_of_line(3));
  const std::shared_ptr<const CallTerms> second = store.share(terms_of_line(4));
  EXPECT_NE(first, second);
  EXPECT_EQ(store.share(terms_of_line(3)), first);
  EXPECT_EQ(store.share(terms_of_line(4)), second);
  EXPECT_EQ(first->collective.count, 8);
  EXPECT_EQ(first->site.line, 3);
}

// Terms that differ in one place are stored as they are, even if they lie at one place in the
// store.
TEST(CallTermsStore, AnyDifference_IsKept) {
  const std::vector<std::function<void(CallTerms&)>> changes{
      [](CallTerms& t) { t.collective.kind = CollectiveKind::broadcast; },
      [](CallTerms& t) { t.collective.reduction.op = ReduceOp::max; },
      [](CallTerms& t) { t.collective.dtype = DType::f64; },
      [](CallTerms& t) { t.collective.group = Group::world(5); },
      [](CallTerms& t) { t.collective.count = 9; },
      [](CallTerms& t) { t.collective.root = 1; },
      [](CallTerms& t) { t.collective.peer = 1; },
      [](CallTerms& t) { t.collective.slot = 1; },
      [](CallTerms& t) { t.collective.repeat = 2; },
      [](CallTerms& t) { t.collective.schedule.order = FoldOrder::f32; },
      [](CallTerms& t) { t.collective.send_counts = {1}; },
      [](CallTerms& t) { t.collective.recv_counts = {1}; },
      [](CallTerms& t) { t.peers = {1}; },
      [](CallTerms& t) { t.send_counts = {{1}}; },
      [](CallTerms& t) { t.recv_counts = {{1}}; },
      [](CallTerms& t) { t.row_elements = 2; },
      [](CallTerms& t) { t.site.line = 3 + 16; },
      [](CallTerms& t) { t.site.text = "z = all_reduce(x, sum)"; },
      [](CallTerms& t) { t.site.instance = "i=3"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CallTermsStore store;
    const std::shared_ptr<const CallTerms> plain = store.share(terms_of_line(3));
    CallTerms changed = terms_of_line(3);
    changes[i](changed);
    const std::shared_ptr<const CallTerms> found = store.share(std::move(changed));
    EXPECT_NE(found, plain) << "change " << i;
    CallTerms expected = terms_of_line(3);
    changes[i](expected);
    EXPECT_EQ(found->collective, expected.collective) << "change " << i;
    EXPECT_EQ(found->peers, expected.peers) << "change " << i;
    EXPECT_EQ(found->send_counts, expected.send_counts) << "change " << i;
    EXPECT_EQ(found->recv_counts, expected.recv_counts) << "change " << i;
    EXPECT_EQ(found->site.line, expected.site.line) << "change " << i;
    EXPECT_EQ(found->site.instance, expected.site.instance) << "change " << i;
  }
}

TEST(CallTermsStore, TermsInUse_OutliveTheStore) {
  std::shared_ptr<const CallTerms> held;
  {
    CallTermsStore store;
    held = store.share(terms_of_line(3));
    for (int line = 0; line < 64; ++line) store.share(terms_of_line(line));
  }
  EXPECT_EQ(held->site.text, "y = all_reduce(x, sum)");
}

}  // namespace
}  // namespace shardproof::call_terms_store_test
