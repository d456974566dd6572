// Damaged files, each read to its end: a clean error, or events in order of time, in bounded time.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "merge/source/source.h"
#include "tests/merge/source/mutate.h"
#include "tests/merge/source/recordings.h"

namespace trapline::test {

// Reads `count` mutations by what `open` gives of a path, and hands each source to `look` with each
// of its events, then once with nullptr; until something does not hold. How many could be opened.
template <typename Open, typename Look>
std::uint64_t read_mutations(Mutator& mutator, std::uint64_t count, const Open& open,
                             const Look& look) {
  constexpr double kMostSeconds = 2;  // of processor time, one file
  const TemporaryFile file("");
  std::uint64_t opened = 0;
  for (std::uint64_t seed = 0; seed < count && !::testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "mutation " << seed);
    file.write(mutator.mutated(seed));
    const std::clock_t begin = std::clock();
    const auto source = open(file.path());
    if (!source) {
      EXPECT_THAT(source.error().message, ::testing::HasSubstr(file.path()));
      continue;
    }
    ++opened;
    Timestamp last;
    for (Event event; (*source)->next(event) == Read::kEvent; last = event.at) {
      look(**source, &event);
      if (event.at >= last && !::testing::Test::HasFailure()) continue;
      EXPECT_GE(event.at, last);
      return opened;
    }
    look(**source, nullptr);
    EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, kMostSeconds);
  }
  return opened;
}

}  // namespace trapline::test
