#include "merge/report/causes.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>
#include <string>

namespace trapline {
namespace {

using testing::HasSubstr;

TEST(Causes, AreThoseOfTheDocument) {
  std::ifstream file(std::string(TRAPLINE_SOURCE_DIR) + "/docs/causes.md");
  std::stringstream text;
  text << file.rdbuf();
  for (const Cause& cause : causes()) {
    std::string row = "| `" + std::string(cause.id) + "` | ";
    row.append(cause.advice).append(" | ").append(cause.source).append(" |\n");
    EXPECT_THAT(text.str(), HasSubstr(row));
  }
}

TEST(Causes, OfAPartDependOnTheCulprit) {
  Culprit thread;
  thread.kind = CulpritKind::kThread;
  EXPECT_EQ(cause_of(Part::kPreempted, thread, false, false)->id, "preempted-by-thread");
  EXPECT_EQ(cause_of(Part::kPreempted, thread, true, true)->id, "preempted-by-vcpu");
  EXPECT_EQ(cause_of(Part::kPreempted, thread, false, true)->id, "preempted-by-vmm");
  EXPECT_EQ(cause_of(Part::kBlocked, thread, false, true)->id, "blocked-on-vmm");
  EXPECT_EQ(cause_of(Part::kBlocked, thread, false, false), nullptr);
  EXPECT_EQ(cause_of(Part::kBlocked, thread, true, true), nullptr);
  thread.handler = Names::kOther;
  EXPECT_EQ(cause_of(Part::kBlocked, thread, true, true)->id, "blocked-on-vmm");
  EXPECT_EQ(cause_of(Part::kKernel, thread, false, false), nullptr);
  EXPECT_EQ(cause_of(Part::kBlocked, Culprit(), false, false), nullptr);
}

}  // namespace
}  // namespace trapline
