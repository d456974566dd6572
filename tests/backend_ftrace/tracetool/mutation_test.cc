// Damaged declarations and hostile marker texts: nothing crashes (run it under the sanitizers), and
// what is accepted keeps its promises.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "backend_ftrace/sync.h"
#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/event_text.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::tracetool {
namespace {

std::string mutated(std::string text, std::mt19937& random) {
  static constexpr std::string_view kBytes = "%\"\\(),* \n\t#PRIx64dsczl.0-9\x00\xff";
  for (unsigned n = random() % 4 + 1; n > 0 && !text.empty(); --n) {
    const std::size_t at = random() % text.size();
    switch (random() % 4) {
      case 0:
        text[at] = kBytes[random() % kBytes.size()];
        break;
      case 1:
        text.erase(at, random() % 8);
        break;
      case 2:
        text.insert(at, 1, kBytes[random() % kBytes.size()]);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 16));
        break;
    }
  }
  return text;
}

TEST(Mutations, DeclarationsThatAreAcceptedHaveFormatsThatFitTheirArguments) {
  const std::string text =
      "a(int x, const char *s) \"%d '%s'\"\nvcpu tcg b(uint64_t y, TCGv_i32 z) \"%\" PRIx64, "
      "\"%\"\n"
      "   PRIu64 \" %08x\"\ndisable c(void *p, int w, size_t n) \"%p %*zu\"\n";
  std::mt19937 random(1);
  std::size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    const EventFile file = parse_trace_events(mutated(text, random), "f");
    for (const Event& event : file.events) {
      ++accepted;
      ASSERT_LE(event.arguments.size(), kMaxArguments);
      std::size_t used = 0;
      for (const Piece& piece : event.format.pieces) {
        for (const int index : {piece.argument, piece.width_argument, piece.precision_argument}) {
          ASSERT_LT(index, static_cast<int>(event.arguments.size()));
          if (index >= 0) ++used;
        }
      }
      ASSERT_TRUE(event.format.source.empty() || used == event.arguments.size()) << event.name;
    }
    for (const Diagnostic& diagnostic : file.errors) ASSERT_GT(diagnostic.line, 0u);
  }
  EXPECT_GT(accepted, 10'000u);
}

TEST(Mutations, AnEventFoundByItsNameIsTheFirstOneThatIsParsed) {
  const std::string text =
      "# begin\na(int x, const char *s) \"%d '%s'\"\nvcpu tcg b(uint64_t y,\n TCGv_i32 z) \"%\" "
      "PRIx64, \\\n \"%\"\n\n   PRIu64 \" %08x\"\n\ndisable c(void *p) \"%p\"\n"
      "a(int x) \"%d\"\nd(void)\n";
  std::mt19937 random(4);
  std::size_t found = 0;
  for (int round = 0; round < 20'000; ++round) {
    const std::string changed = round == 0 ? text : mutated(text, random);
    const EventFile file = parse_trace_events(changed, "f");
    const Declarations declared(changed);
    if (!file.errors.empty()) continue;
    EXPECT_EQ(declared.size(), file.events.size()) << changed;
    std::set<std::string> names;
    for (const Event& event : file.events) {
      if (!names.insert(event.name).second) continue;
      const auto same = declared.find(event.name);
      ASSERT_TRUE(same) << event.name << " of\n" << changed;
      EXPECT_EQ(same->format.source, event.format.source) << changed;
      EXPECT_EQ(same->arguments.size(), event.arguments.size()) << changed;
      ++found;
    }
  }
  EXPECT_GT(found, 5'000u);
}

TEST(Mutations, MarkerTextsThatMatchPrintAsTheyWereRead) {
  const Declarations declared(
      "e(int a, uint64_t b, const char *s, char c, void *p, const char *t, uint8_t d, uint8_t f) "
      "\"a=%d b=0x%\" PRIx64 \" '%s' %c %p [%s] %02x%02x\"\n");
  MarkerParser parser(&declared);
  ParsedMarker parsed;
  const std::string text = "e a=-5 b=0xff 'some text' x 0x7f [more ' text] 0aff";
  ASSERT_TRUE(parser.parse(text, parsed) && parsed.matched);
  std::mt19937 random(2);
  int matched = 0;
  for (int round = 0; round < 200'000; ++round) {
    const std::string line = mutated(text, random);
    if (!parser.parse(line, parsed) || !parsed.matched) continue;
    ++matched;
    for (std::size_t i = 0; i < parsed.count; ++i) {
      const std::string_view value = parsed.values[i].text;
      if (value.empty()) continue;
      ASSERT_GE(value.data(), line.data());
      ASSERT_LE(value.data() + value.size(), line.data() + line.size());
    }
    // Printed again and read again, the values are the same.
    std::string again = "e ";
    append_text(*parsed.event, {parsed.values.data(), parsed.count}, again);
    ParsedMarker second;
    ASSERT_TRUE(parser.parse(again, second) && second.matched) << line << " / " << again;
    for (std::size_t i = 0; i < parsed.count; ++i) {
      ASSERT_EQ(parsed.values[i].bits, second.values[i].bits) << line << " / " << again;
    }
  }
  EXPECT_GT(matched, 1000);
}

TEST(Mutations, SyncRecordsAreReadWholeOrNotAtAll) {
  const std::string text = "trapline: sync 1 77 3 before mono=1 tsc=5 after mono=2 real=9";
  std::mt19937 random(3);
  for (int round = 0; round < 100'000; ++round) {
    const auto record = parse_sync(mutated(text, random));
    ASSERT_TRUE(!record || record->before || record->after);
  }
}

}  // namespace
}  // namespace trapline::tracetool
