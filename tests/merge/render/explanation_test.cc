#include "merge/explain/explain.h"

#include <gmock/gmock.h>

#include <sstream>

#include "merge/explain/guest_spans.h"
#include "merge/render/print.h"

namespace trapline {
namespace {

using testing::HasSubstr;
using testing::Not;

class ExplanationTest : public testing::Test {
 protected:
  ExplanationTest() {
    explanation_.exit.vcpu = "vCPU 0";
    explanation_.exit.reason = "io";
    explanation_.exit.detail = "port 0x402 write";
    explanation_.exit.device = explanation_.exit.function = explanation_.exit.preempted_by = "-";
    explanation_.exit.span.end = Timestamp(1'000);
    explanation_.exit.span.parts[static_cast<std::size_t>(Part::kUser)] = 1'000;
    explanation_.known.set();
  }
  [[nodiscard]] std::string text() const {
    std::ostringstream out;
    print_text(make_report(explanation_, false), out, {});
    return out.str();
  }
  [[nodiscard]] std::string json() const {
    std::ostringstream out;
    print_json(make_report(explanation_, false), out);
    return out.str();
  }
  Explanation explanation_;
};

TEST_F(ExplanationTest, OfSeveralAccessesItIsSaidThatTheDetailIsTheFirst) {
  explanation_.accesses = 3;
  EXPECT_THAT(text(), HasSubstr("io, port 0x402 write (the first of 3 accesses)"));
  EXPECT_THAT(json(), HasSubstr("\"accesses\": 3"));
  explanation_.accesses = 1;
  EXPECT_THAT(text(), Not(HasSubstr("the first of")));
}

TEST_F(ExplanationTest, AVmmThatIsNotQemuIsNotCalledSo) {
  EXPECT_THAT(text(), HasSubstr("QEMU took"));
  explanation_.vmm = "the VMM";
  EXPECT_THAT(text(), HasSubstr("The VMM took"));
  EXPECT_THAT(text(), Not(HasSubstr("QEMU took")));
}

TEST_F(ExplanationTest, WhatWasNotRecordedIsNull) {
  EXPECT_THAT(json(), HasSubstr("\"accesses\": null"));
  EXPECT_THAT(json(), HasSubstr("\"qemu_events\": null"));
  explanation_.has_vmm_events = true;
  EXPECT_THAT(json(), HasSubstr("\"qemu_events\": 0"));
}

TEST(GuestSpansTextTest, WhatWasNotCountedIsToldWithinTheTerminal) {
  GuestSpansExplained spans;
  spans.open = 1'234;
  spans.counters.unplaced = 1;
  std::ostringstream text, json;
  print_text(make_report(spans), text, {.width = 50});
  EXPECT_THAT(text.str(), HasSubstr("\nAnomalies: events that do not fit together\n"
                                    "         1,234  intervals that never ended\n"
                                    "             1  intervals left out: their vCPU is\n"
                                    "                not known, or too many overlap\n"));
  EXPECT_THAT(text.str(), Not(HasSubstr("begun again")));
  print_json(make_report(spans), json);
  EXPECT_THAT(json.str(), HasSubstr("\"restarted\": 0,\n      \"end_only\": 0,\n"
                                    "      \"open\": 1234,\n      \"unplaced\": 1\n"));
}

}  // namespace
}  // namespace trapline
