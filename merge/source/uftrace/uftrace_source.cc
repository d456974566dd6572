// Reads a uftrace data directory as a source: function entries and exits become GuestCall events on
// the directory's own clock. Reads those of our plugin, of QEMU's uftrace plugin, and of `uftrace
// record` in a guest or on a host: file versions 3 and 4, both forms of symbol files.
//
// Threads are uftrace's task ids. vcpu is set for the plugin's tasks and kNoVcpu for others; cpu is
// where a task of the others was seen last (perf-cpu*.dat, kernel-cpu*.dat). LOST records become
// Lost events. A task off the CPU is in a call of linux:schedule, as uftrace shows it. Functions of
// the kernel (kernel-cpu*.dat, names from kallsyms) belong to the task that called them, above its
// own; those of tasks that the directory does not list are skipped. Arguments and return values are
// in event_text() and, as recorded, in Event::raw. User events are returned undecoded. extern.dat
// is not read; facts() names it. A directory that was cut off is read up to the cut; bytes that are
// not a record count as damaged.
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <variant>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"
#include "merge/source/merge_heap.h"
#include "merge/source/open_recording.h"
#include "merge/source/uftrace/kernel_functions.h"
#include "merge/source/uftrace/sync_file.h"
#include "merge/source/uftrace/values.h"
#include "plugin/format/directory.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kYear2001 = 1'000'000'000'000'000'000;
constexpr std::size_t kReadAhead = 2U << 20;  // bytes, for all tasks together
constexpr std::size_t kSmallest = 4U << 10, kLargest = 256U << 10;

struct Lane {
  RecordReader reader;
  std::uint32_t tid;
  std::int32_t vcpu;
  const SessionSymbols* symbols;
  Record ahead;
  std::int32_t cpu = kNoVcpu;
  std::uint64_t last = 0;
  // The task's open calls, counted as uftrace does, because a record's own depth can be wrong: it
  // ends at 1,023, and QEMU's first uftrace plugin gives a return one less than its call.
  std::uint32_t depth = 0;
  bool counted = false;            // false: the count begins with the next record's own depth
  std::uint32_t kernel_depth = 0;  // open calls of kernel functions, above `depth`
  std::string_view off_cpu = {};   // how the task was scheduled out; empty: it is on a CPU
  std::vector<char> payload = {};  // of the record that next() returned last
  // The function of the last call or return; the initial value is no function's address.
  std::uint64_t function = ~std::uint64_t{0};
  const Symbol* symbol = nullptr;  // the symbol of `function`
};

// A file of one CPU, and its next item.
struct CpuFile {
  std::variant<SwitchReader, KernelCallReader> reader;
  CpuItem ahead;
};

// A directory whose files are open, each once. Each reading begins with a copy of its readers.
struct Opened {
  explicit Opened(DataDirectory of) : directory(std::move(of)) {}
  Result<void> open() {
    const std::vector<std::uint32_t>& tids = directory.tids();
    const std::size_t buffer =
        std::clamp(kReadAhead / std::max<std::size_t>(tids.size(), 1), kSmallest, kLargest);
    for (const std::uint32_t tid : tids) {
      auto reader = directory.records(tid, buffer);
      if (!reader) return tl::unexpected(std::move(reader).error());
      size += reader->size();
      if (const auto end = reader->end_time()) range_last = std::max(range_last.value_or(0), *end);
      auto symbols = symbols_of(tid);
      if (!symbols) return tl::unexpected(std::move(symbols).error());
      lane_of[tid] = lanes.size();
      lanes.push_back({std::move(*reader), tid, vcpu_of(tid), *symbols, {}});
    }
    const std::string& path = directory.path();
    const auto switches = SwitchReader::open_all(path);
    if (!switches) return tl::unexpected(switches.error());
    const auto kernel = KernelCallReader::open_all(path);
    if (!kernel) return tl::unexpected(kernel.error());
    has_kernel = !kernel->empty();
    const auto add = [this](const auto& reader) {
      size += reader.size();
      files.push_back({reader, {}});
    };
    std::ranges::for_each(*switches, add);
    std::ranges::for_each(*kernel, add);
    if (auto loaded = load_kernel_symbols(); !loaded) return loaded;
    const auto cpus = first_cpus(*switches);
    if (!cpus) return tl::unexpected(cpus.error());
    for (const auto& [tid, cpu] : *cpus) {
      const auto lane = lane_of.find(tid);
      if (lane != lane_of.end()) lanes[lane->second].cpu = cpu;
    }
    auto sync = read_sync_file(path + "/sync.txt");
    if (!sync) return tl::unexpected(std::move(sync).error());
    clock = std::move(sync->clock);
    if (clock.empty()) clock = clock_option(directory.info().cmdline);
    return {};
  }

  DataDirectory directory;
  std::vector<Lane> lanes;
  std::map<std::uint32_t, std::size_t> lane_of;  // by task
  std::vector<CpuFile> files;                    // first those of switches
  bool has_kernel = false;                       // there are files of kernel functions
  SymbolTable kernel_symbols;
  std::string clock;  // empty: nothing names it
  std::uint64_t size = 0;
  std::optional<std::uint64_t> range_last;  // time of the functions' last record

 private:
  // Only the plugin's tasks, whose names begin with cpu, have the number of a vCPU. Other tasks get
  // the CPU of their schedule events.
  [[nodiscard]] std::int32_t vcpu_of(std::uint32_t tid) const {
    return directory.task_name(tid).starts_with("cpu") ? vcpu_of_task(tid) : kNoVcpu;
  }
  // Returns the symbols of the task's session, loaded once; none if the session has no map.
  Result<const SessionSymbols*> symbols_of(std::uint32_t tid) {
    const std::string sid = directory.session_of(tid);
    const auto [known, is_new] = symbols_.try_emplace(sid);
    if (!is_new || sid.empty()) return &known->second;
    std::error_code error;
    if (!fs::exists(directory.path() + "/sid-" + sid + ".map", error)) return &known->second;
    if (auto loaded = assign(known->second, directory.symbols(sid)); !loaded)
      return tl::unexpected(std::move(loaded).error());
    return &known->second;
  }
  Result<void> load_kernel_symbols() {
    const std::string path = directory.path() + "/kallsyms";
    std::error_code error;
    if (!has_kernel || !fs::is_regular_file(path, error) || fs::file_size(path, error) == 0)
      return {};
    const SymbolFileSpec file{path, 0};
    return assign(kernel_symbols, SymbolTable::load(std::span(&file, 1)));
  }

  std::map<std::string, SessionSymbols> symbols_;
};

class UftraceSource final : public Source {
 public:
  explicit UftraceSource(std::shared_ptr<const Opened> opened)
      : opened_(std::move(opened)),
        directory_(opened_->directory),
        values_(directory_.info()),
        lanes_(opened_->lanes),
        files_(opened_->files) {
    info_.path = directory_.path();
    info_.kind = "uftrace";
    info_.role = Role::kGuest;
  }

  static Result<std::unique_ptr<Source>> reading_of(std::shared_ptr<const Opened> opened) {
    auto source = std::make_unique<UftraceSource>(std::move(opened));
    if (auto begun = source->fetch_first(); !begun) return tl::unexpected(std::move(begun).error());
    return source;
  }
  Result<std::unique_ptr<Source>> reopen() const override { return reading_of(opened_); }

  // Reads the first record of each file.
  Result<void> fetch_first() {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      lanes_[i].reader.measure_payloads([this, i](const Record& record, auto bytes) {
        return payload_size(lanes_[i], record, bytes);
      });
      if (!fetch(i)) return status_;
    }
    if (!heap_.empty()) range_first_ = heap_.top_time();
    info_.clock = !opened_->clock.empty()                ? opened_->clock
                  : range_first_.value_or(0) > kYear2001 ? "real"
                                                         : "mono";
    info_.cycles = info_.clock == "tsc";
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (!fetch_item(i)) return status_;
    reading_ = true;
    return {};
  }

  Read take(Event& event) override {
    while (status_ && (first_ || !heap_.empty())) {
      const std::size_t i = first_ ? *std::exchange(first_, std::nullopt) : heap_.pop();
      if (i < lanes_.size()) {
        take_record(i, event);
      } else if (!take_item(i - lanes_.size(), event)) {
        continue;
      }
      ++counts_[event.type];
      ++counters_.events;
      return Read::kEvent;
    }
    return Read::kEnd;
  }

  double progress() const override {
    const auto read = static_cast<double>(counters_.events * sizeof(Record));
    return opened_->size == 0 ? 1 : std::min(1.0, read / static_cast<double>(opened_->size));
  }
  Description describe() const override {
    Description is = Source::describe();
    is.machine.name = directory_.info().hostname;
    return is;
  }
  // Returns nullopt if values follow the records: then the last 16 bytes may not be a record.
  std::optional<std::pair<Timestamp, Timestamp>> range() const override {
    const UftraceInfo& info = directory_.info();
    const bool has_values = !info.argspecs.empty() || !info.retspecs.empty() ||
                            !info.argauto.empty() || !info.retauto.empty();
    const auto& last = opened_->range_last;
    if (has_values || !range_first_ || !last || *last < *range_first_) return {};
    return std::pair(Timestamp(*range_first_), Timestamp(*last));
  }
  std::vector<std::pair<std::string, std::string>> facts() const override {
    const UftraceInfo& info = directory_.info();
    return {{"format", "uftrace data directory"},
            {"recorded by", info.version},
            {"command", info.cmdline},
            {"machine", info.hostname},
            {"tasks", std::to_string(lanes_.size())},
            {"not read", left_out(directory_.path(), opened_->has_kernel)}};
  }
  std::vector<std::pair<std::string, std::uint64_t>> event_counts() const override {
    std::vector<std::pair<std::string, std::uint64_t>> all;
    for (std::size_t i = 0; i < std::size(kNames); ++i)
      if (counts_[i] != 0) all.emplace_back(kNames[i], counts_[i]);
    return all;
  }
  std::string event_name(const Event& event) const override {
    return event.type < std::size(kNames) ? kNames[event.type] : "";
  }
  std::string event_text(const Event& event) const override {
    if (const auto* lost = std::get_if<Lost>(&event.payload))
      return fmt::format("{} records", lost->count);
    const auto* call = std::get_if<GuestCall>(&event.payload);
    if (call == nullptr) return {};
    if (call->name.empty()) return fmt::format("{:#x}", call->function);
    if (call->function >= kKernel) return printable(call->name);
    return printable(call->name) + values_.text(call->name, !call->entry, event.raw).value_or("");
  }
  std::string name_of(ThreadId thread) const override {
    return printable(directory_.task_name(static_cast<std::uint32_t>(thread)));
  }

 private:
  static constexpr const char* kNames[] = {"guest:entry", "guest:exit",      "guest:lost",
                                           "guest:event", "guest:sched_out", "guest:sched_in"};
  static constexpr std::uint16_t kSchedOut = 4, kSchedIn = 5;
  // The kernel's addresses begin here.
  static constexpr std::uint64_t kKernel = std::uint64_t{1} << 63;
  // The names that uftrace has for a task's time off the CPU, which it shows as a call.
  static constexpr std::string_view kSchedule = "linux:schedule",
                                    kPreempted = "linux:schedule (pre-empted)";
  // The data of an event begins with its length; the length of a call's data follows from the
  // types of the function's arguments (values.h).
  std::size_t payload_size(const Lane& lane, const Record& record,
                           std::span<const std::byte> bytes) {
    if (record.type() == RecordType::kEvent)
      return bytes.size() < 2 ? 0 : (load<std::uint16_t>(bytes.data()) + 2u + 7u) / 8 * 8;
    const Symbol* symbol = lane.symbols->find(record.address());
    if (symbol == nullptr) return 0;
    return values_.size(symbol->name, record.type() == RecordType::kExit, bytes);
  }
  static GuestCall call_of(const Lane& lane, bool entry, std::uint32_t depth,
                           std::uint64_t function, const Symbol* symbol) {
    const std::string_view name = symbol == nullptr ? std::string_view() : symbol->name;
    return {.entry = entry,
            .vcpu = lane.vcpu,
            .depth = depth,
            .function = function,
            .name = name,
            .cpu = lane.cpu};
  }
  static void begin(Event& event, std::uint64_t at, const Lane& lane, std::uint16_t type) {
    event = {};
    event.at = Timestamp(at);
    event.thread = ThreadId{static_cast<std::int32_t>(lane.tid)};
    event.type = type;
  }
  void take_record(std::size_t i, Event& event) {
    Lane& lane = lanes_[i];
    const Record record = lane.ahead;
    // uftrace writes LOST with the time 0; the loss happened after the task's last record.
    const std::uint64_t at = std::max(record.time(), lane.last);
    begin(event, at, lane, static_cast<std::uint16_t>(record.type()));
    if (record.type() == RecordType::kLost) {
      event.payload = Lost{Timestamp(lane.last), event.at, record.address()};
      counters_.add_gap(record.address());
      lane.counted = false;
    } else if (record.type() != RecordType::kEvent) {
      const bool entry = record.type() == RecordType::kEntry;
      // Keeps the last symbol, since a call and its return have the same function.
      if (lane.function != record.address()) {
        lane.function = record.address();
        lane.symbol = lane.symbols->find(record.address());
      }
      const Symbol* symbol = lane.symbol;
      if (!std::exchange(lane.counted, true)) lane.depth = record.depth() + (entry ? 0 : 1);
      if (!entry && lane.depth != 0) --lane.depth;
      event.payload.emplace<GuestCall>(call_of(lane, entry, lane.depth, record.address(), symbol));
      if (entry) ++lane.depth;
    }
    lane.last = event.at.ns();
    (void)fetch(i);  // next() reports a failure after this event
    if (record.has_payload()) {
      lane.payload = lane.reader.payload();
      event.raw = std::as_bytes(std::span(lane.payload));
    }
  }
  // Makes a switch a call of linux:schedule, and a kernel's function a call within the functions
  // that its task has open. Returns false for an item without effect: its task is not in the
  // directory, or the switch does not change whether the task is on a CPU.
  bool take_item(std::size_t i, Event& event) {
    const CpuItem item = files_[i].ahead;
    (void)fetch_item(i);
    const auto found = opened_->lane_of.find(item.tid);
    if (found == opened_->lane_of.end()) return false;
    Lane& lane = lanes_[found->second];
    if (item.is_switch && item.entry != lane.off_cpu.empty()) return false;
    lane.cpu = item.cpu;
    if (!item.is_switch) {
      lane.kernel_depth = item.depth + (item.entry ? 1 : 0);
      const auto type = item.entry ? RecordType::kEntry : RecordType::kExit;
      begin(event, item.time, lane, static_cast<std::uint16_t>(type));
      event.payload = call_of(lane, item.entry, lane.depth + item.depth, item.function,
                              opened_->kernel_symbols.find(item.function));
      return true;
    }
    begin(event, item.time, lane, item.entry ? kSchedOut : kSchedIn);
    if (item.entry) lane.off_cpu = item.preempted ? kPreempted : kSchedule;
    GuestCall call = call_of(lane, item.entry, lane.depth + lane.kernel_depth, 0, nullptr);
    call.name = lane.off_cpu;
    call.off_cpu = true;
    event.payload = call;
    if (!item.entry) lane.off_cpu = {};
    return true;
  }
  // An item that comes before all others need not go through the heap.
  void put(std::size_t lane, std::uint64_t time) {
    if (reading_ && heap_.is_before_top(lane, time)) [[likely]] {
      first_ = lane;
    } else {
      heap_.push(lane, time);
    }
  }
  bool fetch(std::size_t i) {
    Lane& lane = lanes_[i];
    if (!lane.reader.next_in_buffer(lane.ahead)) [[unlikely]]
      return fetch_carefully(i);
    put(i, std::max(lane.ahead.time(), lane.last));
    return true;
  }
  bool fetch_carefully(std::size_t i) {
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
    put(i, std::max(lane.ahead.time(), lane.last));
    return true;
  }
  bool fetch_item(std::size_t i) {
    const auto fetch_from = [&](auto& reader) {
      auto next = reader.next();
      counters_.add(reader.take_losses());
      if (!next) {
        status_ = tl::unexpected(std::move(next).error());
        return false;
      }
      if (!*next) {
        if (reader.damaged()) ++counters_.damaged_events;
        return true;
      }
      files_[i].ahead = **next;
      put(lanes_.size() + i, (*next)->time);
      return true;
    };
    return std::visit(fetch_from, files_[i].reader);
  }

  std::shared_ptr<const Opened> opened_;
  const DataDirectory& directory_;
  mutable UftraceValues values_;  // learns functions as they come
  std::vector<Lane> lanes_;
  std::vector<CpuFile> files_;
  MergeHeap heap_;                    // numbers: lanes, then files; each has a next item
  std::optional<std::size_t> first_;  // the lane whose next item comes before all in the heap
  bool reading_ = false;
  std::optional<std::uint64_t> range_first_;  // time of the functions' first record
  std::uint64_t counts_[std::size(kNames)] = {};
};

}  // namespace

Result<std::unique_ptr<Source>> open_uftrace(const std::string& path) {
  auto directory = DataDirectory::open(path);
  if (!directory) return tl::unexpected(std::move(directory).error());
  auto opened = std::make_shared<Opened>(std::move(*directory));
  if (auto done = opened->open(); !done) return tl::unexpected(std::move(done).error());
  return UftraceSource::reading_of(std::move(opened));
}

}  // namespace trapline
