#include "backend_ftrace/tracetool/trace_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trapline::tracetool {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Event only_event(std::string_view text) {
  EventFile file = parse_trace_events(text, "trace-events");
  EXPECT_THAT(file.errors, IsEmpty()) << (file.errors.empty() ? "" : file.errors[0].text());
  EXPECT_EQ(file.events.size(), 1u);
  return file.events.empty() ? Event{} : file.events[0];
}

std::string only_error(std::string_view text) {
  const EventFile file = parse_trace_events(text, "f");
  EXPECT_EQ(file.errors.size(), 1u) << text;
  return file.errors.empty() ? "" : file.errors[0].text();
}

TEST(TraceEvents, ADeclarationGivesTypedArgumentsAndPieces) {
  const Event event = only_event(
      "# comment\n\n"
      "serial_write(void *s, uint64_t addr, const char *name, uint8_t v) "
      "\"%p 0x%\" PRIx64 \" %s 100%% %02x\"\n");
  EXPECT_EQ(event.name, "serial_write");
  EXPECT_EQ(event.line, 3u);
  ASSERT_EQ(event.arguments.size(), 4u);
  EXPECT_EQ(event.arguments[0].kind, TypeKind::kPointer);
  EXPECT_EQ(event.arguments[1].kind, TypeKind::kUnsigned);
  EXPECT_EQ(event.arguments[1].bytes, 8);
  EXPECT_EQ(event.arguments[2].type, "const char *");
  EXPECT_EQ(event.arguments[2].kind, TypeKind::kString);
  EXPECT_EQ(event.arguments[3].bytes, 1);
  ASSERT_EQ(event.format.pieces.size(), 5u);
  EXPECT_EQ(event.format.pieces[1].literal, " 0x");
  EXPECT_EQ(event.format.pieces[1].length, "l");
  EXPECT_EQ(event.format.pieces[3].literal, " 100% ");
  EXPECT_TRUE(event.format.pieces[3].zero);
  EXPECT_EQ(event.format.pieces[3].width, 2);
  EXPECT_EQ(event.format.source, "\"%p 0x%\" PRIx64 \" %s 100%% %02x\"");
}

TEST(TraceEvents, EveryIntegerTypeOfCIsKnownWithItsSize) {
  for (const auto& [type, kind, bytes] :
       std::initializer_list<std::tuple<const char*, TypeKind, int>>{
           {"int", TypeKind::kSigned, 4},
           {"unsigned", TypeKind::kUnsigned, 4},
           {"unsigned int", TypeKind::kUnsigned, 4},
           {"long", TypeKind::kSigned, 8},
           {"unsigned long long", TypeKind::kUnsigned, 8},
           {"short", TypeKind::kSigned, 2},
           {"unsigned char", TypeKind::kUnsigned, 1},
           {"signed char", TypeKind::kSigned, 1},
           {"bool", TypeKind::kUnsigned, 1},
           {"size_t", TypeKind::kUnsigned, 8},
           {"ssize_t", TypeKind::kSigned, 8},
           {"const int", TypeKind::kSigned, 4},
           {"long unsigned int", TypeKind::kUnsigned, 8},
           {"uint16_t", TypeKind::kUnsigned, 2}}) {
    const Event event =
        only_event(fmt::format("e({} a) \"{}\"\n", type, bytes == 8 ? "%ld" : "%d"));
    ASSERT_EQ(event.arguments.size(), 1u) << type;
    EXPECT_EQ(event.arguments[0].kind, kind) << type;
    EXPECT_EQ(event.arguments[0].bytes, bytes) << type;
  }
}

TEST(TraceEvents, AFormatGoesOnOverLinesAndKnowsItsFirstLine) {
  const EventFile file = parse_trace_events(
      "a(int x,\n"
      "  int y) \"x=%d\"\n"
      "         \" y=%d\"\n"
      "b(uint64_t z) \\\n"
      "   \"z=%\"\n"
      "   PRIu64\n"
      "c(void) \"c\"\n",
      "f");
  EXPECT_THAT(file.errors, IsEmpty());
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.events[0].format.source, "\"x=%d\" \" y=%d\"");
  EXPECT_EQ(file.events[1].line, 4u);
  EXPECT_EQ(file.events[1].format.source, "\"z=%\" PRIu64");
  EXPECT_EQ(file.events[2].line, 7u);
}

TEST(TraceEvents, VcpuAddsTheCpuAndTcgMakesTwoEvents) {
  const EventFile file = parse_trace_events(
      "vcpu guest_cpu_enter(int n) \"n=%d\"\n"
      "disable vcpu tcg mem(uint8_t info, TCGv_i64 addr) \"info=%d\", \"info=%d addr=0x%\"PRIx64\n",
      "f");
  EXPECT_THAT(file.errors, IsEmpty());
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.events[0].arguments[0].name, "__cpu");
  EXPECT_TRUE(file.events[0].arguments[0].implicit);
  EXPECT_EQ(file.events[0].format.source, "\"cpu=%p \" \"n=%d\"");
  EXPECT_EQ(file.events[0].format.pieces[0].literal, "cpu=");
  EXPECT_EQ(file.events[0].format.pieces[1].literal, " n=");
  EXPECT_EQ(file.events[0].format.pieces[1].argument, 1);
  EXPECT_EQ(file.events[1].name, "mem_trans");
  EXPECT_EQ(file.events[1].arguments.size(), 2u);
  EXPECT_TRUE(file.events[1].disable);
  EXPECT_EQ(file.events[2].name, "mem_exec");
  EXPECT_EQ(file.events[2].arguments[2].type, "uint64_t");
}

TEST(TraceEvents, AnEventWithoutAFormatPrintsItsArgumentsByTheirTypes) {
  const EventFile file = parse_trace_events(
      "e(int a, uint8_t b, const char *s, void *p, size_t n)\nvcpu f(int64_t v)\ng(void)\n", "f");
  EXPECT_THAT(file.errors, IsEmpty());
  ASSERT_EQ(file.events.size(), 3u);
  EXPECT_EQ(file.events[0].format.source, "\"a=%d b=%u s=%s p=%p n=%lu\"");
  EXPECT_EQ(file.events[0].format.pieces[4].argument, 4);
  EXPECT_EQ(file.events[1].format.source, "\"cpu=%p \" \"v=%ld\"");
  EXPECT_EQ(file.events[2].format.source, "");
}

TEST(TraceEvents, ErrorsSayWhereAndWhatWasExpected) {
  EXPECT_EQ(only_error("e(struct foo *f) \"%p\"\n").substr(0, 13), "f:1:3: error:");
  EXPECT_THAT(only_error("e(struct foo *f) \"%p\"\n"), HasSubstr("void * for a pointer"));
  EXPECT_THAT(only_error("e(double d) \"%f\"\n"), HasSubstr("f:1:3: error: 'double' is floating"));
  EXPECT_THAT(only_error("e(int d) \"%g\"\n"), HasSubstr("f:1:11: error: '%g' is floating point"));
  EXPECT_THAT(only_error("e(int d) \"x=%d\\n\"\n"),
              HasSubstr("f:1:15: error: the format ends with a"));
  EXPECT_THAT(only_error("e(int d) \"x=%d %d\"\n"),
              HasSubstr("f:1:16: error: '%d' has no argument"));
  EXPECT_THAT(only_error("e(int d, int e) \"x=%d\"\n"),
              HasSubstr("no conversion for argument 'e'"));
  EXPECT_THAT(only_error("e(uint64_t d) \"%x\"\n"),
              HasSubstr("prints at most 32 bits, but argument"));
  EXPECT_THAT(only_error("e(int d) \"%\"PRIx64\n"), HasSubstr("prints 64 bits"));
  EXPECT_THAT(only_error("e(int d) \"%s\"\n"), HasSubstr("a string"));
  EXPECT_THAT(only_error("e(const char *s) \"%d\"\n"), HasSubstr("an integer"));
  EXPECT_THAT(only_error("e(int d) \"%m\"\n"), HasSubstr("'%m' is not allowed"));
  EXPECT_THAT(only_error("e(int d) \"%d\n"), HasSubstr("f:1:10: error: the string is not closed"));
  EXPECT_THAT(only_error("e(int d) \"%\" TARGET_FMT_lx\n"),
              HasSubstr("f:1:14: error: 'TARGET_FMT_lx'"));
  EXPECT_THAT(only_error("disabled e(int d) \"%d\"\n"), HasSubstr("unknown property 'disabled'"));
  EXPECT_THAT(only_error("e(int) \"%d\"\n"), HasSubstr("a type and a name"));
  EXPECT_THAT(only_error("e() \"x\"\n"), HasSubstr("or void for none"));
  EXPECT_THAT(only_error("e(int a, int a) \"%d%d\"\n"), HasSubstr("'a' is declared twice"));
  EXPECT_THAT(only_error("e(int a) \"%d\""), HasSubstr("does not end with a newline"));
  EXPECT_THAT(only_error("e(int a) \"%d\" x\n"), HasSubstr("f:1:15: error: 'x' is unknown here"));
  EXPECT_THAT(only_error("e(int a) \"%d\", \"%d\"\n"), HasSubstr("tcg events only"));
  EXPECT_THAT(only_error("tcg e(int a) \"%d\"\n"), HasSubstr("two formats"));
  EXPECT_THAT(only_error("e int a\n"), HasSubstr("unknown property 'e'"));
  EXPECT_THAT(only_error("e(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, "
                         "int k) \"\"\n"),
              HasSubstr("too many arguments; expected at most 10"));
}

TEST(TraceEvents, OneBadDeclarationDoesNotHideTheOthers) {
  const EventFile file = parse_trace_events(
      "a(foo x)\n  \"%d\"\nb(int x) \"%d\"\nc(bar x) \"%d\"\nd(void) \"d\"\n", "f");
  ASSERT_EQ(file.errors.size(), 2u);
  EXPECT_EQ(file.errors[1].line, 4u);
  ASSERT_EQ(file.events.size(), 2u);
  EXPECT_EQ(file.events[1].name, "d");
  EXPECT_EQ(file.events[1].line, 5u);
}

TEST(TraceEvents, ANameDeclaredTwiceIsFoundAcrossFiles) {
  std::vector<EventFile> files;
  files.push_back(parse_trace_events("a(void) \"\"\nb(void) \"\"\n", "one"));
  files.push_back(parse_trace_events("\nb(int x) \"%d\"\n", "two"));
  const auto found = find_duplicates(files);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text(), "two:2:1: error: event 'b' is already declared at one:2");
}

}  // namespace
}  // namespace trapline::tracetool
