// The call tracker under guests of 3,000 seeds: the fuzz target call_tracker searches further.
#include "tests/plugin/random_guest.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

namespace trapline::test {
namespace {

std::string input_of(unsigned seed) {
  std::mt19937 random(seed);
  std::string input(100 + random() % 700, '\0');
  for (char& byte : input) byte = static_cast<char>(random());
  return input;
}

std::string text_of(const std::vector<RandomGuest::Step>& steps) {
  std::string text;
  for (const auto& step : steps) text += std::to_string(step.function) + (step.entry ? "( " : ") ");
  return text;
}

TEST(RandomGuestTest, WhatIsRecordedIsWhatHappened) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomGuest guest(input_of(seed));
    const char* wrong = guest.live();
    ASSERT_STREQ(wrong, nullptr) << "seed " << seed << "\nrecorded "
                                 << text_of(guest.recorded_steps()) << "\nexpected "
                                 << text_of(guest.expected());
  }
}

TEST(RandomGuestTest, WhateverTheHostTellsRecordsAreBalanced) {
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomGuest guest(input_of(seed));
    ASSERT_STREQ(guest.live_lawlessly(), nullptr) << "seed " << seed;
  }
}

}  // namespace
}  // namespace trapline::test
