// The events of one CPU with the next one always in view, so that a loss is known when the event
// before it is consumed.
//
// A page is used where all of it can be walked and its times lie between those of the pages around
// it. Else it is damaged: passed over, counted, and a loss from the event before it to the next one
// that is there. A page that stands in the place of another one leaves two losses: here, and where
// its time says that it is missing.
//
// A page without events that is no older than what came before is a boundary page: an event without
// data. `trapline record --snapshot-on` writes one where the record of a CPU breaks off and one
// where it goes on, so that what is left out between has its true bounds and not those of the
// nearest events. The page after a marked boundary page has the mark once more; it is the same
// loss.
#pragma once

#include <vector>

#include "merge/source/trace_dat/page_reader.h"
#include "merge/source/trace_dat/ring_page.h"
#include "merge/source/trace_dat/time_shift.h"

namespace trapline::trace_dat {

class CpuEvents {
 public:
  // Borrows `file` and `shift`, which is that of a guest's recording, else nullptr.
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
  // PageReader::keep_buffers().
  void keep_buffers(KeptBuffers& kept) { reader_.keep_buffers(kept); }
  // Whether the file ends before these events do, or, at the end, the last pages are damaged.
  [[nodiscard]] bool is_cut() const { return cut_ || damaged_before_; }
  // A page that was passed over: where it is in the file, and the time of the event before it.
  struct Damaged {
    std::uint64_t offset = 0, after = 0;
  };
  struct PageCounts {
    std::uint64_t all = 0, damaged = 0;
    std::vector<Damaged> first;
  };
  [[nodiscard]] const PageCounts& page_counts() const { return counts_; }
  // Goes on at the first page at or after `fraction` (0 to 1) of the data.
  [[nodiscard]] Result<void> skip_to(double fraction) {
    page_ = RingPage();
    misplaced_.clear();
    is_doubtful_ = false;
    return reader_.skip_to(fraction);
  }
  [[nodiscard]] const PageReader& pages() const { return reader_; }
  // The page of peek(), from its end on.
  [[nodiscard]] const RingPage& page() const { return page_; }

  // Moves to the next event: true when peek() has it, false at the end and on an error.
  [[nodiscard]] bool advance() { return advance_in_page() || advance_page(); }
  // The same where it is in the same page, else false. Events are lost between pages only.
  [[nodiscard]] bool advance_in_page() {
    lost_ = RingPage::kNoneLost;
    if (!page_.next(next_)) [[unlikely]]
      return false;
    shift_time();
    return true;
  }
  // The same, past events that `pass` takes: RingPage::next(). Not where times are shifted.
  template <typename Pass>
  [[nodiscard]] RingPage::Found advance_in_page(Pass&& pass, std::uint64_t& passed) {
    lost_ = RingPage::kNoneLost;
    return page_.next(next_, pass, passed);
  }
  // The last event that was passed is in view again, as a boundary page is.
  void stand_at(std::uint64_t time) { next_ = {time, nullptr, 0}; }
  // A boundary page has no data and the size 0.
  [[nodiscard]] const kernel_events::RecordedEvent& peek() const { return next_; }
  // What was lost just before peek(): RingPage::kNoneLost, kUnknownLost or a number.
  [[nodiscard]] std::int64_t lost_before() const { return lost_; }
  // Whether that is what `trapline record --snapshot-on` left out.
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
  bool damaged_before_ = false;  // peek(), or the end
  PageCounts counts_;
  std::vector<std::uint64_t> misplaced_;  // times of pages that were passed over
  bool is_doubtful_ = false;  // the next page: of the first two nothing tells which is misplaced
  Result<void> status_;
};

}  // namespace trapline::trace_dat
