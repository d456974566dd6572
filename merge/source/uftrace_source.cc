#include "merge/source/uftrace_source.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "backend_ftrace/base/text.h"
#include "merge/clock/guest_relation.h"
#include "merge/clock/sync_points.h"
#include "plugin/format/directory.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kYear2001 = 1'000'000'000'000'000'000;
constexpr std::size_t kReadAhead = 16U << 20;  // all tasks together
constexpr std::size_t kSmallest = 4U << 10, kLargest = 256U << 10;

// The value of --clock in a command line.
std::string clock_option(std::string_view cmdline) {
  constexpr std::string_view kOption = "--clock";
  const auto at = cmdline.find(kOption);
  if (at == cmdline.npos) return {};
  std::string_view rest = cmdline.substr(at + kOption.size());
  if (rest.empty() || (rest.front() != '=' && rest.front() != ' ')) return {};
  rest.remove_prefix(1);
  return std::string(rest.substr(0, rest.find(' ')));
}

// Data that uftrace replays and this does not.
std::string left_out(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const std::string name = entry.path().filename().string();
    const bool data =
        name.ends_with(".dat") &&
        (name.starts_with("kernel-cpu") || name.starts_with("perf-cpu") || name == "extern.dat");
    if (data && entry.is_regular_file(error) && entry.file_size(error) > 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

class UftraceSource final : public Source {
 public:
  explicit UftraceSource(DataDirectory directory) : directory_(std::move(directory)) {
    info_.path = directory_.path();
    info_.kind = "uftrace";
    info_.host = false;
  }

  Result<void> open() {
    const std::size_t count = std::max<std::size_t>(directory_.tids().size(), 1);
    const std::size_t buffer = std::clamp(kReadAhead / count, kSmallest, kLargest);
    for (const std::uint32_t tid : directory_.tids()) {
      auto reader = directory_.records(tid, buffer);
      if (!reader) return tl::unexpected(std::move(reader).error());
      struct stat status {};
      if (::stat(reader->path().c_str(), &status) == 0) size_ += size_of(status.st_size);
      Lane lane{std::move(*reader), tid, vcpu_of(tid), nullptr, {}, 0};
      if (auto symbols = symbols_of(tid); symbols) {
        lane.symbols = *symbols;
      } else {
        return tl::unexpected(std::move(symbols).error());
      }
      lanes_.push_back(std::move(lane));
    }
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (!fetch(i)) return status_;
    }
    return choose_clock();
  }

  bool next(Event& event) override {
    if (!status_ || heap_.empty()) return false;
    std::pop_heap(heap_.begin(), heap_.end(), later_);
    const std::size_t i = heap_.back();
    heap_.pop_back();
    Lane& lane = lanes_[i];
    const Record record = lane.ahead;
    event = {};
    // uftrace stamps LOST with 0: it happened after the task's last record.
    event.at = Timestamp(std::max(record.time(), lane.last));
    event.thread = ThreadId{static_cast<std::int32_t>(lane.tid)};
    event.type = static_cast<std::uint16_t>(record.type());
    if (record.type() == RecordType::kLost) {
      event.payload = Lost{Timestamp(lane.last), event.at, record.address()};
      counters_.lost_events += record.address();
      ++counters_.gaps;
      if (record.address() == 0) ++counters_.gaps_uncounted;
    } else if (record.type() != RecordType::kEvent) {
      const Symbol* symbol = lane.symbols->find(record.address());
      event.payload = GuestCall{record.type() == RecordType::kEntry, lane.vcpu,
                                static_cast<std::uint32_t>(record.depth()), record.address(),
                                symbol != nullptr ? symbol->name : std::string_view()};
    }
    ++counts_[event.type];
    ++counters_.events;
    lane.last = event.at.ns();
    (void)fetch(i);  // what fails now is told after this event
    return true;
  }

  const Result<void>& status() const override { return status_; }
  const SourceInfo& info() const override { return info_; }
  const SourceCounters& counters() const override { return counters_; }
  double progress() const override {
    const auto read = static_cast<double>(counters_.events * sizeof(Record));
    return size_ == 0 ? 1 : std::min(1.0, read / static_cast<double>(size_));
  }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    const UftraceInfo& info = directory_.info();
    return {{"format", "uftrace data directory"},
            {"recorded by", info.version},
            {"command", info.cmdline},
            {"machine", info.hostname},
            {"tasks", std::to_string(lanes_.size())},
            {"not read", left_out(directory_.path())}};
  }
  std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    std::vector<std::pair<std::string, std::uint64_t>> all;
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (counts_[i] != 0) all.emplace_back(kNames[i], counts_[i]);
    }
    return all;
  }
  std::string event_name(const Event& event) const override {
    return event.type < std::size(kNames) ? kNames[event.type] : "";
  }
  std::string event_text(const Event& event) const override {
    if (const auto* lost = std::get_if<Lost>(&event.payload)) {
      return fmt::format("{} records", lost->count);
    }
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr) return {};
    return call->name.empty() ? fmt::format("{:#x}", call->function) : printable(call->name);
  }
  std::string comm(ThreadId thread) const override {
    return printable(directory_.task_name(static_cast<std::uint32_t>(thread)));
  }
  std::string exit_reason(std::uint32_t, std::uint32_t, std::uint32_t) const override { return {}; }
  std::string userspace_reason(std::uint32_t) const override { return {}; }

 private:
  static constexpr const char* kNames[] = {"guest:entry", "guest:exit", "guest:lost",
                                           "guest:event"};
  struct Lane {
    RecordReader reader;
    std::uint32_t tid;
    std::int32_t vcpu;
    const SymbolTable* symbols;
    Record ahead;
    std::uint64_t last = 0;
  };
  static std::uint64_t size_of(off_t size) {
    return size > 0 ? static_cast<std::uint64_t>(size) : 0;
  }

  // Only the plugin's tasks, whose names begin with cpu, are numbered by vCPU.
  [[nodiscard]] std::int32_t vcpu_of(std::uint32_t tid) const {
    return directory_.task_name(tid).starts_with("cpu") ? vcpu_of_task(tid) : kNoVcpu;
  }
  // Sessions share a table; what has no map has no names.
  Result<const SymbolTable*> symbols_of(std::uint32_t tid) {
    const std::string sid = directory_.session_of(tid);
    const auto [known, is_new] = symbols_.try_emplace(sid);
    if (!is_new || sid.empty()) return &known->second;
    std::error_code error;
    if (!fs::exists(directory_.path() + "/sid-" + sid + ".map", error)) return &known->second;
    auto table = directory_.symbols(sid);
    if (!table) return tl::unexpected(std::move(table).error());
    known->second = std::move(*table);
    return &known->second;
  }
  bool fetch(std::size_t i) {
    Lane& lane = lanes_[i];
    const std::uint64_t dropped = lane.reader.dropped_bytes();
    auto record = lane.reader.next();
    counters_.damaged_events += (lane.reader.dropped_bytes() - dropped + 15) / sizeof(Record);
    if (!record) {
      status_ = tl::unexpected(std::move(record).error());
      return false;
    }
    if (!*record) return true;
    lane.ahead = **record;
    heap_.push_back(i);
    std::push_heap(heap_.begin(), heap_.end(), later_);
    return true;
  }
  Result<void> choose_clock() {
    auto sync = clocks::read_sync_file(directory_.path() + "/sync.txt");
    if (!sync) return tl::unexpected(std::move(sync).error());
    info_.clock = sync->clock;
    if (info_.clock.empty()) info_.clock = clock_option(directory_.info().cmdline);
    if (info_.clock.empty()) {
      const bool real = !heap_.empty() && lanes_[heap_.front()].ahead.time() > kYear2001;
      info_.clock = real ? "real" : "mono";
    }
    info_.cycles = info_.clock == "tsc";
    return {};
  }

  DataDirectory directory_;
  std::map<std::string, SymbolTable> symbols_;
  std::vector<Lane> lanes_;
  std::vector<std::size_t> heap_;  // lanes with a record, the earliest in front
  struct Later {
    const std::vector<Lane>* lanes;
    bool operator()(std::size_t a, std::size_t b) const {
      const auto time = [this](std::size_t i) {
        return std::max((*lanes)[i].ahead.time(), (*lanes)[i].last);
      };
      return time(a) != time(b) ? time(a) > time(b) : a > b;
    }
  } later_{&lanes_};
  std::uint64_t size_ = 0;
  std::uint64_t counts_[4] = {};
  SourceInfo info_;
  SourceCounters counters_;
  Result<void> status_;
};

}  // namespace

Result<std::unique_ptr<Source>> open_uftrace(const std::string& path) {
  auto directory = DataDirectory::open(path);
  if (!directory) return tl::unexpected(std::move(directory).error());
  auto source = std::make_unique<UftraceSource>(std::move(*directory));
  if (auto opened = source->open(); !opened) return tl::unexpected(std::move(opened).error());
  return source;
}

}  // namespace trapline
