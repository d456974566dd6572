// Reads simpletrace files: QEMU's versions 2 to 4 and the RFC layout, both byte orders.
//
// Guarantees: memory does not grow with the file; no length in the file is trusted. A file that
// ends in the middle of a record is read up to there, and cut_bytes() says how much is left over. A
// record whose length is impossible ends the reading with an error that names its offset. An event
// that has no declaration, or whose arguments do not fill its record as declared, is yielded
// without values and counted.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "backend_ftrace/tracetool/event_format.h"
#include "backend_ftrace/tracetool/trace_events.h"

namespace trapline::simpletrace {

enum class Layout : std::uint8_t { kQemu, kRfc };

struct Record {
  bool dropped = false;  // `count` events were dropped before this one
  std::uint64_t count = 0;
  std::uint64_t id = 0;
  std::uint64_t timestamp = 0;  // CLOCK_MONOTONIC, ns
  std::uint32_t pid = 0;        // 0: not recorded, as in version 2
  std::string_view name;        // empty: neither the file nor the declarations name the id
  const tracetool::Event* event = nullptr;  // nullptr: not declared
  std::vector<tracetool::Value> values;     // text points into the reader until the next next()
};

class Reader {
 public:
  // Opens a file. `declarations` give the arguments their types and must outlive the reader.
  [[nodiscard]] static Result<Reader> open(const std::string& path,
                                           const tracetool::EventFile& declarations);
  // Reads an open file, which others may read as well, from its start. Errors name `name`.
  [[nodiscard]] static Result<Reader> read(std::shared_ptr<const UniqueFd> file, std::string name,
                                           const tracetool::EventFile& declarations);
  // Returns whether the first 16 bytes are those of a simpletrace file.
  [[nodiscard]] static bool recognises(std::string_view first_bytes);

  // Reads the next record. False at the end; an error for damage that the reader cannot skip, and
  // when the file cannot be read on.
  [[nodiscard]] Result<bool> next(Record& record);

  [[nodiscard]] Layout layout() const { return layout_; }
  [[nodiscard]] std::uint64_t version() const { return version_; }
  // Returns how many events were yielded without values.
  [[nodiscard]] std::uint64_t undecoded() const { return undecoded_; }
  [[nodiscard]] std::uint64_t cut_bytes() const {
    return cut_bytes_;
  }  // bytes after the last whole record
  [[nodiscard]] std::uint64_t offset() const { return offset_; }

 private:
  Reader(std::string path, std::shared_ptr<const UniqueFd> fd,
         const tracetool::EventFile& declarations);

  [[nodiscard]] Result<void> read_header();
  [[nodiscard]] bool fill(std::size_t bytes);  // makes `bytes` bytes available
  void take(std::size_t bytes);
  [[nodiscard]] std::uint64_t u64(std::size_t at) const;
  [[nodiscard]] std::uint32_t u32(std::size_t at) const;
  [[nodiscard]] tl::unexpected<Error> damaged(std::string_view what) const;

  [[nodiscard]] Result<bool> next_qemu(Record& record);
  [[nodiscard]] Result<bool> next_rfc(Record& record);
  [[nodiscard]] Result<bool> read_mapping();
  void identify(Record& record) const;
  [[nodiscard]] bool decode(Record& record, std::size_t at, std::size_t end) const;
  [[nodiscard]] Result<bool> cut();

  std::string path_;
  std::shared_ptr<const UniqueFd> fd_;
  std::unordered_map<std::string_view, const tracetool::Event*> by_name_;
  std::vector<const tracetool::Event*> by_number_;  // used when the file maps no names
  std::unordered_map<std::uint64_t, std::string> names_;
  Layout layout_ = Layout::kQemu;
  std::uint64_t version_ = 0;
  std::uint32_t file_pid_ = 0;
  bool swap_ = false;
  std::unique_ptr<char[]> buffer_;  // uninitialised, since most files are shorter
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint64_t offset_ = 0;  // offset of begin_ in the file
  std::uint64_t undecoded_ = 0;
  std::uint64_t cut_bytes_ = 0;
  int error_ = 0;  // errno of the read that failed
  const tracetool::EventFile* declarations_;
};

// Formats a record as QEMU's simpletrace.py prints it: "NAME DELTA_US pid=N arg=0x… string=b'…'".
// `previous` is the time of the record before in ns, if there is one.
[[nodiscard]] std::string line_of(const Record& record, std::optional<std::uint64_t> previous);

}  // namespace trapline::simpletrace
