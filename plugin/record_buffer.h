// The records of one task on their way to <tid>.dat: a buffer that the vCPU thread fills and writes
// itself. Adding is a store and a compare; all else is in cold functions.
//
// When a write fails (disk full, directory gone) the guest goes on: what is in the buffer is
// thinned out to what keeps the file balanced - the exits of functions whose entry is written, one
// LOST record with the count, the entries of functions still open - and the next flush tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/record.h"
#include "plugin/record_clock.h"

namespace trapline {

// Where buffers go: the data directory, or memory in tests. Called from cold code only.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Appends; returns how many bytes were written (whole or not), with errno set when fewer.
  virtual std::size_t append(std::uint32_t tid, std::span<const Record> records) = 0;
  // The task is idle: its descriptor may be closed until it writes again.
  virtual void release(std::uint32_t tid) = 0;
};

class RecordBuffer {
 public:
  static constexpr std::size_t kLarge = 8192;  // records: 128 KiB
  static constexpr std::size_t kSmall = 4096;

  RecordBuffer(std::uint32_t tid, RecordSink& sink, std::size_t capacity = kLarge)
      : sink_(sink), tid_(tid), capacity_(capacity) {}

  // `time` must not be before the last one's; add() and put() raise it to that if it is.
  void add(RecordType type, std::uint64_t time, std::uint64_t depth, std::uint64_t address) {
    if (full()) make_room();
    put(time, Record::word(type, depth, address));
  }

  // Hot: for a buffer that is not full.
  [[nodiscard]] bool full() const { return next_ >= limit_; }
  void put(std::uint64_t time, std::uint64_t word) {
    if (time < last_time_) time = last_time_;
    last_time_ = time;
    *next_++ = Record(time, word);
  }

  // So many records were never made (0: nobody can tell); the reader is told by a LOST record.
  void leave_out(std::uint64_t count, std::uint64_t time) {
    lost_ += count;
    add(RecordType::kLost, time, 0, count);
  }

  void make_room();  // where it is full
  // The clock of the vCPU that writes; it is adjusted now and then, when a buffer is full.
  void use_clock(RecordClock* clock) { clock_ = clock; }
  // Writes what there is.
  void flush();
  // flush() and give buffer and descriptor back (an idle guest stack).
  void release();
  // Nothing is recorded from now on: the size limit is reached, or QEMU ends.
  void stop();

  [[nodiscard]] std::uint32_t tid() const { return tid_; }
  [[nodiscard]] std::uint64_t last_time() const { return last_time_; }
  [[nodiscard]] std::size_t pending() const {
    return static_cast<std::size_t>(next_ - records_.get());
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }
  [[nodiscard]] std::uint64_t lost() const { return lost_; }
  [[nodiscard]] bool stopped() const { return stopped_; }

 private:
  void thin_out();

  Record* next_ = nullptr;
  Record* limit_ = nullptr;
  std::uint64_t last_time_ = 0;
  std::unique_ptr<Record[]> records_;
  RecordSink& sink_;
  RecordClock* clock_ = nullptr;
  std::uint32_t tid_;
  bool stopped_ = false;
  std::size_t capacity_;
  std::uint64_t written_ = 0;
  std::uint64_t lost_ = 0;
};

// The records that must stay when the rest of `records` is given up: see above. Public for tests.
[[nodiscard]] std::vector<Record> thinned_out(std::span<const Record> records);

}  // namespace trapline
