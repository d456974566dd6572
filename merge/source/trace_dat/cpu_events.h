// Reads the events of one CPU and always knows the next one, so that a loss is known when the event
// before it is returned.
//
// A page is walked once. Its events are kept until the next page; those of types that are not
// selected are only counted.
//
// A page is used if all of it can be walked and its times are between those of its neighbours.
// Otherwise it is damaged: it is skipped and counted, and becomes a loss from the event before to
// the next one. A page in the place of another page makes two losses: at that place, and at the
// place where its time shows that it is missing.
//
// A page without events that is not older than the page before is a boundary page and counts as an
// event without data. `trapline record --snapshot-on` writes one where it stops recording a CPU and
// one where it resumes, so that the omitted time has its true bounds rather than those of the
// nearest events. If a boundary page is marked with a loss, the page after it repeats the mark for
// the same loss.
#pragma once

#include <span>
#include <vector>

#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/ring_page.h"
#include "merge/source/trace_dat/time_shift.h"

namespace trapline::trace_dat {

class CpuEvents {
 public:
  // Borrows `file`, `shift` and `selected`; `shift` is set for a guest's recording, else nullptr.
  // `selected` says by type which events are wanted; nullptr: all.
  CpuEvents(const File& file, const Layout& layout, const CpuPages& pages, std::uint32_t page_size,
            std::size_t buffer_size, const TimeShift* shift, const std::uint8_t* selected = nullptr)
      : cpu_(pages.cpu),
        file_(&file),
        shift_(shift),
        selected_(selected),
        commit_size_(layout.long_size),
        order_(layout.order),
        cut_(pages.pages.cut),
        has_boundaries_(layout.writer.starts_with("trapline")),
        reader_(file, pages.pages, page_size, buffer_size, layout.order) {}

  [[nodiscard]] std::uint32_t cpu() const { return cpu_; }
  // Returns whether the CPU's last events are missing: the file was cut off or, when advance() has
  // reached the end, the last pages are damaged.
  [[nodiscard]] bool is_cut() const { return cut_ || damaged_before_; }
  // Skipped pages: the first one's offset in the file, and the time of the event before it.
  struct Damaged {
    std::uint64_t offset = 0, after = 0;
  };
  struct PageCounts {
    std::uint64_t all = 0, damaged = 0;
    std::vector<Damaged> first;
  };
  [[nodiscard]] const PageCounts& page_counts() const { return counts_; }
  // Continues at the first page at or after `fraction` (0 to 1) of the CPU's data.
  [[nodiscard]] Result<void> skip_to(double fraction) {
    page_ = RingPage();
    next_ = last_ = nullptr;
    misplaced_.clear();
    is_doubtful_ = false;
    return reader_.skip_to(fraction);
  }
  [[nodiscard]] const PageReader& pages() const { return reader_; }

  // Moves to the next event: true if peek() has it, false at the end and on an error.
  [[nodiscard]] bool advance() { return advance_in_page() || advance_page(); }
  // Moves to the next event if it is in the same page, else returns false. Events are lost only
  // between pages.
  [[nodiscard]] bool advance_in_page() {
    if (next_ == last_) [[unlikely]]
      return false;
    ++next_;
    return true;
  }
  // Moves to the first event of the next page that has one; false at the end and on an error.
  [[nodiscard]] bool advance_page();
  // Returns the current event: a wanted one, a boundary page or a mark. A mark stands for unwanted
  // events at the begin or end of a page and has the time of the first or last of them. Neither a
  // boundary page nor a mark has data.
  [[nodiscard]] const kernel_events::RecordedEvent& peek() const { return *next_; }
  [[nodiscard]] bool is_mark() const { return next_->data == nullptr && next_->size == kMarkSize; }
  // Returns the events after peek() in the same page.
  [[nodiscard]] std::span<const kernel_events::RecordedEvent> following() const {
    return {next_ + 1, last_ + 1};
  }
  // Returns the types of the unwanted events in the page of peek().
  [[nodiscard]] std::span<const std::uint16_t> unwanted() const { return unwanted_; }
  // Returns the number of events lost just before the first event of peek()'s page;
  // RingPage::kNoneLost or kUnknownLost.
  [[nodiscard]] std::int64_t lost_before() const { return lost_; }
  // Returns whether `trapline record --snapshot-on` left out the events just before peek(), the
  // first of its page.
  [[nodiscard]] bool left_out_before() const {
    return lost_ != RingPage::kNoneLost && is_boundary_page(*next_) && !damaged_before_;
  }
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  static constexpr std::uint32_t kMarkSize = 1;

  [[nodiscard]] static bool is_boundary_page(const kernel_events::RecordedEvent& event) {
    return event.data == nullptr && event.size == 0;
  }
  // Loads the page and returns its time; 0 if it cannot have been recorded after an event at
  // `last`.
  [[nodiscard]] std::uint64_t load(std::span<const std::byte> page, std::uint64_t last);
  [[nodiscard]] std::uint64_t time_of(RingPage page) const;
  template <std::endian kOrder>
  void find_events(RingPage& page);
  void pass_over(const PageReader::Damaged& pages, std::uint64_t last);

  std::uint32_t cpu_;
  const File* file_;
  const TimeShift* shift_;
  const std::uint8_t* selected_;
  std::uint32_t commit_size_;
  std::endian order_;
  bool cut_;
  bool has_boundaries_;
  PageReader reader_;
  RingPage page_;                                     // all of it was walked
  std::vector<kernel_events::RecordedEvent> events_;  // room for those of a page
  std::span<kernel_events::RecordedEvent> found_;     // in events_: page_'s wanted ones and marks
  const kernel_events::RecordedEvent *next_ = nullptr, *last_ = nullptr;  // in found_
  std::vector<std::uint16_t> unwanted_;
  std::int64_t lost_ = RingPage::kNoneLost;
  bool after_marked_boundary_ = false;
  bool damaged_before_ = false;  // there is a damaged page just before peek(), or before the end
  PageCounts counts_;
  std::vector<std::uint64_t> misplaced_;  // times of skipped pages
  bool is_doubtful_ = false;  // skip the second page like the first, as either may be misplaced
  Result<void> status_;
};

}  // namespace trapline::trace_dat
