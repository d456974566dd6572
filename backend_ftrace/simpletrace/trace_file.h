// The file of the simple backend, in simpletrace's format or that of the RFC: entries as they lie
// in a ring become records. Used by the writer thread alone, but for dropped().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trapline/events.h"

namespace trapline::simpletrace {

// What a record holds in the ring; the arguments follow as in the file, strings padded to 8 bytes.
struct Entry {
  std::uint64_t id;
  std::uint64_t timestamp;
  std::uint32_t arguments;
  std::uint32_t strings;  // bit i: argument i is a string
};

// Strings in a ring are padded to 8 bytes; in the file they are not.
constexpr std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

// A descriptor for writing, as open_output() gives it (events/output_place.h). A pipe is refused,
// since it cannot be written at its beginning.
[[nodiscard]] int open_trace_path(const char* path, const char** reason);

// One per program: its buffer is.
class TraceFile {
 public:
  // Takes the descriptor and writes the header and the names of all events; false, with errno, when
  // that fails. The file is closed by close() only.
  bool open(int fd, bool rfc, pid_t process);
  void close();
  // Goes on in another file, whose descriptor it takes. When that one cannot be written, it is
  // closed, the present file stays as it is, and the result is false, with errno.
  bool switch_to(int fd, bool rfc);

  // An Entry and its arguments. After a failed write (a full disk) entries are counted as dropped,
  // those that it had not yet written as well.
  void put_entry(const unsigned char* payload);
  // Says in the file, too, that so many events found no place in the rings.
  void put_dropped(std::uint64_t count);
  // Writes out what is buffered.
  void drain();

  // Whether the file has more than its header and the names.
  [[nodiscard]] bool has_entries() const { return has_entries_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_rfc() const { return rfc_; }

  // Since the program began; any thread may ask.
  [[nodiscard]] std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  void put(const void* data, std::size_t size);
  void put_u64(std::uint64_t value) { put(&value, sizeof value); }
  void put_header(const Entry& entry, std::size_t length);
  void put_mapping(const trapline_event& event);
  void put_mappings();
  void write_entry(const unsigned char* payload);
  void fail_buffered(std::size_t written);

  int fd_ = -1;
  bool rfc_ = false;
  bool failed_ = false;
  pid_t process_ = 0;
  std::uint32_t mapped_ = 0;  // ids below have their mapping record
  std::atomic<bool> has_entries_{false};
  std::atomic<std::uint64_t> dropped_{0};
  std::size_t size_ = 0;      // of what is buffered
  std::size_t buffered_ = 0;  // entries that end in it
};

}  // namespace trapline::simpletrace
