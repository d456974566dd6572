// The file of the simple backend, in simpletrace's format or the RFC's: turns entries of a ring
// into records. Only the writer thread uses it, except for dropped().
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "trapline/events.h"

namespace trapline::simpletrace {

// A record as the ring holds it. The arguments follow as in the file, but with strings padded to 8
// bytes.
struct Entry {
  std::uint64_t id;
  std::uint64_t timestamp;
  std::uint32_t arguments;
  std::uint32_t strings;  // bit i: argument i is a string
};

constexpr std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

// Opens a path for writing like open_output() (events/output_place.h). Refuses a pipe, because the
// beginning of the file must be written again.
[[nodiscard]] int open_trace_path(const char* path, const char** reason);

// A process has at most one TraceFile, because the buffer is static.
class TraceFile {
 public:
  // Takes the descriptor and writes the header and the names of all events. False, with errno, when
  // that fails. Only close() closes the file.
  bool open(int fd, bool rfc, pid_t process);
  void close();
  // Continues in another file, whose descriptor it takes. If the new file cannot be written, it is
  // closed, the present file stays as it is, and the result is false, with errno.
  bool switch_to(int fd, bool rfc);

  // Writes an Entry with its arguments. After a failed write (a full disk) it counts entries as
  // dropped, including those that were buffered.
  void put_entry(const unsigned char* payload);
  // Counts events that found no room in the rings, and writes a record that says so.
  void put_dropped(std::uint64_t count);
  // Writes the buffer to the file.
  void drain();

  // Returns whether the file has more than its header and the names.
  [[nodiscard]] bool has_entries() const { return has_entries_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_rfc() const { return rfc_; }

  // Returns the count of dropped events since the program began. Any thread may call it.
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
  std::uint32_t mapped_ = 0;  // ids below this have a mapping record in the file
  std::atomic<bool> has_entries_{false};
  std::atomic<std::uint64_t> dropped_{0};
  std::size_t size_ = 0;      // bytes in the buffer
  std::size_t buffered_ = 0;  // entries that end in the buffer
};

}  // namespace trapline::simpletrace
