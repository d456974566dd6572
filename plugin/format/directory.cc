#include "plugin/format/directory.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <set>
#include <string_view>

#include "backend_ftrace/base/held_files.h"
#include "backend_ftrace/base/paths.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"

namespace trapline {
namespace {

constexpr std::uint64_t kHour = 3'600'000'000'000;  // ns

}  // namespace

Result<RecordReader> RecordReader::open(const std::string& path, std::size_t buffer) {
  UniqueFd fd = open_to_read(path, O_NONBLOCK);
  if (!fd) return fail("cannot open {}: {}", path, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0)
    return fail("cannot open {}: {}", path, std::strerror(errno));
  return RecordReader(path, std::move(fd), static_cast<std::uint64_t>(status.st_size), buffer);
}

std::optional<std::uint64_t> RecordReader::end_time() const {
  constexpr std::uint64_t kSize = sizeof(Record);
  std::array<std::byte, kSize> bytes{};
  // A file that was cut off ends within a record.
  const auto at = static_cast<off_t>((std::max(size_ / kSize, std::uint64_t{1}) - 1) * kSize);
  if (::pread(fd_->get(), bytes.data(), kSize, at) != std::ssize(bytes)) return {};
  const Record record(load<std::uint64_t>(bytes.data()), load<std::uint64_t>(bytes.data() + 8));
  const bool stamped = record.valid() && record.type() != RecordType::kLost;
  return stamped ? std::optional(record.time()) : std::nullopt;
}

// Makes sure that the buffer holds `size` bytes from at_ on; false at the end of the file.
Result<bool> RecordReader::fill(std::size_t size) {
  if (filled_ - at_ >= size) return true;
  buffer_.resize(room_);
  std::memmove(buffer_.data(), buffer_.data() + at_, filled_ - at_);
  filled_ -= at_;
  at_ = 0;
  while (filled_ < size) {
    const ssize_t got =
        ::pread(fd_->get(), buffer_.data() + filled_, buffer_.size() - filled_, offset_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("cannot read {}: {}", path_, std::strerror(errno));
    if (got == 0) return false;
    offset_ += got;
    filled_ += static_cast<std::size_t>(got);
  }
  return true;
}

// Returns whether the bytes at at_, which look like a record, are one and not part of the payload.
Result<bool> RecordReader::ends_payload(const Record& record) {
  // uftrace's own LOST records carry time 0.
  const bool lost = record.type() == RecordType::kLost && record.time() == 0;
  if (!lost && (record.time() < last_time_ || record.time() - last_time_ > kHour)) return false;
  auto more = fill(2 * sizeof(Record));
  if (!more) return more;
  // At the end of the file or before another payload, no next record can confirm this one.
  if (!*more || record.has_payload()) return true;
  const Record next = record_at(at_ + sizeof(Record));
  return next.valid() && (next.time() >= record.time() || next.type() == RecordType::kLost);
}

void RecordReader::skip(std::size_t size) {
  if (!in_payload_) {
    dropped_ += size;
  } else if (payload_.size() < kLongestPayload) {
    const auto* from = buffer_.data() + at_;
    payload_.insert(payload_.end(), from, from + size);
  }
  at_ += size;
}

// Skips the payload if its length is known.
Result<void> RecordReader::skip_measured() {
  if (auto whole = fill(std::min(room_, kMeasured)); !whole) {
    return tl::unexpected(std::move(whole).error());
  }
  const auto bytes = std::as_bytes(std::span(buffer_)).subspan(at_, filled_ - at_);
  const std::size_t size = measure_(last_, bytes.first(std::min(bytes.size(), kMeasured)));
  if (size == 0 || size > bytes.size()) return {};
  if (bytes.size() - size >= sizeof(Record) && !record_at(at_ + size).valid()) return {};
  skip(size);
  in_payload_ = false;
  return {};
}

Result<std::optional<Record>> RecordReader::next() {
  payload_.clear();
  if (in_payload_ && measure_) {
    if (auto skipped = skip_measured(); !skipped) return tl::unexpected(skipped.error());
  }
  for (;;) {
    if (filled_ - at_ < sizeof(Record)) [[unlikely]] {
      auto whole = fill();
      if (!whole) return tl::unexpected(std::move(whole).error());
      if (!*whole) {
        skip(filled_ - at_);
        return std::optional<Record>();
      }
    }
    const Record record = record_at(at_);
    // uftrace writes LOST records with time 0.
    const bool in_order = record.time() >= last_time_ || record.type() == RecordType::kLost;
    bool is_record = record.valid() && in_order;
    if (is_record && in_payload_) {
      auto ends = ends_payload(record);
      if (!ends) return tl::unexpected(std::move(ends).error());
      is_record = *ends;
    }
    if (!is_record) {
      skip(8);
      continue;
    }
    at_ += sizeof(Record);
    last_time_ = std::max(last_time_, record.time());
    in_payload_ = record.has_payload();
    last_ = record;
    return std::optional<Record>(record);
  }
}

Result<DataDirectory> DataDirectory::open(const std::string& path) {
  DataDirectory directory;
  directory.path_ = path;
  auto info_text = read_text(path + "/info");
  if (!info_text) return tl::unexpected(std::move(info_text).error());
  auto info = parse_info(*info_text, path + "/info");
  if (!info) return tl::unexpected(std::move(info).error());
  directory.info_ = std::move(*info);
  auto task_text = read_text(path + "/task.txt");
  if (!task_text) return tl::unexpected(std::move(task_text).error());
  auto tasks = parse_task_file(*task_text, path + "/task.txt");
  if (!tasks) return tl::unexpected(std::move(tasks).error());
  directory.tasks_ = std::move(*tasks);
  directory.tids_ = directory.info_.tids;
  // Adds the last tasks, which info lacks if the recorder was killed.
  for (const TaskLine& task : directory.tasks_.tasks) directory.tids_.push_back(task.tid);
  directory.relate_tasks();
  std::sort(directory.tids_.begin(), directory.tids_.end());
  directory.tids_.erase(std::unique(directory.tids_.begin(), directory.tids_.end()),
                        directory.tids_.end());
  std::erase_if(directory.tids_, [&path](std::uint32_t tid) {
    return !is_file(fmt::format("{}/{}.dat", path, tid));
  });
  return directory;
}

Result<RecordReader> DataDirectory::records(std::uint32_t tid, std::size_t buffer) const {
  return RecordReader::open(fmt::format("{}/{}.dat", path_, tid), buffer);
}

// Relates tasks to sessions. Reads each kind of line once: a file may have very many of each.
void DataDirectory::relate_tasks() {
  // The session lines of one process. `until` has for each line's time, among the lines up to that
  // time, the one that comes last in the file.
  struct Sessions {
    const SessionLine* first = nullptr;
    const SessionLine* last = nullptr;
    std::map<std::uint64_t, const SessionLine*> until;
    [[nodiscard]] const SessionLine* at(std::uint64_t time) const {
      const auto after = until.upper_bound(time);
      return after == until.begin() ? nullptr : std::prev(after)->second;
    }
  };
  std::unordered_map<std::uint32_t, Sessions> sessions;
  std::unordered_map<std::uint32_t, const SessionLine*> parents;  // of forked processes
  for (const SessionLine& line : tasks_.sessions) {
    Sessions& of = sessions[line.pid];
    if (of.first == nullptr) of.first = &line;
    of.last = of.until[line.time] = &line;
  }
  for (auto& [pid, of] : sessions) {
    // The lines are in one array, so a later line has the higher address.
    const SessionLine* last = nullptr;
    for (auto& [time, line] : of.until) last = line = std::max(last, line);
  }
  for (const ForkLine& line : tasks_.forks) {
    const auto parent = sessions.find(line.ppid);
    if (parent != sessions.end()) parents[line.pid] = parent->second.last;
  }
  for (const TaskLine& line : tasks_.tasks) {
    const SessionLine*& covers = session_of_[line.tid];
    if (const auto own = sessions.find(line.pid); own != sessions.end()) {
      named_by_.try_emplace(line.tid, own->second.first);
      const SessionLine* at = own->second.at(line.time);
      if (at != nullptr || covers == nullptr) covers = at != nullptr ? at : own->second.first;
    } else if (covers == nullptr) {
      // A forked child keeps its parent's session until it executes a program.
      const auto parent = parents.find(line.pid);
      if (parent != parents.end()) covers = parent->second;
    }
  }
}

std::string DataDirectory::session_of(std::uint32_t tid) const {
  const auto found = session_of_.find(tid);
  if (found != session_of_.end() && found->second != nullptr) return found->second->sid;
  return tasks_.sessions.size() == 1 ? tasks_.sessions.front().sid : std::string();
}

std::string DataDirectory::task_name(std::uint32_t tid) const {
  const auto found = named_by_.find(tid);
  return found == named_by_.end() ? std::string()
                                  : std::string(basename_of(found->second->exename));
}

Result<std::vector<MapLine>> DataDirectory::map(const std::string& sid) const {
  const std::string path = fmt::format("{}/sid-{}.map", path_, basename_of(sid));
  auto text = read_text(path);
  if (!text) return tl::unexpected(std::move(text).error());
  return parse_map(*text, path);
}

Result<SessionSymbols> DataDirectory::symbols(const std::string& sid) {
  auto lines = map(sid);
  if (!lines) return tl::unexpected(std::move(lines).error());
  SessionSymbols symbols;
  std::set<std::string_view> done;  // a binary's first line gives its place
  for (const MapLine& line : *lines) {
    const std::string_view name = basename_of(line.path);
    if (!done.insert(name).second) continue;
    auto known = tables_.find(std::string(name));
    if (known == tables_.end()) {
      std::shared_ptr<SymbolTable> table;
      if (const std::string path = fmt::format("{}/{}.sym", path_, name); is_file(path)) {
        auto file = load_symbol_file(path);
        if (!file) return tl::unexpected(std::move(file).error());
        table = std::make_shared<SymbolTable>();
        table->add(*file, 0);
        table->build();
      }
      known = tables_.emplace(name, std::move(table)).first;
    }
    if (known->second) symbols.place(line.start, known->second);
  }
  return symbols;
}

void SessionSymbols::place(std::uint64_t start, std::shared_ptr<const SymbolTable> table) {
  const auto after =
      std::ranges::upper_bound(tables_, start, {}, [](const auto& one) { return one.first; });
  tables_.emplace(after, start, std::move(table));
}

const Symbol* SessionSymbols::find(std::uint64_t address) const {
  auto after =
      std::ranges::upper_bound(tables_, address, {}, [](const auto& one) { return one.first; });
  for (int tried = 0; after != tables_.begin() && tried < kMostTried; ++tried) {
    --after;
    if (const Symbol* symbol = after->second->find(address - after->first)) return symbol;
  }
  return nullptr;
}

}  // namespace trapline
