// Tests call_record.h and finding.h: equality, and text that parses back.
#include "shardproof/localtensor/report/call_record.h"

#include <gtest/gtest.h>

#include "shardproof/localtensor/base/error.h"
#include "shardproof/localtensor/report/finding.h"

namespace shardproof::call_record_test {
namespace {

Record full_record() {
  Record record;
  record.ranks = Lanes::of({4, 5, 7});
  record.sequence = 12;
  record.kind = "all_reduce";
  record.group = "tp";
  record.call = 17;
  record.members = 8;
  record.reduction = "premul_sum(0.5)";
  record.dtype = DType::bf16;
  record.sizes = {16384, 0, 3};
  record.root = 2;
  record.stream = "comm";
  record.state = RecordState::failed;
  record.start = Duration{1'200'001};
  record.end = Duration{5'000'000};
  record.clock = TimedBy::device;
  record.expected = Duration{4'300'000};
  record.bytes_sent = Fraction(160, 3);
  record.line = 22;
  record.instance = "layer 3, step 2";
  return record;
}

TEST(Record, WorldClock_IsLeftOutOfTheText) {
  Record record = full_record();
  for (const TimedBy clock : {TimedBy::world, TimedBy::device, TimedBy::device_and_launch}) {
    record.clock = clock;
    EXPECT_EQ(parse_record(to_string(record)), record);
  }
  EXPECT_NE(to_string(record).find(" clock=device+launch "), std::string::npos);
  record.clock = TimedBy::world;
  EXPECT_EQ(to_string(record).find("clock"), std::string::npos);
}

Finding full_finding() {
  Finding finding;
  finding.verdict = Verdict::wrong_values;
  finding.line = 3;
  finding.ranks = Lanes::range(0, 4);
  finding.name = "q";
  finding.ratio = 0.1;
  finding.group = "dp+tp";
  finding.call = 2;
  finding.headline = "q[0, 0]: expected \"-12\", got 24";
  finding.details = {"cause   b2 is R", "a \\ in\ntwo lines", ""};
  finding.fix = "add b2 after the reduction";
  finding.instance = "i=2";
  return finding;
}

TEST(Record, PrintsAsOneLineAndParsesBack) {
  EXPECT_EQ(to_string(full_record()),
            "kind=all_reduce ranks=\"4 5 7\" sequence=12 group=tp call=17 members=8 "
            "reduction=premul_sum(0.5) dtype=bf16 sizes=16384,0,3 root=2 stream=comm state=failed "
            "start=1.200001us end=5us clock=device expected=4.3us bytes=160/3 line=22 "
            "instance=\"layer 3, step 2\"");
  EXPECT_EQ(parse_record(to_string(full_record())), full_record());
  EXPECT_EQ(to_string(Record{}), "sequence=0 state=issued");
  EXPECT_EQ(parse_record(to_string(Record{})), Record{});
}

TEST(Record, UnknownFieldsAndValues_Throw) {
  for (const char* text :
       {"nonsense", "colour=red", "state=asleep", "dtype=f12", "sizes=1,,2", "ranks=x",
        "call=", "end=5", "bytes=1/0", "kind=\"open", "=3", "call=1x"})
    EXPECT_THROW(parse_record(text), Error) << text;
}

TEST(Finding, PrintsAsOneLineAndParsesBack) {
  const std::string text = to_string(full_finding());
  EXPECT_EQ(text.find('\n'), text.npos);
  EXPECT_EQ(parse_finding(text), full_finding());
  EXPECT_EQ(to_string(Finding{}), "verdict=clean");
  EXPECT_EQ(parse_finding("verdict=\"wrong values\" line=3 ratio=2").ratio, 2.0);
  for (const char* text : {"verdict=wrong", "ratio=x", "ranks=3-1", "note=1"})
    EXPECT_THROW(parse_finding(text), Error) << text;
}

TEST(Verdict, NamesParseBack) {
  for (int i = 0; i < kVerdictCount; ++i) {
    const Verdict verdict = static_cast<Verdict>(i);
    EXPECT_EQ(parse_verdict(name(verdict)), verdict);
  }
  EXPECT_EQ(name(Verdict::unwritten_redistribution), "unwritten redistribution");
  EXPECT_EQ(name(Verdict::bad_input), "bad input");
  EXPECT_EQ(parse_verdict("wrong_values"), std::nullopt);
}

}  // namespace
}  // namespace shardproof::call_record_test
