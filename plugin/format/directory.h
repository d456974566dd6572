// Reads a uftrace data directory: from the plugin, from QEMU's own uftrace plugin, or from
// `uftrace record` inside a guest. Streaming: no memory grows with the recording.
#pragma once

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

// The records of one <tid>.dat, in the file's order.
//
// Damage: a cut-off last record is the end of the file and counts as dropped bytes. Bytes that are
// no record (wrong magic, a time before the last record's) are skipped in steps of 8 up to the next
// record, and counted. Argument payloads (records with has_payload()) are skipped the same way, not
// counted: their length is not in the file; payload() has them. Who knows it (measure_payloads())
// spares guessing, where a payload may be taken for records. What ends a payload must be followed
// by a record, too, and lie within an hour: an argument may look like a record.
class RecordReader {
 public:
  [[nodiscard]] static Result<RecordReader> open(const std::string& path,
                                                 std::size_t buffer = 256 * 1024);

  // The next record; nothing at the end; an Error when reading itself fails.
  [[nodiscard]] Result<std::optional<Record>> next();
  // The same where it is in the buffer, and nothing but records around it, as nearly always; else
  // false: next() tells.
  [[nodiscard]] bool next_in_buffer(Record& record) {
    if (in_payload_ || !payload_.empty() || filled_ - at_ < sizeof(Record)) return false;
    const Record found = record_at(at_);
    if (!found.valid() || found.has_payload() || found.time() < last_time_) return false;
    at_ += sizeof(Record);
    last_time_ = found.time();
    record = found;
    return true;
  }

  // How long the payload of a record is that `bytes` begin with, 0: not known. At most kMeasured
  // bytes are shown, and only a length that a record or the file's end follows is believed.
  using PayloadSize = std::function<std::size_t(const Record&, std::span<const std::byte> bytes)>;
  void measure_payloads(PayloadSize measure) { measure_ = std::move(measure); }
  static constexpr std::size_t kMeasured = 4096;

  // The payload of the record before the one that next() returned last; at most kLongestPayload.
  [[nodiscard]] const std::vector<char>& payload() const { return payload_; }
  [[nodiscard]] std::uint64_t dropped_bytes() const { return dropped_; }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  RecordReader(std::string path, UniqueFd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  static constexpr std::size_t kLongestPayload = 256 * 1024;

  // As it stands in the buffer, which has it.
  [[nodiscard]] Record record_at(std::size_t at) const {
    const std::byte* from = std::as_bytes(std::span(buffer_)).data() + at;
    return {load<std::uint64_t>(from), load<std::uint64_t>(from + 8)};
  }
  [[nodiscard]] Result<bool> fill(std::size_t size = sizeof(Record));
  [[nodiscard]] Result<bool> ends_payload(const Record& record);
  // Passes over bytes that are no record.
  void skip(std::size_t size);
  [[nodiscard]] Result<void> skip_measured();

  std::string path_;
  UniqueFd fd_;
  off_t offset_ = 0;  // of what is not in the buffer yet; another reader may share the descriptor
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

// Where the functions of one session are: those of each binary where its map places it. Sessions
// that map the same binary share its table.
class SessionSymbols {
 public:
  void place(std::uint64_t start, std::shared_ptr<const SymbolTable> table);
  // The function that covers the address, of the binary that starts nearest before it; its own
  // address is relative to that start. nullptr: none.
  [[nodiscard]] const Symbol* find(std::uint64_t address) const;

 private:
  static constexpr int kMostTried = 8;  // binaries that lie over each other

  std::vector<std::pair<std::uint64_t, std::shared_ptr<const SymbolTable>>> tables_;  // by start
};

class DataDirectory {
 public:
  DataDirectory(const DataDirectory&) = delete;  // it points into itself
  DataDirectory& operator=(const DataDirectory&) = delete;
  DataDirectory(DataDirectory&&) = default;
  DataDirectory& operator=(DataDirectory&&) = default;
  [[nodiscard]] static Result<DataDirectory> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const UftraceInfo& info() const { return info_; }
  [[nodiscard]] const TaskFile& tasks() const { return tasks_; }

  // Tasks that info or task.txt lists and that have a data file.
  [[nodiscard]] const std::vector<std::uint32_t>& tids() const { return tids_; }
  [[nodiscard]] Result<RecordReader> records(std::uint32_t tid,
                                             std::size_t buffer = 256 * 1024) const;
  // What uftrace calls the task: its session's basename; "" when task.txt does not say.
  [[nodiscard]] std::string task_name(std::uint32_t tid) const;

  // The session that covers the task at its start, "" when there is none.
  [[nodiscard]] std::string session_of(std::uint32_t tid) const;
  [[nodiscard]] Result<std::vector<MapLine>> map(const std::string& sid) const;
  // The functions of the session's map, at the records' addresses (48 bits). A binary without its
  // .sym file is left out; a .sym file is that of the first line with its name.
  [[nodiscard]] Result<SessionSymbols> symbols(const std::string& sid);

 private:
  DataDirectory() = default;

  std::string path_;
  UftraceInfo info_;
  TaskFile tasks_;
  std::vector<std::uint32_t> tids_;
  void relate_tasks();

  // By task: the session that covers it at its start, and that which names it.
  std::unordered_map<std::uint32_t, const SessionLine*> session_of_, named_by_;
  std::map<std::string, std::shared_ptr<const SymbolTable>> tables_;  // by .sym file
};

}  // namespace trapline
