#include "backend_ftrace/simpletrace/trace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "backend_ftrace/clock.h"
#include "backend_ftrace/events/output_place.h"
#include "backend_ftrace/simpletrace/format.h"

namespace trapline::simpletrace {
namespace {

// Not a member of TraceFile: a static object that contains a -1 is in .data with all its bytes.
unsigned char buffer[1 << 16];
std::uint32_t ends[sizeof buffer / sizeof(RecordHeader)];  // where the entries in `buffer` end

}  // namespace

int open_trace_path(const char* path, const char** reason) {
  const int fd = open_output(path, O_WRONLY, reason);
  if (fd < 0) return -1;
  struct stat status {};
  if (::fstat(fd, &status) == 0 && !S_ISFIFO(status.st_mode)) return fd;
  ::close(fd);
  *reason = "a pipe, and a trace file is written at its beginning as well";
  return -1;
}

bool TraceFile::open(int fd, bool rfc, pid_t process) {
  fd_ = fd;
  rfc_ = rfc;
  failed_ = false;
  process_ = process;
  mapped_ = 0;
  size_ = 0;
  buffered_ = 0;
  has_entries_.store(false, std::memory_order_relaxed);
  // Truncates only now, since `fd` may be the file that was written until now. A device cannot be
  // truncated and need not be.
  if (::ftruncate(fd, 0) != 0) errno = 0;
  if (rfc) {
    const RfcHeader header{kRfcHeaderMagic, static_cast<std::uint64_t>(process), kRfcVersion,
                           read_clock(ClockId::kMono)};
    put(&header, sizeof header);
  } else {
    const Header header;
    put(&header, sizeof header);
    put_mappings();
  }
  drain();
  return !failed_;
}

void TraceFile::close() {
  ::close(fd_);
  fd_ = -1;
}

bool TraceFile::switch_to(int fd, bool rfc) {
  drain();
  const int old_fd = fd_;
  const bool old_rfc = rfc_;
  const bool old_failed = failed_;
  const bool old_entries = has_entries();
  const std::uint32_t old_mapped = mapped_;
  if (open(fd, rfc, process_)) {
    ::close(old_fd);
    return true;
  }
  const int cause = errno;
  ::close(fd);
  fd_ = old_fd;
  rfc_ = old_rfc;
  failed_ = old_failed;
  has_entries_.store(old_entries, std::memory_order_relaxed);
  mapped_ = old_mapped;
  errno = cause;
  return false;
}

// Handles a failed write after `written` bytes of the buffer: entries that end later are not in the
// file.
void TraceFile::fail_buffered(std::size_t written) {
  const int cause = errno;  // errno for switch_to()
  failed_ = true;
  std::uint64_t lost = 0;
  for (std::size_t i = buffered_; i > 0 && ends[i - 1] > written; --i) ++lost;
  dropped_.fetch_add(lost, std::memory_order_relaxed);
  errno = cause;
}

void TraceFile::drain() {
  const unsigned char* at = buffer;
  while (size_ > 0 && !failed_) {
    const ssize_t written = ::write(fd_, at, size_);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      fail_buffered(static_cast<std::size_t>(at - buffer));
      break;
    }
    at += written;
    size_ -= static_cast<std::size_t>(written);
  }
  size_ = 0;
  buffered_ = 0;
}

void TraceFile::put(const void* data, std::size_t size) {
  if (size_ + size > sizeof buffer) drain();
  std::memcpy(buffer + size_, data, size);
  size_ += size;
}

void TraceFile::put_mapping(const trapline_event& event) {
  const auto length = static_cast<std::uint32_t>(std::strlen(event.name));
  put_u64(kRecordMapping);
  put_u64(event.id);
  put(&length, sizeof length);
  put(event.name, length);
}

[[gnu::cold, gnu::noinline]] void TraceFile::put_mappings() {
  struct Pass {
    TraceFile& file;
    std::uint32_t next;  // the highest id plus 1
  } pass{*this, mapped_};
  trapline_events_each(
      "*",
      [](const trapline_event* event, void* context) {
        auto& [file, next] = *static_cast<Pass*>(context);
        if (event->id < file.mapped_) return;
        file.put_mapping(*event);
        if (event->id >= next) next = event->id + 1;
      },
      &pass);
  mapped_ = pass.next;
}

void TraceFile::put_header(const Entry& entry, std::size_t length) {
  if (rfc_) {
    const RfcEvent event{kRfcEventMagic, entry.id, entry.timestamp, entry.arguments};
    put(&event, sizeof event);
  } else {
    const RecordHeader header{entry.id, entry.timestamp,
                              static_cast<std::uint32_t>(sizeof(RecordHeader) + length),
                              static_cast<std::uint32_t>(process_)};
    put_u64(kRecordEvent);
    put(&header, sizeof header);
  }
}

void TraceFile::put_entry(const unsigned char* payload) {
  if (!failed_) [[likely]] {
    write_entry(payload);
    ends[buffered_] = static_cast<std::uint32_t>(size_);
  }
  if (failed_) [[unlikely]] {
    dropped_.fetch_add(1, std::memory_order_relaxed);
  } else {
    ++buffered_;
  }
}

void TraceFile::write_entry(const unsigned char* payload) {
  Entry entry;
  std::memcpy(&entry, payload, sizeof entry);
  has_entries_.store(true, std::memory_order_relaxed);
  // The event belongs to a library that was loaded after the file was opened.
  if (!rfc_ && entry.id >= mapped_) [[unlikely]]
    put_mappings();
  const unsigned char* const begin = payload + sizeof entry;
  const auto value_at = [](const unsigned char* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  };
  const auto is_string = [&](std::uint32_t i) { return (entry.strings >> i & 1) != 0; };
  std::size_t length = 0;
  const unsigned char* at = begin;
  for (std::uint32_t i = 0; i < entry.arguments; ++i) {
    const std::uint64_t value = value_at(at);
    length += is_string(i) ? 4 + static_cast<std::size_t>(value) : 8;
    at += 8 + (is_string(i) ? padded(static_cast<std::size_t>(value)) : 0);
  }
  put_header(entry, length);
  if (entry.strings == 0 && !rfc_) return put(begin, length);
  at = begin;
  for (std::uint32_t i = 0; i < entry.arguments; ++i) {
    const std::uint64_t value = value_at(at);
    at += 8;
    if (rfc_) put_u64(is_string(i) ? value : 8);
    if (!is_string(i)) {
      put_u64(value);
      continue;
    }
    const auto size = static_cast<std::uint32_t>(value);
    if (!rfc_) put(&size, sizeof size);
    put(at, size);
    at += padded(size);
  }
}

void TraceFile::put_dropped(std::uint64_t count) {
  dropped_.fetch_add(count, std::memory_order_relaxed);
  put_header({kDroppedId, read_clock(ClockId::kMono), 1, 0}, sizeof count);
  if (rfc_) put_u64(sizeof count);
  put_u64(count);
}

}  // namespace trapline::simpletrace
