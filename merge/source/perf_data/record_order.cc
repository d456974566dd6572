#include "merge/source/perf_data/record_order.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/source/stream_copy.h"

namespace trapline::perf_data {
namespace {

constexpr std::size_t kWriteAtOnce = 256u << 10;
constexpr std::size_t kHead = 16;  // u64 time, u32 size, u16 CPU, u8 kind, 0

constexpr std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

}  // namespace

void SpillFile::flush() {
  if (!status_ || buffer_.empty()) return;
  if (!fd_) fd_ = make_temporary_file();
  const std::string_view bytes(reinterpret_cast<const char*>(buffer_.data()), buffer_.size());
  if (const int cause = fd_ ? write_bytes(fd_.get(), bytes, end_) : errno; !fd_ || cause != 0) {
    status_ = fail(
        "cannot write a temporary file in {}, to sort what memory does not hold: {}; set TMPDIR "
        "to a folder with as much room as the recording has",
        temporary_folder(), std::strerror(cause));
  }
  end_ += buffer_.size();
  buffer_.clear();
}

void SpillFile::add(const Item& item) {
  std::byte head[kHead] = {};
  std::memcpy(head, &item.time, 8);
  std::memcpy(head + 8, &item.size, 4);
  std::memcpy(head + 12, &item.cpu, 2);
  head[14] = static_cast<std::byte>(item.kind);
  buffer_.insert(buffer_.end(), head, head + kHead);
  buffer_.insert(buffer_.end(), item.data, item.data + item.size);
  buffer_.resize(buffer_.size() + padded(item.size) - item.size);
  if (buffer_.size() >= kWriteAtOnce) flush();
}

Result<std::unique_ptr<SpillFile::Run>> SpillFile::finish_run() {
  flush();
  if (!status_) return tl::unexpected(status_.error());
  auto run = std::make_unique<Run>(*this, run_begin_, end_);
  run_begin_ = end_;
  return run;
}

void SpillFile::clear() {
  if (fd_ && ::ftruncate(fd_.get(), 0) != 0) return;  // if truncating fails, the file only grows on
  run_begin_ = end_ = 0;
}

SpillFile::Run::Run(SpillFile& file, std::uint64_t begin, std::uint64_t end)
    : file_(file), next_(begin), end_(end), buffer_(kBuffer) {}

bool SpillFile::Run::fill(std::size_t needed) {
  if (filled_ - at_ >= needed) return true;
  std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
  filled_ -= at_;
  at_ = 0;
  while (next_ < end_ && filled_ < buffer_.size()) {
    const auto size = std::min<std::uint64_t>(buffer_.size() - filled_, end_ - next_);
    const ssize_t got =
        ::pread(file_.fd_.get(), buffer_.data() + filled_, size, static_cast<off_t>(next_));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      file_.status_ = fail("cannot read a temporary file in {}: {}", temporary_folder(),
                           got < 0 ? std::strerror(errno) : "it became shorter");
      return false;
    }
    filled_ += static_cast<std::size_t>(got);
    next_ += static_cast<std::uint64_t>(got);
  }
  return filled_ - at_ >= needed;
}

bool SpillFile::Run::advance() {
  if (!fill(kHead)) return false;
  const std::byte* head = buffer_.data() + at_;
  item_.time = load<std::uint64_t>(head);
  item_.size = load<std::uint32_t>(head + 8);
  item_.cpu = load<std::uint16_t>(head + 12);
  item_.kind = static_cast<Item::Kind>(head[14]);
  at_ += kHead;
  if (!fill(padded(item_.size))) return false;
  item_.data = buffer_.data() + at_;
  at_ += padded(item_.size);
  return true;
}

// Puts all items in order of time; those of equal times stay in the order of add(). Merges each two
// runs that follow one another until one is left.
void RecordOrder::sort() {
  items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(at_));
  std::vector<std::size_t> ends{0};
  for (const std::size_t run : runs_)
    if (run != at_) ends.push_back(run - at_);
  if (!items_.empty()) ends.push_back(items_.size());
  const auto at = [this](std::size_t i) { return items_.begin() + static_cast<std::ptrdiff_t>(i); };
  while (ends.size() > 2) {
    std::vector<std::size_t> merged;
    std::size_t i = 0;
    for (; i + 2 < ends.size(); i += 2) {
      std::ranges::inplace_merge(at(ends[i]), at(ends[i + 1]), at(ends[i + 2]), {}, &Item::time);
      merged.push_back(ends[i]);
    }
    if (i + 1 < ends.size()) merged.push_back(ends[i]);
    merged.push_back(ends.back());
    ends = std::move(merged);
  }
  runs_.clear();
  at_ = 0;
  sorted_ = items_.size();
}

void RecordOrder::end_round() {
  sort();
  limit_ = of_round_;
  of_round_ = newest_;
}

void RecordOrder::end() {
  sort();
  limit_ = std::numeric_limits<std::uint64_t>::max();
}

// Moves a run to its next item, and puts it in the heap unless it has ended.
void RecordOrder::advance(MergeHeap& heap, std::size_t number) {
  std::unique_ptr<SpillFile::Run>& run = spilled_[number].run;
  if (!run->advance()) run.reset();
  if (run) heap.push(number, run->item().time);
}

bool RecordOrder::next_of_all(Item& item) {
  if (current_ != kNone) advance(heap_, std::exchange(current_, kNone));
  if (heap_.empty()) {
    spilled_.clear();
    file_.clear();
  }
  // The items in memory were added after those in the file.
  if (heap_.empty() || (at_ != sorted_ && items_[at_].time < heap_.top_time()))
    return next_in_memory(item);
  if (heap_.top_time() > limit_) return false;
  current_ = heap_.pop();
  item = spilled_[current_].run->item();
  return true;
}

// Returns a heap of the runs from `first` on.
MergeHeap RecordOrder::heap_of(std::size_t first) const {
  MergeHeap heap;
  for (std::size_t i = first; i < spilled_.size(); ++i)
    if (spilled_[i].run) heap.push(i, spilled_[i].run->item().time);
  return heap;
}

Result<void> RecordOrder::finish_run(unsigned level) {
  auto run = file_.finish_run();
  if (!run) return tl::unexpected(std::move(run).error());
  spilled_.push_back({std::move(*run), level});
  advance(heap_, spilled_.size() - 1);
  return file_.status();
}

// Writes the items in memory to the file, as one run. Then, whenever kMergeAt runs have the same
// level (how often they were merged), merges them into one of the next level.
Result<void> RecordOrder::spill() {
  sort();
  if (items_.empty()) return {};
  for (const Item& item : items_) {
    file_.add(item);
    pool_.release(item.block);
  }
  items_.clear();
  sorted_ = 0;
  auto written = finish_run(0);
  for (unsigned level = 0; written; ++level) {
    std::size_t first = spilled_.size();
    while (first > 0 && spilled_[first - 1].level == level) --first;
    if (spilled_.size() - first < kMergeAt) break;
    MergeHeap merged = heap_of(first);
    while (!merged.empty()) {
      const std::size_t i = merged.pop();
      file_.add(spilled_[i].run->item());
      advance(merged, i);
    }
    spilled_.resize(first);
    heap_ = heap_of(0);
    written = finish_run(level + 1);
  }
  return written;
}

}  // namespace trapline::perf_data
