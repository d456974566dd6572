// Reads the events of one CPU and always knows the next one, so that a loss is known when the event
// before it is returned.
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

#include <vector>

#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/ring_page.h"
#include "merge/source/trace_dat/time_shift.h"

namespace trapline::trace_dat {

class CpuEvents {
 public:
  // Borrows `file` and `shift`; `shift` is set for a guest's recording, else nullptr.
  CpuEvents(const File& file, const Layout& layout, const CpuPages& pages, std::uint32_t page_size,
            std::size_t buffer_size, const TimeShift* shift)
      : cpu_(pages.cpu),
        file_(&file),
        shift_(shift),
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
  // Continues at the first page at or after `fraction` (0 to 1) of the data.
  [[nodiscard]] Result<void> skip_to(double fraction) {
    page_ = RingPage();
    misplaced_.clear();
    is_doubtful_ = false;
    return reader_.skip_to(fraction);
  }
  [[nodiscard]] const PageReader& pages() const { return reader_; }
  // Returns the page of peek(), positioned after that event.
  [[nodiscard]] const RingPage& page() const { return page_; }

  // Moves to the next event: true if peek() has it, false at the end and on an error.
  [[nodiscard]] bool advance() { return advance_in_page() || advance_page(); }
  // Moves to the next event if it is in the same page, else returns false. Events are lost only
  // between pages.
  [[nodiscard]] bool advance_in_page() {
    lost_ = RingPage::kNoneLost;
    if (!page_.next(next_)) [[unlikely]]
      return false;
    shift_time();
    return true;
  }
  // Moves to the next event of the same page by RingPage::next() with the same parameters, which
  // skips events. Must not be used with a TimeShift, since times are not shifted here.
  [[nodiscard]] RingPage::Found advance_in_page(auto&& pass, std::uint64_t& passed) {
    lost_ = RingPage::kNoneLost;
    return page_.next(next_, pass, passed);
  }
  // Makes peek() an event at `time` without data, like a boundary page: it stands for the events
  // that advance_in_page() skipped, of which the last was at `time`.
  void stand_at(std::uint64_t time) { next_ = {time, nullptr, 0}; }
  // Returns the current event. A boundary page has no data and the size 0.
  [[nodiscard]] const kernel_events::RecordedEvent& peek() const { return next_; }
  // Returns the number of events lost just before peek(); RingPage::kNoneLost or kUnknownLost.
  [[nodiscard]] std::int64_t lost_before() const { return lost_; }
  // Returns whether `trapline record --snapshot-on` left out the events just before peek().
  [[nodiscard]] bool left_out_before() const {
    return lost_ != RingPage::kNoneLost && next_.data == nullptr && !damaged_before_;
  }
  [[nodiscard]] const Result<void>& status() const { return status_; }

 private:
  bool advance_page();
  [[nodiscard]] bool load(std::span<const std::byte> page, std::uint64_t last);
  [[nodiscard]] std::uint64_t time_of(RingPage page) const;
  void pass_over(const PageReader::Damaged& pages, std::uint64_t last);
  void shift_time() {
    if (shift_ != nullptr) [[unlikely]]
      next_.time = (*shift_)(cpu_, next_.time);
  }

  std::uint32_t cpu_;
  const File* file_;
  const TimeShift* shift_;
  std::uint32_t commit_size_;
  std::endian order_;
  bool cut_;
  bool has_boundaries_;
  PageReader reader_;
  RingPage page_;
  kernel_events::RecordedEvent next_;
  std::int64_t lost_ = RingPage::kNoneLost;
  bool after_marked_boundary_ = false;
  bool damaged_before_ = false;  // there is a damaged page just before peek(), or before the end
  PageCounts counts_;
  std::vector<std::uint64_t> misplaced_;  // times of skipped pages
  bool is_doubtful_ = false;  // the second page is skipped like the first: either may be misplaced
  Result<void> status_;
};

}  // namespace trapline::trace_dat
