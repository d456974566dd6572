// Walks the events of one page of ftrace's ring buffer.
//
//   page:   u64 time | long commit | events…     commit: bytes of events [26:0],
//                                                events were lost before [31], count stored [30]
//   event:  u32 type_len [4:0] | time delta [31:5] (big-endian: [31:27] | [26:0]), then
//     1–28  data of type_len × 4 bytes
//     0     u32 length (its own 4 bytes included), data
//     29    padding: delta 0 ends the page, else u32 length to skip
//     30    time extend: u32, delta += value << 27
//     31    absolute time: u32, low 59 bits of the time
//
// Source: Linux kernel/trace/ring_buffer.c and include/linux/ring_buffer.h;
// docs/formats/trace-dat.md.
//
// libtraceevent's kbuffer walks the same pages and trusts them: damaged ones crash it. Using
// kbuffer safely would require this walk first, so only this walk is used. A test compares its
// result with kbuffer's, event by event.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "backend_ftrace/base/bytes.h"
#include "merge/source/kernel_events/recorded_event.h"

namespace trapline::trace_dat {

class RingPage {
 public:
  static constexpr std::int64_t kNoneLost = 0;
  static constexpr std::int64_t kUnknownLost = -1;
  // Flags of the commit word: events were lost before the page; their number follows its data.
  static constexpr std::uint64_t kMissed = 1u << 31;
  static constexpr std::uint64_t kMissedStored = 1u << 30;

  // Loads a page, which must stay alive during the walk. `commit_size` is 8 or 4, the size of the
  // recorded kernel's long; `order` is its byte order. False if the page's header is impossible.
  [[nodiscard]] bool load(std::span<const std::byte> page, std::uint32_t commit_size,
                          std::endian order = std::endian::little) {
    damaged_ = true;
    at_ = end_ = nullptr;
    order_ = order;
    if (page.size() < 8 + commit_size) return false;
    time_ = number<std::uint64_t>(page.data());
    const std::uint64_t commit = long_at(page.data() + 8, commit_size);
    const std::uint64_t used = commit & kCommitMask;
    const std::byte* first = page.data() + 8 + commit_size;
    const auto room = static_cast<std::uint64_t>(page.data() + page.size() - first);
    if (used > room) return false;
    at_ = first;
    end_ = first + used;
    lost_ = kNoneLost;
    if ((commit & kMissed) != 0) {
      lost_ = kUnknownLost;
      if ((commit & kMissedStored) != 0 && room - used >= commit_size) {
        lost_ = static_cast<std::int64_t>(long_at(end_, commit_size));
        if (lost_ <= 0) lost_ = kUnknownLost;
      }
    }
    damaged_ = false;
    return true;
  }

  // Finds the next event; false at the page's end, and at an event that exceeds the page
  // (damaged()).
  [[nodiscard]] bool next(kernel_events::RecordedEvent& event) {
    while (end_ - at_ >= 4) {
      auto header = number<std::uint32_t>(at_);
      if (order_ == std::endian::big) [[unlikely]]
        header = header << 5 | header >> 27;
      const std::uint32_t type_len = header & 0x1f;
      const std::uint64_t delta = header >> 5;
      const std::byte* body = at_ + 4;
      if (type_len >= 1 && type_len <= 28) [[likely]] {
        const std::uint32_t size = type_len * 4;
        if (end_ - body < size) return stop_damaged();
        time_ += delta;
        event = {time_, body, size};
        at_ = body + size;
        return true;
      }
      if (end_ - body < 4) {
        // A page may end in a padding event without a length.
        return type_len == kPadding && delta == 0 ? stop() : stop_damaged();
      }
      const auto word = number<std::uint32_t>(body);
      if (type_len == kPadding) {
        if (delta == 0) return stop();
        if (word < 4 || word > end_ - body) return stop_damaged();
        time_ += delta;
        at_ = body + word;
      } else if (type_len == kTimeExtend) {
        time_ += (std::uint64_t{word} << 27) + delta;
        at_ = body + 4;
      } else if (type_len == kTimeStamp) {
        constexpr std::uint64_t kStampMask = (std::uint64_t{1} << 59) - 1;
        time_ = (time_ & ~kStampMask) | ((std::uint64_t{word} << 27) + delta);
        at_ = body + 4;
      } else {  // 0: a length word follows
        if (word < 4 || word > end_ - body) return stop_damaged();
        time_ += delta;
        event = {time_, body + 4, word - 4};
        at_ = body + std::min<std::ptrdiff_t>((word + 3) & ~3u, end_ - body);
        return true;
      }
    }
    if (at_ != end_) return stop_damaged();
    return false;
  }

  // Calls take(event) for each event up to the page's end, as next() finds them. In most events of
  // little-endian pages, nothing needs a check but the size in the header.
  void take_all(auto&& take) {
    // An event that begins up to here and has its size in its header ends within the page; null:
    // every event needs next().
    constexpr std::ptrdiff_t kRoom = 4 * std::ptrdiff_t{kPadding};
    const bool is_plain = order_ == std::endian::little && end_ - at_ >= kRoom;
    const std::byte* const plain_end = is_plain ? end_ - kRoom : nullptr;
    kernel_events::RecordedEvent event;
    do {
      const std::byte* at = at_;
      std::uint64_t time = time_;
      while (at <= plain_end) {
        const auto header = trapline::load<std::uint32_t>(at);
        const std::uint32_t words = header & 0x1f;
        if (words - 1 >= kPadding - 1) break;
        time += header >> 5;
        take(kernel_events::RecordedEvent{time, at + 4, words * 4});
        at += 4 + words * 4;
      }
      at_ = at;
      time_ = time;
      if (!next(event)) return;
      take(event);
    } while (true);
  }
  // Returns how many events were lost before this page; kNoneLost or kUnknownLost.
  [[nodiscard]] std::int64_t lost() const { return lost_; }
  [[nodiscard]] bool damaged() const { return damaged_; }
  // Returns the time of the last event that next() found; before the first, the page's time.
  [[nodiscard]] std::uint64_t time() const { return time_; }
  // Returns whether next() has nothing more to read.
  [[nodiscard]] bool empty() const { return at_ == end_; }
  // Returns the position after the last event found, or the end of the data after next() returned
  // false.
  [[nodiscard]] const std::byte* position() const { return at_; }

 private:
  static constexpr std::uint64_t kCommitMask = (1u << 27) - 1;
  static constexpr std::uint32_t kPadding = 29, kTimeExtend = 30, kTimeStamp = 31;

  template <typename T>
  [[nodiscard]] T number(const std::byte* at) const {
    return trapline::load<T>(at, order_);
  }
  [[nodiscard]] std::uint64_t long_at(const std::byte* at, std::uint32_t size) const {
    return size == 8 ? number<std::uint64_t>(at) : number<std::uint32_t>(at);
  }
  bool stop() {
    at_ = end_;
    return false;
  }
  bool stop_damaged() {
    damaged_ = true;
    return stop();
  }

  const std::byte* at_ = nullptr;
  const std::byte* end_ = nullptr;
  std::endian order_ = std::endian::little;
  std::uint64_t time_ = 0;
  std::int64_t lost_ = 0;
  bool damaged_ = false;
};

}  // namespace trapline::trace_dat
