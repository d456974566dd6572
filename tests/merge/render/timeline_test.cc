#include "merge/source/timeline.h"

#include <gmock/gmock.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

// A list of times as a source.
class ListSource : public Source {
 public:
  explicit ListSource(std::vector<std::uint64_t> times) : times_(std::move(times)) {}
  bool next(Event& event) override {
    if (at_ == times_.size()) {
      if (fails_) status_ = fail(ErrorKind::kDamaged, "list: cut off");
      return false;
    }
    event = entry(times_[at_++]);
    return true;
  }
  const Result<void>& status() const override { return status_; }
  const SourceInfo& info() const override { return info_; }
  const SourceCounters& counters() const override { return counters_; }
  double progress() const override { return 1; }
  std::string event_name(const Event&) const override { return {}; }
  std::string event_text(const Event&) const override { return {}; }
  bool fails_ = false;

 private:
  std::vector<std::uint64_t> times_;
  std::size_t at_ = 0;
  Result<void> status_;
  SourceInfo info_;
  SourceCounters counters_;
};

std::vector<std::pair<std::uint64_t, int>> merged(Timeline& timeline) {
  std::vector<std::pair<std::uint64_t, int>> events;
  Event event;
  while (timeline.next(event)) events.emplace_back(event.at.ns(), event.source);
  return events;
}

TEST(TimelineTest, MergesByTimeAndTiesGoToTheSourceAddedFirst) {
  std::vector<std::unique_ptr<Source>> sources;
  sources.push_back(std::make_unique<ListSource>(std::vector<std::uint64_t>{1, 5, 5, 9}));
  sources.push_back(std::make_unique<ListSource>(std::vector<std::uint64_t>{}));
  sources.push_back(std::make_unique<ListSource>(std::vector<std::uint64_t>{0, 5, 7}));
  Timeline timeline(std::move(sources));
  EXPECT_THAT(
      merged(timeline),
      testing::ElementsAre(std::pair{0, 2}, std::pair{1, 0}, std::pair{5, 0}, std::pair{5, 0},
                           std::pair{5, 2}, std::pair{7, 2}, std::pair{9, 0}));
  EXPECT_TRUE(timeline.status());
}

TEST(TimelineTest, AFailedSourceIsTheTimelinesError) {
  std::vector<std::unique_ptr<Source>> sources;
  auto failing = std::make_unique<ListSource>(std::vector<std::uint64_t>{1});
  failing->fails_ = true;
  sources.push_back(std::make_unique<ListSource>(std::vector<std::uint64_t>{1, 2}));
  sources.push_back(std::move(failing));
  Timeline timeline(std::move(sources));
  EXPECT_EQ(merged(timeline).size(), 3u);
  EXPECT_FALSE(timeline.status());
}

}  // namespace
}  // namespace trapline::test
