// Writes a uftrace data directory of the whole timeline: a vCPU's thread alternates between
// guest_mode and vmexit:REASON (arguments: rip, detail), QEMU's handlers are called inside the
// exits, each guest task is a task, and the vCPUs' sched_switch events are perf's context switches.
// docs/formats/uftrace.md.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <tuple>
#include <unordered_map>

#include "backend_ftrace/base/bytes.h"
#include "backend_ftrace/base/text.h"
#include "merge/export/exit_walk.h"
#include "merge/export/exporter.h"
#include "merge/pass/naming.h"
#include "plugin/format/directory_writer.h"
#include "plugin/format/record.h"

namespace trapline {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kFeatureArguments = 1U << 3, kFeaturePerf = 1U << 8;
constexpr std::uint64_t kFirstAddress = 0x100000, kAddressStep = 16;
constexpr std::string_view kBinary = "/trapline/spans";

class UftraceExporter final : public Exporter {
 public:
  UftraceExporter(const ExportContext& context, DirectoryWriter directory)
      : context_(context), directory_(std::move(directory)) {
    (void)perf(0);  // uftrace needs one file of perf's events if info promises them
  }
  ~UftraceExporter() override { directory_.discard(); }

  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kChanges | SpanClass::kExits | SpanClass::kIntervals | SpanClass::kGuestRuns |
           SpanClass::kFunctions;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const std::string reason = context_.timeline.source(exit.source).reason_name(exit.reason),
                      detail = detail_text(exit.detail);
    std::string arguments;
    append(arguments, exit.rip);
    append(arguments, static_cast<std::uint16_t>(detail.size()));
    arguments += detail;
    arguments.resize((arguments.size() + 7) / 8 * 8);
    Task& on = vcpu(exit.thread, exit.vcpu, exit.start);
    enter(on, exit.start, address("vmexit:" + reason), arguments);
    const auto leave_out = [](const PartInterval&) {};
    // The end of the handler that is written last. A read lasts from the write before it, which may
    // last as long, so the write is left after the next handler's begin.
    std::optional<Timestamp> end;
    walk(
        exit, handlers_of(exit), leave_out,
        [&](const HandlerRun& handler) {
          const std::string_view name = pipeline.names()[handler.event->name()];
          if (end && *end <= handler.begin) leave(on, *std::exchange(end, std::nullopt));
          enter(on, handler.begin, address(fmt::format("qemu:{}", name)), {});
          if (end) leave(on, handler.end);
          if (!end) end = handler.end;
        },
        leave_out);
    if (end) leave(on, *end);
    leave(on, exit.end);
  }
  void guest_run(const GuestRun& run, const Pipeline&) override {
    Task& on = vcpu(run.thread, run.vcpu, run.begin);
    enter(on, run.begin, address("guest_mode"), {});
    leave(on, run.end);
  }
  void begin(const FunctionCall& call, const Pipeline& pipeline) override {
    const NameId function = pipeline.stacks().innermost(call.stack);
    enter(task(call), call.begin, address(pipeline.names()[function]), {});
  }
  void end(const FunctionCall& call, const Pipeline&) override { leave(task(call), call.end); }
  void event(const Event& event, const Pipeline& pipeline) override {
    if (event.machine != MachineId::kHost) return;
    for (const ThreadChange& change : pipeline.changes()) {
      const bool leaves = change.leaves();
      if (leaves || change.runs())
        add_switch(event, change.thread, leaves, change.now == RunState::kPreempted);
    }
  }

  [[nodiscard]] Result<void> finish(const Naming&) override {
    std::uint64_t elapsed = 0;
    for (auto& [key, task] : tasks_) {
      while (!task.stack.empty()) leave(task, task.last);
      keep(task.file.commit());
      elapsed = std::max(elapsed, task.last.ns() - task.first.ns());
    }
    for (auto& [cpu, file] : perf_) keep(file.commit());
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
  static constexpr std::uint32_t kFirstGuestTask = 1 << 22;  // above all threads of the host
  struct Task {
    OutputFile file;
    Timestamp first, last;
    std::vector<std::uint64_t> stack;
  };
  // kVcpu: by thread; kGuest: by machine, and by the guest's task or, if that is 0, by thread.
  enum class TaskKind : std::uint8_t { kVcpu, kGuest };
  using TaskKey = std::tuple<TaskKind, MachineId, ThreadId, std::uint64_t>;

  void keep(Result<void> done) {
    if (status_ && !done) status_ = std::move(done);
  }
  void append_to(OutputFile& file, std::string_view bytes) {
    file.write(bytes);
    if (file.failed()) keep(file.commit());
  }
  [[nodiscard]] OutputFile open_file(const std::string& name) {
    auto fd = directory_.open_file(name);
    if (!fd) keep(tl::unexpected(fd.error()));
    return {directory_.path() + "/" + name, fd ? std::move(*fd) : UniqueFd()};
  }
  Task& vcpu(ThreadId thread, std::int32_t vcpu, Timestamp begin) {
    const TaskKey key{TaskKind::kVcpu, MachineId::kHost, thread, 0};
    if (const auto found = tasks_.find(key); found != tasks_.end()) return found->second;
    const bool has_id = life_of(thread) == 0;
    return add_task(key, has_id ? static_cast<std::uint32_t>(tid_of(thread)) : guest_tid(),
                    vcpu == kNoVcpu ? fmt::format("vCPU of {}", tid_text(thread))
                                    : fmt::format("vCPU {}", vcpu),
                    begin);
  }
  Task& task(const FunctionCall& call) {
    // A guest's task that moves between vCPUs stays one task.
    const ThreadId of = call.task == 0 ? call.thread : ThreadId{};
    const TaskKey key{TaskKind::kGuest, call.machine, of, call.task};
    if (const auto found = tasks_.find(key); found != tasks_.end()) return found->second;
    return add_task(
        key, guest_tid(),
        call.task == 0 ? fmt::format("guest {}", kNoVcpu) : fmt::format("guest task {}", call.task),
        call.begin);
  }
  [[nodiscard]] std::uint32_t guest_tid() { return kFirstGuestTask + guest_tasks_++; }
  Task& add_task(const TaskKey& key, std::uint32_t tid, const std::string& name, Timestamp begin) {
    keep(directory_.add_task(tid, name, begin.ns()));
    return tasks_.emplace(key, Task{open_file(fmt::format("{}.dat", tid)), begin, begin, {}})
        .first->second;
  }
  OutputFile& perf(std::uint32_t cpu) {
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
    const Record record(type, task.last.ns(), task.stack.size(), address);
    std::array<char, sizeof record> bytes;
    std::memcpy(bytes.data(), &record, sizeof record);
    // Sets the bit `more` of the record: arguments follow.
    if (!arguments.empty()) bytes[8] = static_cast<char>(bytes[8] | 4);
    append_to(task.file, {bytes.data(), bytes.size()});
    append_to(task.file, arguments);
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
  // Writes PERF_RECORD_SWITCH for a vCPU's thread.
  void add_switch(const Event& event, ThreadId thread, bool out, bool preempted) {
    if (!tasks_.contains({TaskKind::kVcpu, MachineId::kHost, thread, 0})) return;
    std::string bytes;
    append<std::uint32_t>(bytes, 14);
    append<std::uint16_t>(
        bytes, static_cast<std::uint16_t>((out ? 0x2000 : 0) | (preempted ? 0x4000 : 0)));
    append<std::uint16_t>(bytes, 24);
    append<std::uint32_t>(bytes, static_cast<std::uint32_t>(tid_of(thread)));
    append<std::uint32_t>(bytes, static_cast<std::uint32_t>(tid_of(thread)));
    append<std::uint64_t>(bytes, event.at.ns());
    append_to(perf(event.cpu), bytes);
  }
  const ExportContext context_;
  DirectoryWriter directory_;
  std::map<TaskKey, Task> tasks_;
  std::map<std::uint32_t, OutputFile> perf_;
  std::unordered_map<std::string, std::uint64_t> addresses_;
  std::vector<std::string> names_;
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
