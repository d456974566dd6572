// Writes a uftrace data directory of the whole timeline: a vCPU's thread alternates between
// guest_mode and vmexit:REASON (arguments: rip, detail), QEMU's handlers are called inside the
// exits, each guest task is a task, and the vCPUs' sched_switch events are perf's context switches.
// docs/formats/uftrace.md.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <unordered_map>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"
#include "backend_ftrace/base/text_file.h"
#include "merge/export/exporter.h"
#include "merge/export/nested_exit.h"
#include "merge/pass/naming.h"
#include "plugin/format/directory_writer.h"
#include "plugin/format/record.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFeatureArguments = 1U << 3, kFeaturePerf = 1U << 8;
constexpr std::uint64_t kFirstAddress = 0x100000, kAddressStep = 16;
constexpr std::string_view kBinary = "/trapline/spans";

// Appends to a file through a buffer and keeps the first error.
class Appender {
 public:
  Appender(UniqueFd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
  std::string& bytes() { return bytes_; }
  [[nodiscard]] Result<void> flush(std::size_t above) {
    if (bytes_.size() <= above) return {};
    auto written = write_all(fd_.get(), std::string_view(bytes_), path_);
    bytes_.clear();
    return written;
  }

 private:
  UniqueFd fd_;
  std::string path_, bytes_;
};

class UftraceExporter final : public Exporter {
 public:
  UftraceExporter(const ExportContext& context, DirectoryWriter directory)
      : context_(context), directory_(std::move(directory)) {
    (void)perf(0);  // uftrace needs one file of perf's events if info promises them
  }
  ~UftraceExporter() override { directory_.discard(); }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kChanges | SpanClass::kExits | SpanClass::kSpans | SpanClass::kFunctions;
  }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    write_open_exit();
    reason_ = address("vmexit:" + reason_text(context_.timeline.source(exit.source), exit.reason));
    const std::string detail = detail_text(exit.detail);
    arguments_.clear();
    append(arguments_, exit.rip);
    append(arguments_, static_cast<std::uint16_t>(detail.size()));
    arguments_ += detail;
    arguments_.resize((arguments_.size() + 7) / 8 * 8);
  }
  void begin(const Span& span, const Pipeline& pipeline) override {
    write_open_exit();
    enter(task(span), span.begin, address(pipeline.names()[span.name]), {});
  }
  void span(const Span& span, const Pipeline& pipeline) override {
    if (open_.is_open() && (span.kind == SpanKind::kPart || span.kind == SpanKind::kHandler))
      open_.add(span);
    if (span.kind == SpanKind::kHandler) {
      handler_names_[span.id] = address(fmt::format(
          "qemu:{}", pipeline.names()[span.region != kNoName ? span.region : span.name]));
    } else if (span.kind == SpanKind::kExit) {
      write_open_exit();
      open_.start(span);
    } else if (span.kind == SpanKind::kGuest) {
      write_open_exit();
      enter(task(span), span.begin, address("guest_mode"), {});
      leave(task(span), span.end);
    } else if (span.kind == SpanKind::kFunction) {
      write_open_exit();
      leave(task(span), span.end);
    }
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    if (event.machine != MachineId::kHost) return;
    for (const ThreadChange& change : pipeline.changes()) {
      const bool leaves = change.leaves();
      if (leaves || change.runs())
        add_switch(event, change.thread, leaves, change.now == RunState::kPreempted);
    }
  }

  [[nodiscard]] Result<void> finish(const Naming&) override {
    write_open_exit();
    std::uint64_t elapsed = 0;
    for (auto& [key, task] : tasks_) {
      while (!task.stack.empty()) leave(task, task.last);
      keep(task.file.flush(0));
      elapsed = std::max(elapsed, task.last.ns() - task.first.ns());
    }
    for (auto& [cpu, file] : perf_) keep(file.flush(0));
    if (!status_) return status_;
    std::string symbols =
        fmt::format("# symbols: {}\n# path name: {}\n", names_.size() + 1, kBinary);
    for (std::size_t i = 0; i < names_.size(); ++i)
      symbols += fmt::format("{:016x} T {}\n", i * kAddressStep, names_[i]);
    const std::uint64_t size = names_.size() * kAddressStep;
    symbols += fmt::format("{:016x} ? __sym_end\n", size);
    SymbolFiles files;
    files.files.push_back({"spans.sym", std::move(symbols)});
    MapLine line;
    line.start = kFirstAddress;
    line.end = kFirstAddress + (size / 4096 + 1) * 4096;
    line.path = kBinary;
    files.map.push_back(std::move(line));
    if (auto done = directory_.write_symbols(files); !done) return done;
    if (auto done = directory_.finish(elapsed); !done) return done;
    return directory_.commit();
  }
  [[nodiscard]] bool failed() const override { return !status_; }

 private:
  static constexpr std::size_t kBuffer = std::size_t{64} << 10;
  static constexpr std::uint32_t kFirstGuestTask = 1 << 22;  // above all threads of the host
  struct Task {
    Appender file;
    Timestamp first, last;
    std::vector<std::uint64_t> stack;
  };
  using TaskKey = std::tuple<TrackKind, MachineId, ThreadId, std::uint64_t>;

  void keep(Result<void> done) {
    if (status_ && !done) status_ = std::move(done);
  }
  [[nodiscard]] Appender open_file(const std::string& name) {
    auto fd = directory_.open_file(name);
    if (!fd) keep(tl::unexpected(fd.error()));
    return {fd ? std::move(*fd) : UniqueFd(), directory_.path() + "/" + name};
  }
  Task& task(const Span& span) {
    // A guest's task that moves between vCPUs stays one task.
    const ThreadId of = span.track.task == 0 ? span.track.thread : ThreadId{};
    const TaskKey key{span.track.kind, span.track.machine, of, span.track.task};
    auto found = tasks_.find(key);
    if (found != tasks_.end()) return found->second;
    const std::string thread = tid_text(span.track.thread);
    const bool is_vcpu = span.track.kind == TrackKind::kVcpu;
    const bool has_id = is_vcpu && life_of(span.track.thread) == 0;
    const std::uint32_t tid = has_id ? static_cast<std::uint32_t>(tid_of(span.track.thread))
                                     : kFirstGuestTask + guest_tasks_++;
    const std::string name = is_vcpu ? (span.vcpu == kNoVcpu ? fmt::format("vCPU of {}", thread)
                                                             : fmt::format("vCPU {}", span.vcpu))
                             : span.track.task == 0 ? fmt::format("guest {}", span.vcpu)
                                                    : fmt::format("guest task {}", span.track.task);
    keep(directory_.add_task(tid, name, span.begin.ns()));
    return tasks_
        .emplace(key, Task{open_file(fmt::format("{}.dat", tid)), span.begin, span.begin, {}})
        .first->second;
  }
  Appender& perf(std::uint32_t cpu) {
    const auto found = perf_.find(cpu);
    if (found != perf_.end()) return found->second;
    return perf_.emplace(cpu, open_file(fmt::format("perf-cpu{}.dat", cpu))).first->second;
  }
  std::uint64_t address(std::string_view name) {
    const auto [place, is_new] = addresses_.try_emplace(std::string(name), 0);
    if (is_new) {
      place->second = kFirstAddress + names_.size() * kAddressStep;
      names_.push_back(flat_name(printable(name)));
    }
    return place->second;
  }
  // Writes no time before the task's last one: uftrace would show it as a very long call.
  void write(Task& task, RecordType type, Timestamp at, std::uint64_t address,
             std::string_view arguments) {
    task.last = std::max(task.last, at);
    std::string& bytes = task.file.bytes();
    const Record record(type, task.last.ns(), task.stack.size(), address);
    const auto start = bytes.size();
    bytes.resize(start + sizeof record);
    std::memcpy(&bytes[start], &record, sizeof record);
    // Sets the bit `more` of the record: arguments follow.
    if (!arguments.empty()) bytes[start + 8] = static_cast<char>(bytes[start + 8] | 4);
    bytes += arguments;
    keep(task.file.flush(kBuffer));
  }
  void enter(Task& task, Timestamp at, std::uint64_t address, std::string_view arguments) {
    write(task, RecordType::kEntry, at, address, arguments);
    task.stack.push_back(address);
  }
  void leave(Task& task, Timestamp at) {
    if (task.stack.empty()) return;
    const std::uint64_t address = task.stack.back();
    task.stack.pop_back();
    write(task, RecordType::kExit, at, address, {});
  }
  void write_open_exit() {
    if (!open_.is_open()) return;
    Task& on = task(open_.exit());
    open_.walk(
        [&](const Span& span) {
          if (span.kind == SpanKind::kPart) return;
          const bool is_exit = span.kind == SpanKind::kExit;
          enter(on, span.begin, is_exit ? reason_ : handler_names_[span.id],
                is_exit ? std::string_view(arguments_) : std::string_view());
        },
        [&](const Span& span) {
          if (span.kind != SpanKind::kPart) leave(on, span.end);
        });
    open_.close();
    handler_names_.clear();
  }
  // Writes PERF_RECORD_SWITCH for a vCPU's thread.
  void add_switch(const Event& event, ThreadId thread, bool out, bool preempted) {
    if (!tasks_.contains({TrackKind::kVcpu, MachineId::kHost, thread, 0})) return;
    Appender& file = perf(event.cpu);
    std::string& bytes = file.bytes();
    append<std::uint32_t>(bytes, 14);
    append<std::uint16_t>(
        bytes, static_cast<std::uint16_t>((out ? 0x2000 : 0) | (preempted ? 0x4000 : 0)));
    append<std::uint16_t>(bytes, 24);
    append<std::uint32_t>(bytes, static_cast<std::uint32_t>(tid_of(thread)));
    append<std::uint32_t>(bytes, static_cast<std::uint32_t>(tid_of(thread)));
    append<std::uint64_t>(bytes, event.at.ns());
    keep(file.flush(kBuffer));
  }
  const ExportContext context_;
  DirectoryWriter directory_;
  std::map<TaskKey, Task> tasks_;
  std::map<std::uint32_t, Appender> perf_;
  std::unordered_map<std::string, std::uint64_t> addresses_;
  std::vector<std::string> names_;
  std::map<SpanId, std::uint64_t> handler_names_;  // of the open exit
  NestedExit open_;
  std::uint64_t reason_ = 0;
  std::string arguments_;
  std::uint32_t guest_tasks_ = 0;
  Result<void> status_;
};

}  // namespace

Result<std::unique_ptr<Exporter>> make_uftrace(const ExportContext& context,
                                               const ExportOptions& options) {
  const Source& source = context.timeline.source(0);
  if (source.info().cycles) {
    return fail(ErrorKind::kUsage,
                "{}: its times are cycles; give the counter's frequency with --tsc-khz",
                source.info().path);
  }
  if (options.output == "-")
    return fail(ErrorKind::kUsage, "-o -: uftrace's format is a folder; name one");
  std::error_code error;
  if (!options.force && fs::exists(fs::symlink_status(options.output, error))) {
    return fail(ErrorKind::kUsage, "{} exists; choose another name with -o, or add --force",
                options.output);
  }
  UftraceInfo info;
  info.features = kOurFeatures | kFeatureArguments | kFeaturePerf;
  info.exename = kBinary;
  info.cmdline = "trapline export";
  info.version = "trapline";
  info.argspecs = {"^vmexit:@arg1/x64,arg2/s"};
  info.pattern_type = "regex";
  auto directory =
      DirectoryWriter::create(options.output, std::move(info), DirectoryWriter::Place::kBeside);
  if (!directory) return tl::unexpected(std::move(directory).error());
  return std::make_unique<UftraceExporter>(context, std::move(*directory));
}

}  // namespace trapline
