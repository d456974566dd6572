// Writes one row for each exit, request, interrupt, guest function call, …, as JSON lines or CSV,
// for engines that hold the data of a fleet. row_kinds() has the kinds of rows;
// docs/formats/rows.md describes their columns.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/analyze/vhost_tracker.h"
#include "merge/export/exporter.h"
#include "merge/export/row_writer.h"
#include "merge/export/texts.h"
#include "merge/pass/first_look.h"
#include "merge/pass/naming.h"
#include "merge/report/host_roles.h"
#include "merge/report/options.h"
#include "merge/report/run.h"
#include "merge/report/table_kinds.h"

namespace trapline {
namespace {

// Increased when a column changes its meaning.
constexpr int kRowsVersion = 3;

// The first columns of every row; of these, the labels come first.
constexpr std::string_view kFirstColumns[] = {"rows_version", "host", "session",  "vm",
                                              "vcpu",         "tid",  "start_ns", "total_ns"};
constexpr std::size_t kLabels = 3;

struct RowSetup;

struct RowKind {
  std::string_view name;  // the value of --rows
  SpanClass selects;
  std::unique_ptr<Exporter> (*make)(RowSetup&&);
  std::vector<std::string_view> columns;  // after kFirstColumns
};
// The arguments of an exporter's constructor.
struct RowSetup {
  const ExportContext& context;
  const ExportOptions& options;
  const RowKind& kind;
  RowForm form;
  OutputFile output;
};

std::vector<std::string_view> columns_of(const RowKind& kind) {
  std::vector<std::string_view> columns(std::begin(kFirstColumns), std::end(kFirstColumns));
  columns.insert(columns.end(), kind.columns.begin(), kind.columns.end());
  return columns;
}

// Base of the exporters: writes the cells that rows of several kinds share.
class RowExporter : public Exporter {
 public:
  explicit RowExporter(RowSetup&& setup)
      : context_(setup.context),
        kind_(setup.kind),
        writer_(setup.form, std::move(setup.output), columns_of(setup.kind)),
        culprits_(context_.timeline,
                  [this](const std::string& text) { return writer_.quote(text); }) {
    labels_ = writer_.cell(0, std::to_string(kRowsVersion)) +
              writer_.cell(1, writer_.quote(setup.options.host)) +
              writer_.cell(2, writer_.quote(setup.options.session));
    boot_ = context_.boot_id.empty() ? std::string(writer_.nothing_text())
                                     : writer_.quote(context_.boot_id);
  }
  [[nodiscard]] SpanClass selects() const override { return kind_.selects; }
  [[nodiscard]] Result<void> finish(const Naming&) override { return writer_.finish(); }
  [[nodiscard]] bool failed() const override { return writer_.failed(); }
  [[nodiscard]] bool is_empty(const Naming&) const override { return writer_.rows() == 0; }

 protected:
  // Writes null or an empty cell for an empty text.
  void quoted(std::string_view text) {
    text.empty() ? writer_.nothing() : writer_.text(writer_.quote(text));
  }
  // Writes the labels and the cells of VM, vCPU and thread.
  void place(ThreadId process, std::int32_t vcpu, ThreadId thread) {
    writer_.cells(labels_, kLabels);
    writer_.thread(process);
    vcpu == kNoVcpu ? writer_.nothing() : writer_.signed_number(vcpu);
    writer_.signed_number(tid_of(thread));
  }
  // Writes the cells of kFirstColumns.
  void begin_row(ThreadId process, std::int32_t vcpu, ThreadId thread, Timestamp begin,
                 Timestamp end) {
    place(process, vcpu, thread);
    writer_.number(begin.ns());
    writer_.number(elapsed(begin, end));
  }
  // Writes wall_ns and boot.
  void times(Timestamp begin) {
    writer_.number(context_.wall_ns(begin));
    writer_.text(boot_);
  }
  void end_row(Timestamp begin) {
    times(begin);
    writer_.end();
  }
  // Ends a row with slot and slot_offset: QEMU's memory, and the place of the address in it.
  void end_row(Timestamp begin, const Processes::Slot* slot, std::uint64_t address) {
    times(begin);
    quoted(slot == nullptr ? std::string_view() : slot->name);
    const bool is_known = slot != nullptr && slot->offset;
    writer_.number(is_known ? std::optional(*slot->offset + (address - slot->first))
                            : std::nullopt);
    writer_.end();
  }

  const ExportContext context_;
  const RowKind& kind_;
  RowWriter writer_;
  CulpritTexts culprits_;
  std::string labels_, boot_;  // the labels' cells; the boot's id, quoted, or null
};

class GuestSpanRowExporter final : public RowExporter {
 public:
  explicit GuestSpanRowExporter(RowSetup&& setup)
      : RowExporter(std::move(setup)), span_(writer_.quote(setup.options.guest_span)) {}
  void guest_interval(const GuestInterval& interval, const Pipeline& pipeline) override {
    const auto vcpu = pipeline.vcpu(interval.thread);
    begin_row(pipeline.processes().of(interval.thread, {}), vcpu ? vcpu->vcpu : kNoVcpu,
              interval.thread, interval.begin, interval.end);
    writer_.text(span_);
    quoted(interval.what);
    std::uint64_t guest = 0, known = 0;
    Parts parts{};
    for (const VcpuPiece& piece : interval.pieces) {
      (piece.part ? parts[static_cast<std::size_t>(*piece.part)] : guest) += piece.length();
      known += piece.length();
    }
    writer_.number(guest);
    for (const std::uint64_t part : parts) writer_.number(part);
    writer_.number(interval.length() - std::min(known, interval.length()));
    largest_of(interval, Part::kPreempted, pipeline);
    largest_of(interval, Part::kBlocked, pipeline);
    end_row(interval.begin);
  }

 private:
  void largest_of(const GuestInterval& interval, Part part, const Pipeline& pipeline) {
    std::map<Culprit, std::uint64_t> sums;
    for (const VcpuPiece& piece : interval.pieces)
      if (piece.part == part) sums[piece.culprit] += piece.length();
    const auto most = std::max_element(
        sums.begin(), sums.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == sums.end()) {
      writer_.nothing();
    } else {
      writer_.text(culprits_.of(most->first, pipeline));
    }
  }
  std::string span_;  // quoted: the requested intervals
};

class VhostRowExporter final : public RowExporter {
 public:
  using RowExporter::RowExporter;
  void turn(const VhostTurn& turn, const Pipeline&) override {
    begin_row(turn.process, kNoVcpu, turn.worker, turn.woken, turn.end);
    writer_.text(writer_.quote(turn.name));
    writer_.number(turn.ran_at.ns());
    writer_.number(turn.ran_ns);
    writer_.number(turn.preempted_ns);
    writer_.time(turn.notify);
    writer_.time(turn.raised);
    end_row(turn.woken);
  }
};

class FaultRowExporter final : public RowExporter {
 public:
  using RowExporter::RowExporter;
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    if (!is_page_fault(exit)) return;
    constexpr std::string_view kAccesses[] = {"", "read", "write", "execute"};
    const PageFault& fault = pipeline.faults()->last();
    const PageFault::Why& why = fault.why;
    begin_row(pipeline.processes().of(exit.thread, {}), exit.vcpu, exit.thread, exit.start,
              exit.end);
    writer_.number(fault.address);
    quoted(kAccesses[static_cast<std::size_t>(fault.access)]);
    quoted(key_of(why.cause));
    if (why.by == ThreadId{})
      writer_.nothing();
    else
      writer_.text(culprits_.of({.kind = CulpritKind::kThread, .thread = why.by}, pipeline));
    writer_.thread(why.by);
    quoted(how_text(why));
    fault.first ? writer_.number(*fault.first ? 1 : 0) : writer_.nothing();
    fault.page_bytes != 0 ? writer_.number(fault.page_bytes) : writer_.nothing();
    const States known = pipeline.exits().model().known_states();
    const auto part = [&](Part one) {
      writer_.number(known_ns(known, static_cast<std::size_t>(one), exit.parts, false));
    };
    part(Part::kKernel);
    part(Part::kUser);
    part(Part::kPreempted);
    const std::uint64_t waits = exit.parts[static_cast<std::size_t>(Part::kBlocked)] +
                                exit.parts[static_cast<std::size_t>(Part::kHalted)];
    for (const std::uint64_t ns :
         {fault.server_ns, fault.disk_ns, waits - std::min(waits, fault.server_ns + fault.disk_ns)})
      writer_.number(known_ns(known, State::kBlocked, ns));
    writer_.number(fault.reclaim_ns);
    writer_.hex(exit.rip);
    const ThreadId vm = pipeline.processes().of(exit.thread, {});
    end_row(exit.start, fault.address ? pipeline.processes().slot_at(vm, *fault.address) : nullptr,
            fault.address.value_or(0));
  }
};

// Merges the pages of first faults to ranges of ascending adjacent pages, each page to one range.
// The last kMostOpen ranges can grow, as a guest often goes through several parts of its memory at
// once. Parts of a large page that ranges already have are left out, so the rest may extend several
// ranges; the fault counts in the range of its address.
class WorkingSetRowExporter final : public RowExporter {
 public:
  using RowExporter::RowExporter;
  [[nodiscard]] bool is_empty(const Naming&) const override { return open_.empty(); }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    const PageFault& fault = pipeline.faults()->last();
    if (!is_page_fault(exit) || !fault.address) return;
    const ThreadId vm = pipeline.processes().of(exit.thread, {});
    if (vm == ThreadId{}) unknown_.insert(exit.thread);
    const std::uint64_t page = *fault.address / kPage * kPage;
    if (fault.first != true || has(vm, page)) return;
    const std::uint64_t length = std::max<std::uint64_t>(fault.page_bytes, kPage);
    const std::uint64_t begin = page / length * length;
    for (std::uint64_t at = begin; at < begin + length; at += kPage) {
      if (has(vm, at)) continue;
      Range& range = range_before(vm, at, exit, pipeline.processes().slot_at(vm, at));
      range.length += kPage;
      if (at != page) continue;
      ++range.faults;
      range.ns += exit.total();
    }
  }
  [[nodiscard]] Result<void> finish(const Naming& names) override {
    if (unknown_.size() > 1)
      return fail(
          "the process of {} vCPU threads is not known, so neither is which of them share "
          "their memory; a session of trapline record has it, or choose one with --vcpu",
          unknown_.size());
    while (!open_.empty()) write_first();
    return RowExporter::finish(names);
  }

 private:
  static constexpr std::uint64_t kPage = 4096, kLargePage = 2u << 20;
  static constexpr std::size_t kMostOpen = 16;
  struct Range {
    ThreadId vm{};
    std::int32_t vcpu = kNoVcpu;
    ThreadId thread{};
    Timestamp start;
    const Processes::Slot* slot = nullptr;
    std::uint64_t address = 0, length = 0, faults = 0, ns = 0;
  };
  // Returns whether a range has the page.
  [[nodiscard]] bool has(ThreadId vm, std::uint64_t page) const {
    const auto pages = pages_.find({vm, page / kLargePage});
    return pages != pages_.end() && pages->second[page % kLargePage / kPage];
  }
  // Returns the range that the page extends; a new one if it extends none.
  Range& range_before(ThreadId vm, std::uint64_t page, const ExitSpan& exit,
                      const Processes::Slot* slot) {
    pages_[{vm, page / kLargePage}].set(page % kLargePage / kPage);
    const auto range = std::ranges::find_if(open_, [&](const Range& one) {
      return one.vm == vm && one.address + one.length == page && one.slot == slot;
    });
    if (range != open_.end()) return *range;
    if (open_.size() == kMostOpen) write_first();
    return open_.emplace_back(Range{vm, exit.vcpu, exit.thread, exit.start, slot, page});
  }
  void write_first() {
    const Range& range = open_.front();
    begin_row(range.vm, range.vcpu, range.thread, range.start,
              Timestamp(range.start.ns() + range.ns));
    writer_.number(range.address);
    writer_.number(range.length);
    writer_.number(range.faults);
    end_row(range.start, range.slot, range.address);
    open_.pop_front();
  }
  std::deque<Range> open_;  // in the order of their first faults
  // The pages that ranges have, by VM and number of the 2 MiB that they are in.
  std::map<std::pair<ThreadId, std::uint64_t>, std::bitset<kLargePage / kPage>> pages_;
  std::set<ThreadId> unknown_;  // vCPU threads whose process is not known
};

// Writes the rows of the table of `report --host-cpu`, a thread with its parts as one row.
class HostCpuRowExporter final : public RowExporter {
 public:
  explicit HostCpuRowExporter(RowSetup&& setup) : RowExporter(std::move(setup)) {
    ReportOptions report;
    report.tables[std::string(kHostCpuTable.option)] = "";
    report.rows = true;
    table_ = *kHostCpuTable.make(report, "");
  }
  [[nodiscard]] bool is_empty(const Naming& names) const override {
    const HostRuns& runs = *names.pipeline.host_runs();
    return std::ranges::all_of(host_threads(names, runs.threads(names.pipeline.end())),
                               &HostThread::lacks_runs);
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    table_->event(event, pipeline);
  }
  [[nodiscard]] Result<void> finish(const Naming& names) override {
    const ReportData data = data_of(names);
    for (const Table& table : table_->tables(data, names)) {
      for (std::size_t row = 0; row < table.rows; ++row) {
        writer_.cells(labels_, kLabels);
        for (const Table::Described& column : table.columns) cell(column.value(row));
        end_row(Timestamp(data.start_ns));
      }
    }
    return RowExporter::finish(names);
  }

 private:
  void cell(const CellValue& value) {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return writer_.number(*number);
    if (const auto* id = std::get_if<std::int64_t>(&value)) return writer_.signed_number(*id);
    const auto* text = std::get_if<std::string>(&value);
    quoted(text == nullptr ? std::string_view() : *text);
  }

  std::unique_ptr<TableSink> table_;
};

// The place of "reason" among the columns of exits, which the parts precede.
constexpr std::size_t kReasonAt = std::size(kFirstColumns) + kParts;
constexpr std::string_view kOrigins[] = {"line", "msi", "local"};

std::optional<std::uint64_t> number_unless_none(std::uint32_t number) {
  return number == kNoVector ? std::nullopt : std::optional<std::uint64_t>(number);
}

// Writes the rows of exits, and of requests, interrupts and guest functions.
class ExitRowExporter final : public RowExporter {
 public:
  explicit ExitRowExporter(RowSetup&& setup) : RowExporter(std::move(setup)) {
    for (std::size_t i = 0; i < nested_.size(); ++i)
      nested_[i] = writer_.quote(nested_text(static_cast<NestedLevel>(i)));
  }

  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    place(pipeline.processes().of(exit.thread, {}), exit.vcpu, exit.thread);
    writer_.number(exit.start.ns());
    const ExitModel& model = pipeline.exits().model();
    model.durations() ? writer_.number(exit.total()) : writer_.nothing();
    if (!known_) known_ = model.known_states();
    for (std::size_t i = 0; i < kParts; ++i)
      writer_.number(known_ns(*known_, i, exit.parts, exit.halt));
    what(exit);
    name(exit.device, pipeline);
    name(exit.vmm_event, pipeline);
    const StackId id = pipeline.stack_of(exit);
    name(pipeline.stacks().innermost(id), pipeline);
    stack(id, pipeline);
    if (model.from_userspace_exit || pipeline.hides_rip(exit.thread, exit.reason, exit.rip)) {
      writer_.nothing();
    } else {
      writer_.hex(exit.rip);
    }
    writer_.number(number_unless_none(exit.injected));
    const Culprit ran = largest(pipeline.waits()->shares(), Part::kPreempted).culprit;
    writer_.thread(ran.is_thread() ? ran.thread : ThreadId{});
    writer_.number(exit.cpu);
    woken_by(exit, pipeline);
    times(exit.start);
    writer_.text(nested_[static_cast<std::size_t>(exit.nested)]);
    writer_.number(exit.halt ? 1 : 0);
    writer_.end();
  }
  void request(const RequestSpan& request, const Pipeline& pipeline) override {
    const auto& notified = request.notified;
    write({.thread = request.process,
           .begin = request.start,
           .end = request.end,
           .name = pipeline.request_name(request.spec),
           .number = static_cast<std::uint32_t>(request.spec),
           .notified = notified ? std::optional(notified->begin) : std::nullopt,
           .block = request.block},
          pipeline);
  }
  void interrupt(const IrqSpan& irq, const Pipeline& pipeline) override {
    const bool has_pin = irq.origin == IrqSpan::Origin::kLine;
    write({.thread = irq.process,
           .begin = irq.raised,
           .end = irq.end(),
           .number = irq.vector,
           .complete = irq.ended.has_value(),
           .injected = irq.injected,
           .entered = irq.entered,
           .origin = kOrigins[static_cast<std::size_t>(irq.origin)],
           .pin = has_pin ? std::optional<std::uint64_t>(irq.pin) : std::nullopt},
          pipeline);
  }
  void call(const FunctionCall& call, const Pipeline& pipeline) override {
    const auto vcpu = pipeline.vcpu(call.thread);
    write({.thread = call.thread,
           .vcpu = vcpu ? vcpu->vcpu : kNoVcpu,
           .begin = call.begin,
           .end = call.end,
           .name = pipeline.stacks().innermost(call.stack),
           .number = call.depth,
           .complete = call.complete,
           .task = call.task,
           .stack = call.stack},
          pipeline);
  }

 private:
  // The row of a request, an interrupt or a call. Cells without a value stay empty.
  struct Row {
    ThreadId thread{};
    std::int32_t vcpu = kNoVcpu;
    Timestamp begin{}, end{};
    NameId name = kNoName;
    std::uint32_t number = 0;
    bool complete = true;
    std::optional<Timestamp> notified = {}, injected = {}, entered = {};
    std::string_view origin = {};
    std::optional<std::uint64_t> pin = {}, task = {};
    StackId stack = kNoStack;
    std::optional<BlockTimes> block = {};
  };
  void write(const Row& row, const Pipeline& pipeline) {
    begin_row(pipeline.processes().of(row.thread, {}), row.vcpu, row.thread, row.begin, row.end);
    name(row.name, pipeline);
    writer_.number(number_unless_none(row.number));
    writer_.number(row.complete ? 1 : 0);
    writer_.time(row.notified);
    writer_.time(row.injected);
    writer_.time(row.entered);
    quoted(row.origin);
    writer_.number(row.pin);
    writer_.number(row.task);
    times(row.begin);
    stack(row.stack, pipeline);
    writer_.time(row.block ? row.block->queued : std::nullopt);
    writer_.time(row.block ? std::optional(row.block->issued) : std::nullopt);
    writer_.time(row.block ? std::optional(row.block->completed) : std::nullopt);
    writer_.end();
  }
  // name(), stack() and woken_by() write one cell each. A text is quoted once and kept.
  void name(NameId id, const Pipeline& pipeline) {
    if (id == kNoName) return writer_.nothing();
    if (id >= names_.size()) names_.resize(id + 1);
    if (names_[id].empty()) names_[id] = writer_.quote(pipeline.names()[id]);
    writer_.text(names_[id]);
  }
  void stack(StackId id, const Pipeline& pipeline) {
    if (id == kNoStack) return writer_.nothing();
    if (id >= stacks_.size()) stacks_.resize(id + 1);
    if (!stacks_[id].empty()) return writer_.text(stacks_[id]);
    constexpr std::size_t kMostKept = 32u << 20;  // bytes
    std::string& place = kept_ < kMostKept ? stacks_[id] : stack_;
    place = writer_.quote(pipeline.stacks().text(id));
    kept_ += place.size();
    writer_.text(place);
  }
  void woken_by(const ExitSpan& exit, const Pipeline& pipeline) {
    if (exit.parts[static_cast<std::size_t>(Part::kBlocked)] == 0) [[likely]]
      return writer_.nothing();
    const LargestCulprit most = largest(pipeline.waits()->shares(), Part::kBlocked);
    if (most.ns == 0) return writer_.nothing();
    writer_.text(culprits_.of(most.culprit, pipeline));
  }
  // Writes two cells: reason and detail.
  void what(const ExitSpan& exit) {
    const std::string& cells = exits_.of(exit, [&] {
      const bool none = exit.detail.kind == DetailKind::kNone;
      const Source& source = context_.timeline.source(exit.source);
      return writer_.cell(kReasonAt, writer_.quote(source.reason_name(exit.reason))) +
             writer_.cell(kReasonAt + 1, none ? std::string(writer_.nothing_text())
                                              : writer_.quote(detail_text(exit.detail)));
    });
    writer_.cells(cells, 2);
  }

  std::optional<States> known_;  // the states whose times the events show, once an exit came
  std::vector<std::string> names_, stacks_;
  std::string stack_;                  // a stack for which there is no room
  std::size_t kept_ = 0;               // bytes of stacks_
  std::array<std::string, 4> nested_;  // for each NestedLevel
  ExitTexts<std::string> exits_;       // exits' cells of reason and detail
};

template <typename Of>
std::unique_ptr<Exporter> make(RowSetup&& setup) {
  return std::make_unique<Of>(std::move(setup));
}

// Returns the kinds of rows in the order in which help and messages list them.
std::span<const RowKind> row_kinds() {
  using enum SpanClass;
  static const std::vector<std::string_view> kSpanColumns = {
      "name",       "number", "complete", "notified_ns", "injected_ns",
      "entered_ns", "origin", "pin",      "task",        "wall_ns",
      "boot",       "stack",  "bio_ns",   "issued_ns",   "completed_ns"};
  static const RowKind kKinds[] = {
      {"exits",
       kExits | kWaits,
       make<ExitRowExporter>,
       {"kernel_ns", "user_ns", "preempted_ns", "blocked_ns",   "halted_ns",
        "reason",    "detail",  "device",       "handler",      "function",
        "stack",     "rip",     "injected",     "preempted_by", "cpu",
        "woken_by",  "wall_ns", "boot",         "nested",       "halt"}},
      {"faults",
       kExits | kFaults,
       make<FaultRowExporter>,
       {"address", "access",        "cause",      "by",      "by_tid",       "how",
        "first",   "page_bytes",    "kernel_ns",  "user_ns", "preempted_ns", "server_ns",
        "disk_ns", "other_wait_ns", "reclaim_ns", "rip",     "wall_ns",      "boot",
        "slot",    "slot_offset"}},
      {"working-set",
       kExits | kFaults,
       make<WorkingSetRowExporter>,
       {"address", "length", "faults", "wall_ns", "boot", "slot", "slot_offset"}},
      {"requests", kRequests, make<ExitRowExporter>, kSpanColumns},
      {"vhost",
       kRequests,
       make<VhostRowExporter>,
       {"name", "ran_at_ns", "ran_ns", "preempted_ns", "notified_ns", "raised_ns", "wall_ns",
        "boot"}},
      {"interrupts", kInterrupts, make<ExitRowExporter>, kSpanColumns},
      {"functions", kCalls, make<ExitRowExporter>, kSpanColumns},
      {"guest-spans",
       kGuestIntervals,
       make<GuestSpanRowExporter>,
       {"span", "name", "guest_ns", "kernel_ns", "user_ns", "preempted_ns", "blocked_ns",
        "halted_ns", "not_recorded_ns", "preempted_by", "blocked_on", "wall_ns", "boot"}},
      {"host-cpu",
       kHostRuns | kDeeds | kExits,
       make<HostCpuRowExporter>,
       {"vm_name", "role", "name", "ran_ns", "guest_ns", "kernel_ns", "user_ns", "polling_ns",
        "not_known_ns", "turns", "interrupts_ns", "counted_ns", "woken_by", "did", "wall_ns",
        "boot"}}};
  return kKinds;
}

}  // namespace

std::string rows_values() {
  std::vector<std::string_view> names;
  for (const RowKind& kind : row_kinds()) names.push_back(kind.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<std::unique_ptr<Exporter>> make_rows(const ExportContext& context,
                                            const ExportOptions& options) {
  const RowForm form = options.format == "csv"      ? RowForm::kCsv
                       : options.format == "arrays" ? RowForm::kArrays
                                                    : RowForm::kJsonl;
  if (options.rows == "summary")
    return fail(ErrorKind::kUsage,
                "--rows summary was removed; use --rows exits and group them where you load them");
  const auto kind = std::ranges::find(row_kinds(), options.rows, &RowKind::name);
  if (kind == row_kinds().end())
    return fail(ErrorKind::kUsage, "--rows: unknown '{}'; there are {}", options.rows,
                rows_values());
  auto output = OutputFile::create(options.output, options.force);
  if (!output) return tl::unexpected(std::move(output).error());
  return kind->make({context, options, *kind, form, std::move(*output)});
}

}  // namespace trapline
