// Tests listing_builder.h: the result equals that of the parser for the same text, positions
// included.
#include "shardproof/program/syntax/listing_builder.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"

namespace shardproof::listing_builder_test {
namespace {

TEST(BuilderLaw, GlobalProgram_EqualsItsParsedText) {
  ListingBuilder b;
  const Term x = name("x");
  b.assign("xg", call("redistribute", x, placed("tp:R")));
  b.assign("h", call("gelu", matmul(name("xg"), name("w1")) + name("b1")));
  b.claim("y", matmul(name("h"), name("w2")), "tp:P(sum)");
  b.assign("z", call("cat", list({x[Term(0)], at(x, {slice(6, 8), slice_all(), slice_from(-3)})}),
                     key("dim", 0)));
  b.assign_several({"gw", "gx"}, call("grad", name("y"), list({name("w1"), x})));
  b.assign("s", call("softmax", x.T(), key("dim", -1), key("scaled", true)) * 1e-5);
  b.run(call("save", text("ckpt/{step}"), list({name("w1")})));
  const Listing text = parse_listing({
      "xg = redistribute(x, tp:R)",
      "h = gelu(xg @ w1 + b1)",
      "y = h @ w2 as tp:P(sum)",
      "z = cat([x[0], x[6:8, :, -3:]], dim=0)",
      "gw, gx = grad(y, [w1, x])",
      "s = softmax(x.T, dim=-1, scaled=true) * 1e-05",
      "save('ckpt/{step}', [w1])",
  });
  EXPECT_EQ(b.build().lines, text.lines);
  EXPECT_TRUE(b.build() == text);
}

TEST(BuilderLaw, RankProgram_EqualsItsParsedText) {
  ListingBuilder b;
  const Term i = name("i");
  b.for_range("i", name("m"), [&](ListingBuilder& body) {
    body.assign("h{i}", call("relu", matmul(name("x")[i], name("w"))));
    body.if_else(
        binary(i, "<", name("m") - (Term(1) - 2)),
        [&](ListingBuilder& then) {
          then.group([](ListingBuilder& group) {
            group.run(
                call("send", name("h{i}"), key("to", name("next")), key("group", name("pp"))));
            group.assign("d", call("recv", key("like", name("h{i}")), key("from", name("next"))));
          });
        },
        [](ListingBuilder& otherwise) { otherwise.run(call("wait", name("h{i - 1}"))); });
  });
  b.for_range("j", 1, 3, [&](ListingBuilder& body) {
    body.on("comm", [](ListingBuilder& on) {
      on.assign_at("flat", {slice(name("lo"), name("hi"))},
                   call("all_reduce", name("g"), name("sum")));
    });
  });
  b.run(call("check", name("d"), text("h_{m - 1}"), placed("dp:S(0) on pp=0")));
  const Listing text = parse_listing({
      "for i in range(m):",
      "  h{i} = relu(x[i] @ w)",
      "  if i < m - (1 - 2):",
      "    group:",
      "      send(h{i}, to=next, group=pp)",
      "      d = recv(like=h{i}, from=next)",
      "  else:",
      "    wait(h{i - 1})",
      "for j in range(1, 3):",
      "  on comm:",
      "    flat[lo:hi] = all_reduce(g, sum)",
      "check(d, 'h_{m - 1}', dp:S(0) on pp=0)",
  });
  EXPECT_EQ(b.build().lines, text.lines);
  EXPECT_TRUE(b.build() == text);
}

TEST(Builder, LiteralsOfAnySignAndSize) {
  ListingBuilder b;
  b.assign("y",
           list({Term(INT64_MIN), Term(-3), Term(-0.0), Term(2.0), Term(-1.0 / 0.0), Term(false)}));
  EXPECT_EQ(b.build().lines.front(), "y = [-9223372036854775807 - 1, -3, -0.0, 2.0, -inf, false]");
}

TEST(Builder, Refusals) {
  EXPECT_THROW(name("x y"), Error);
  EXPECT_THROW(name("f(x)"), Error);
  EXPECT_THROW(text("a'b"), Error);
  EXPECT_THROW(placed("tp:Q"), Error);
  EXPECT_THROW(placed("tp:R on"), Error);
  EXPECT_THROW(binary(Term(1), "=<", Term(2)), Error);
  EXPECT_THROW(unary("~", Term(2)), Error);
  const auto refused = [](const std::function<void(ListingBuilder&)>& write) {
    ListingBuilder b;
    EXPECT_THROW(
        {
          write(b);
          b.build();
        },
        Error);
  };
  refused([](ListingBuilder& b) { b.assign("rank", 3); });
  refused([](ListingBuilder& b) { b.group([](ListingBuilder&) {}); });
  refused([](ListingBuilder& b) { b.run(name("x")); });
  refused([](ListingBuilder& b) { b.run(call("f(", name("x"))); });
  refused([](ListingBuilder& b) { b.assign("y", call("f", key("not a key", 1))); });
}

}  // namespace
}  // namespace shardproof::listing_builder_test
