#include "merge/analyze/request_spans.h"

#include <gmock/gmock.h>

#include "merge/analyze/vmm/event_reader.h"
#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

class RequestSpansTest : public testing::Test {
 protected:
  void follow(std::vector<RequestSpec> specs, std::string_view declarations = {}) {
    declared_ = tracetool::Declarations(std::string(declarations));
    spans_.emplace(std::move(specs), names_, &declared_);
  }
  std::optional<RequestSpan> mark(std::uint64_t at, std::string_view text, ThreadId thread = kVcpu0,
                                  ThreadId process = ThreadId{1}) {
    VmmEvent qemu;
    if (!reader_.read(text, qemu)) return std::nullopt;
    spans_->look_at(Marker{text});
    const RequestSpan* span = spans_->on(marker(at, text, thread), qemu.name, process);
    return span == nullptr ? std::nullopt : std::optional(*span);
  }
  Names names_;
  VmmEventReader reader_{names_};
  tracetool::Declarations declared_;
  std::optional<RequestSpans> spans_;
};

TEST_F(RequestSpansTest, ARequestIsFollowedAcrossThreads) {
  follow(known_requests());
  EXPECT_FALSE(mark(10, "virtio_blk_handle_read vdev 0x1 req 0xaa sector 0 nsectors 8\n"));
  EXPECT_FALSE(mark(12, "virtio_blk_handle_write vdev 0x1 req 0xbb sector 0 nsectors 8\n"));
  const auto second =
      mark(15, "virtio_blk_req_complete vdev 0x1 req 0xbb status 0\n", kOtherThread);
  const auto first = mark(30, "virtio_blk_req_complete vdev 0x1 req 0xaa status 0\n", kOtherThread);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(elapsed(first->start, first->end), 20u);
  EXPECT_EQ(first->thread, kVcpu0);
  EXPECT_EQ(spans_->specs()[second->spec].start, "virtio_blk_handle_write");
  EXPECT_EQ(spans_->open(), 0u);
}

TEST_F(RequestSpansTest, DeclaredEventsAreReadByTheirFormat) {
  follow({{"begin", "r", "end", "r"}},
         "begin(void *other, void *r) \"%p|%p\"\nend(void *r) \"done %p\"\n");
  EXPECT_FALSE(mark(10, "begin 0x1|0x2\n"));
  EXPECT_FALSE(mark(11, "end done 0x1\n"));
  EXPECT_TRUE(mark(12, "end done 0x2\n"));
  EXPECT_EQ(spans_->end_without_start(), 1u);
}

TEST_F(RequestSpansTest, TheSameAddressInTwoProcessesIsTwoRequests) {
  follow({{"begin", "r", "end", "r"}});
  EXPECT_FALSE(mark(10, "begin r 0x1", kVcpu0, ThreadId{1}));
  EXPECT_FALSE(mark(20, "end r 0x1", kVcpu1, ThreadId{2}));
  EXPECT_TRUE(mark(30, "end r 0x1", kVcpu0, ThreadId{1}));
}

TEST_F(RequestSpansTest, BegunAgainItIsCountedAndAHoleClosesAll) {
  follow({{"begin", "r", "end", "r"}});
  (void)mark(10, "begin r 0x1");
  (void)mark(20, "begin r 0x1");
  EXPECT_EQ(spans_->restarted(), 1u);
  spans_->on_hole();
  EXPECT_FALSE(mark(30, "end r 0x1"));
}

TEST(RequestStagesTest, TheTimesInTheBlockLayerCutARequest) {
  RequestSpan request;
  request.start = Timestamp(130);
  request.end = Timestamp(180);
  const auto stages = [&] {
    std::vector<std::tuple<std::string_view, std::uint64_t, std::uint64_t>> seen;
    for (const RequestStage& stage : stages_of(request))
      seen.emplace_back(kRequestStageNames[static_cast<std::size_t>(stage.kind)], stage.begin.ns(),
                        stage.end.ns());
    return seen;
  };
  EXPECT_THAT(stages(), testing::IsEmpty());
  request.block = {Timestamp(140), Timestamp(145), Timestamp(170)};
  EXPECT_THAT(stages(), testing::ElementsAre(
                            std::tuple("to bio", 130, 140), std::tuple("block layer", 140, 145),
                            std::tuple("disk", 145, 170), std::tuple("to end", 170, 180)));
  request.block->queued.reset();
  EXPECT_THAT(stages(),
              testing::ElementsAre(std::tuple("to disk", 130, 145), std::tuple("disk", 145, 170),
                                   std::tuple("to end", 170, 180)));
}

TEST_F(RequestSpansTest, SpecsThatAreNoneAreRefused) {
  EXPECT_TRUE(parse_request_spec("a:b..c:d"));
  for (const std::string_view text : {"", "a..b", "a:b", "a:b..", ":b..c:d", "a:..c:d"}) {
    EXPECT_FALSE(parse_request_spec(text)) << text;
  }
}

}  // namespace
}  // namespace trapline::test
