// Reads a uftrace data directory: written by the plugin, by QEMU's own uftrace plugin, or by
// `uftrace record` inside a guest. Records are streamed: memory does not grow with the recording.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "plugin/format/info.h"
#include "plugin/format/map.h"
#include "plugin/format/record.h"
#include "plugin/format/symbol_table.h"
#include "plugin/format/task.h"

namespace trapline {

// The records of one <tid>.dat, in the file's order. A copy shares the open file and goes on from
// the same record.
//
// Damage: an incomplete last record ends the file and counts as dropped bytes. Bytes that are not a
// record (wrong magic, a time before the last record's) are skipped in steps of 8 up to the next
// record, and counted. The file does not give the length of an argument payload (after records with
// has_payload()), so payloads are skipped the same way, but not counted; payload() returns them. A
// caller that knows the lengths passes them to measure_payloads(), which avoids mistaking a payload
// for records. Since an argument may look like a record, a record ends a payload only if another
// record follows it and its time is within an hour of the last.
class RecordReader {
 public:
  [[nodiscard]] static Result<RecordReader> open(const std::string& path,
                                                 std::size_t buffer = 256 * 1024);

  // Returns the next record; nullopt at the end of the file; an Error when reading fails.
  [[nodiscard]] Result<std::optional<Record>> next();
  // Fast path of next(): returns the next record if it is in the buffer and no payload is before or
  // after it, as nearly always. If false, call next().
  [[nodiscard]] bool next_in_buffer(Record& record) {
    if (in_payload_ || !payload_.empty() || filled_ - at_ < sizeof(Record)) return false;
    const Record found = record_at(at_);
    if (!found.valid() || found.has_payload() || found.time() < last_time_) return false;
    at_ += sizeof(Record);
    last_time_ = found.time();
    record = found;
    return true;
  }

  // Returns the length of the payload at the beginning of `bytes`, in bytes; 0: not known. `bytes`
  // has at most kMeasured bytes of the file. A length is used only if a record or the end of the
  // file follows.
  using PayloadSize = std::function<std::size_t(const Record&, std::span<const std::byte> bytes)>;
  void measure_payloads(PayloadSize measure) { measure_ = std::move(measure); }
  static constexpr std::size_t kMeasured = 4096;

  // Returns the payload of the record before the one that next() returned last; at most
  // kLongestPayload bytes.
  [[nodiscard]] const std::vector<char>& payload() const { return payload_; }
  [[nodiscard]] std::uint64_t dropped_bytes() const { return dropped_; }
  [[nodiscard]] std::uint64_t size() const { return size_; }  // of the file, in bytes
  // Returns the time of the file's last record, which it reads at once; nullopt if the file ends in
  // something else or in a LOST record, whose time is 0.
  [[nodiscard]] std::optional<std::uint64_t> end_time() const;

 private:
  RecordReader(std::string path, UniqueFd fd, std::uint64_t size, std::size_t buffer)
      : path_(std::move(path)),
        fd_(std::make_shared<const UniqueFd>(std::move(fd))),
        size_(size),
        room_(std::max(buffer, 4 * sizeof(Record))) {}
  static constexpr std::size_t kLongestPayload = 256 * 1024;

  // Returns the record at a position of the buffer, which holds all of its bytes.
  [[nodiscard]] Record record_at(std::size_t at) const {
    const std::byte* from = std::as_bytes(std::span(buffer_)).data() + at;
    return {load<std::uint64_t>(from), load<std::uint64_t>(from + 8)};
  }
  [[nodiscard]] Result<bool> fill(std::size_t size = sizeof(Record));
  [[nodiscard]] Result<bool> ends_payload(const Record& record);
  // Skips bytes that are not a record.
  void skip(std::size_t size);
  [[nodiscard]] Result<void> skip_measured();

  std::string path_;
  std::shared_ptr<const UniqueFd> fd_;
  std::uint64_t size_;
  std::size_t room_;  // the buffer's size, once something is read
  // File offset of the first byte after the buffer; another reader may share the descriptor.
  off_t offset_ = 0;
  std::vector<char> buffer_;
  std::size_t at_ = 0;
  std::size_t filled_ = 0;
  std::uint64_t last_time_ = 0;
  std::uint64_t dropped_ = 0;
  bool in_payload_ = false;
  Record last_;
  PayloadSize measure_;
  std::vector<char> payload_;
};

// The functions of one session, each binary's where the session's map places it. Sessions that map
// the same binary share its table.
class SessionSymbols {
 public:
  void place(std::uint64_t start, std::shared_ptr<const SymbolTable> table);
  // Returns the function that covers the address, in the binary with the nearest start below it, or
  // nullptr. The function's own address is relative to that start.
  [[nodiscard]] const Symbol* find(std::uint64_t address) const;

 private:
  static constexpr int kMostTried = 8;  // limit of overlapping binaries

  // Sorted by start.
  std::vector<std::pair<std::uint64_t, std::shared_ptr<const SymbolTable>>> tables_;
};

class DataDirectory {
 public:
  DataDirectory(const DataDirectory&) = delete;  // it contains pointers into itself
  DataDirectory& operator=(const DataDirectory&) = delete;
  DataDirectory(DataDirectory&&) = default;
  DataDirectory& operator=(DataDirectory&&) = default;
  [[nodiscard]] static Result<DataDirectory> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const UftraceInfo& info() const { return info_; }
  [[nodiscard]] const TaskFile& tasks() const { return tasks_; }

  // Returns the tasks that info or task.txt lists and that have a data file.
  [[nodiscard]] const std::vector<std::uint32_t>& tids() const { return tids_; }
  [[nodiscard]] Result<RecordReader> records(std::uint32_t tid,
                                             std::size_t buffer = 256 * 1024) const;
  // Returns uftrace's name for the task: its session's basename; "" if task.txt does not have it.
  [[nodiscard]] std::string task_name(std::uint32_t tid) const;

  // Returns the session that covers the task when it starts; "" if there is none.
  [[nodiscard]] std::string session_of(std::uint32_t tid) const;
  [[nodiscard]] Result<std::vector<MapLine>> map(const std::string& sid) const;
  // Loads the functions of the session's map, at the addresses of the records (48 bits). Leaves out
  // binaries without a .sym file. If several lines have the same .sym file name, the file belongs
  // to the first.
  [[nodiscard]] Result<SessionSymbols> symbols(const std::string& sid);

 private:
  DataDirectory() = default;

  std::string path_;
  UftraceInfo info_;
  TaskFile tasks_;
  std::vector<std::uint32_t> tids_;
  void relate_tasks();

  // By task: the session that covers the task when it starts, and the session that names it.
  std::unordered_map<std::uint32_t, const SessionLine*> session_of_, named_by_;
  std::map<std::string, std::shared_ptr<const SymbolTable>> tables_;  // by path of the .sym file
};

}  // namespace trapline
