// The records of one task on their way to <tid>.dat: a buffer that the vCPU's thread fills and
// writes. Adding a record is a store and a compare; everything else is in cold functions.
//
// When a write fails (disk full, directory gone) the guest goes on. The buffer keeps only the
// records that keep the file balanced - the exits of functions whose entry is written, one LOST
// record with the count, the entries of functions still open - and the next flush tries again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/record.h"
#include "plugin/record_clock.h"

namespace trapline {

// The destination of buffers: the data directory, or memory in tests. Only cold code calls it.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  // Appends records. Returns how many bytes were written, even part of a record, with errno set
  // when fewer than all.
  virtual std::size_t append(std::uint32_t tid, std::span<const Record> records) = 0;
  // Tells that the task is idle: its descriptor may be closed until it writes again.
  virtual void release(std::uint32_t tid) = 0;
};

class RecordBuffer {
 public:
  static constexpr std::size_t kLarge = 8192;  // in records: 128 KiB
  static constexpr std::size_t kSmall = 4096;

  RecordBuffer(std::uint32_t tid, RecordSink& sink, std::size_t capacity = kLarge)
      : sink_(sink), tid_(tid), capacity_(capacity) {}

  // Adds a record. A time before that of the last record is raised to it.
  void add(RecordType type, std::uint64_t time, std::uint64_t depth, std::uint64_t address) {
    if (full()) make_room();
    put(time, Record::word(type, depth, address));
  }

  // Hot. put() needs a buffer that is not full().
  [[nodiscard]] bool full() const { return next_ >= limit_; }
  void put(std::uint64_t time, std::uint64_t word) {
    if (time < last_time_) time = last_time_;
    last_time_ = time;
    *next_++ = Record(time, word);
  }

  // Counts records that were never made (0: an unknown number); a LOST record reports them.
  void leave_out(std::uint64_t count, std::uint64_t time) {
    lost_ += count;
    add(RecordType::kLost, time, 0, count);
  }

  void make_room();  // call it when the buffer is full
  // Sets the clock of the vCPU that writes, which is adjusted whenever a buffer is full.
  void use_clock(RecordClock* clock) { clock_ = clock; }
  void flush();
  // Flushes, then frees the buffer and releases the descriptor, for an idle guest stack.
  void release();
  // Flushes and records nothing from now on, because the size limit is reached or QEMU ends.
  void stop();

  [[nodiscard]] std::uint32_t tid() const { return tid_; }
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

// Returns the records that keep the file balanced when all others of `records` are given up. Public
// for tests.
[[nodiscard]] std::vector<Record> thinned_out(std::span<const Record> records);

}  // namespace trapline
