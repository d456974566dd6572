// --host-cpu: the CPU time of the host that each VM used, thread by thread.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "merge/analyze/host_runs.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/ioctls.h"
#include "merge/model/kernel_events.h"
#include "merge/report/grouping.h"
#include "merge/report/host_roles.h"
#include "merge/report/options.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"

namespace trapline {
namespace {

// Counts how often each key came; keys beyond the room count as one.
template <typename Key>
struct Counts {
  static constexpr std::size_t kMost = 32;
  std::map<Key, std::uint64_t> of;
  std::uint64_t others = 0;
  void add(const Key& what) { ++(of.size() >= kMost && !of.contains(what) ? others : of[what]); }
};

// Returns "KVM_IRQ_LINE_STATUS"; the number of an ioctl that kIoctls does not name.
std::string ioctl_text(std::uint64_t command) {
  for (const Ioctl& ioctl : kIoctls)
    if (ioctl.command == command) return std::string(ioctl.name);
  return fmt::format("ioctl {:#x}", command);
}

// Things that happened and how often they did, the most frequent first.
struct Ranked {
  std::vector<std::string> names;
  std::vector<std::uint64_t> counts;
};

struct HostThreadRow {
  struct Line {
    std::uint64_t gsi = 0, raised = 0, lowered = 0;
    [[nodiscard]] std::uint64_t set() const { return raised + lowered; }
  };
  HostRole role = HostRole::kNotKnown;
  std::string name, part;  // part: a part of the thread's time, in a row below the thread's
  std::int32_t tid = 0;
  std::uint64_t ns = 0, whole = 0, turns = 0;
  std::optional<std::uint64_t> interrupts_ns;
  std::optional<std::uint64_t> counted_ns;  // by the kernel, of the whole recording
  Ranked woken_by, did;
  std::optional<Line> line;  // the interrupt line that it set most often
};
struct HostVmRow {
  std::string vm, vm_name;
  bool at_least = false;        // of some threads not all runs are known
  bool irq_time_apart = false;  // the kernel counts the time of interrupts apart
  bool has_others = true;       // which threads are its own besides its vCPUs' is known
  bool is_all = true;           // no other VM ran without a row
  std::uint64_t ns = 0;
  double cpus = 0;
  std::vector<HostThreadRow> threads;
};

// Returns what ended a sleep: "timer", "vCPU", "main loop", "own thread", a thread's name, "disk",
// "interrupt", "not known".
std::string waker_text(CulpritKind kind, ThreadId named, const Naming& names, const Vm& vm) {
  if (const ThreadId by = tid_of(named); by != ThreadId{}) {
    if (names.is_vcpu(by)) return names.vm(by) == vm.id() ? "vCPU" : names.text(by);
    if (by == vm.process) return std::string(text_of(HostRole::kMainLoop));
    return names.processes.of(by, ThreadId{}) == vm.process ? "own thread" : names.comm(named);
  }
  if (kind == CulpritKind::kTimer) return "timer";
  if (kind == CulpritKind::kDisk) return "disk";
  const bool interrupt = kind == CulpritKind::kInterrupt || kind == CulpritKind::kSoftirq;
  return interrupt ? "interrupt" : std::string(text_of(HostRole::kNotKnown));
}

Ranked ranked(const std::map<std::string, std::uint64_t>& counts) {
  std::vector<std::pair<std::uint64_t, std::string>> order;
  for (const auto& [text, count] : counts) order.emplace_back(count, text);
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::uint64_t, std::string>::first);
  Ranked ranked;
  for (auto& [count, text] : order) {
    ranked.names.push_back(std::move(text));
    ranked.counts.push_back(count);
  }
  return ranked;
}

// Returns what a thread did: "gsi 0 lowered" 1,510 times, "KVM_SIGNAL_MSI" 12 times.
Ranked deeds_of(const Counts<std::uint64_t>& ioctls, const HostRuns::Lines& lines,
                std::uint64_t messages) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [command, count] : ioctls.of) counts[ioctl_text(command)] = count;
  if (ioctls.others != 0) counts["other ioctls"] = ioctls.others;
  for (const auto& [line, count] : lines)
    counts[fmt::format("gsi {} {}", line / 2, line % 2 != 0 ? "raised" : "lowered")] = count;
  if (messages != 0) counts["MSI"] = messages;
  return ranked(counts);
}

std::optional<HostThreadRow::Line> line_of(const HostRuns::Lines& lines) {
  std::map<std::uint64_t, HostThreadRow::Line> by_gsi;
  for (const auto& [line, count] : lines) {
    HostThreadRow::Line& one = by_gsi[line / 2];
    one.gsi = line / 2;
    (line % 2 != 0 ? one.raised : one.lowered) = count;
  }
  const auto most =
      std::ranges::max_element(by_gsi, {}, [](const auto& one) { return one.second.set(); });
  return most == by_gsi.end() ? std::nullopt : std::optional(most->second);
}

// Adds rows with the parts of a vCPU thread's time. Time in no known state goes to the row of
// halts, in which the thread polls and falls asleep.
void add_parts(std::vector<HostThreadRow>& rows, const VcpuTotals& totals, const ReportData& data) {
  const std::uint64_t ran = rows.back().ns;
  const auto part = [&](Part one) { return totals.parts[static_cast<std::size_t>(one)]; };
  const std::uint64_t known = totals.guest_ns + part(Part::kKernel) + part(Part::kUser);
  if (!data.knows(State::kGuest) || known > ran) return;
  const bool user = data.knows(State::kUser);
  const std::tuple<std::string_view, std::string_view, std::uint64_t> parts[] = {
      {"guest", "guest", totals.guest_ns},
      {"kernel", user ? "exits, the host's kernel" : "exits, the host's kernel or QEMU",
       part(Part::kKernel)},
      {"user", "exits, QEMU", part(Part::kUser)},
      {"halts", "in halts, or not known", ran - known}};
  for (const auto& [key, title, ns] : parts) {
    if (ns == 0) continue;
    HostThreadRow row;
    row.role = HostRole::kVcpu;
    row.name = title;
    row.part = key;
    row.tid = rows.back().tid;
    row.ns = ns;
    row.whole = rows.back().whole;
    rows.push_back(std::move(row));
  }
}

std::string name_of(const HostThreadRow& row) {
  if (!row.part.empty()) return "  " + row.name;
  const std::string text = fmt::format("{} (tid {})", row.name, row.tid);
  return row.role == HostRole::kVcpu || row.role == HostRole::kOther
             ? text
             : fmt::format("{}: {}", text_of(row.role), text);
}

// Returns " Its main loop ran 250 times a second and set interrupt line 0 500 times a second,
// without raising it."; empty if the main loop took little.
std::string loop_sentence(const HostVmRow& row, const ReportData& data) {
  constexpr std::uint64_t kLeastShare = 3;  // a third
  const auto loop = std::ranges::find(row.threads, HostRole::kMainLoop, &HostThreadRow::role);
  const std::uint64_t interval = data.end_ns - data.start_ns;
  if (loop == row.threads.end() || loop->ns < row.ns / kLeastShare || data.cycles) return {};
  const auto rate = [interval](std::uint64_t count) {
    return static_cast<std::uint64_t>(static_cast<double>(count) * 1e9 /
                                      static_cast<double>(interval));
  };
  if (rate(loop->turns) == 0) return {};
  std::string text = fmt::format(" Its main loop ran {} times a second", rate(loop->turns));
  if (loop->line && rate(loop->line->set()) != 0)
    text +=
        fmt::format(" and set interrupt line {} {} times a second{}", loop->line->gsi,
                    rate(loop->line->set()), loop->line->raised == 0 ? ", without raising it" : "");
  return text + '.';
}

// Returns "took 0.118 CPUs of the host, 343 ms of CPU time in 2.90 s"
std::string took_text(const HostVmRow& row, const ReportData& data) {
  return fmt::format(
      "took {}{} CPUs of the host, {} of CPU time in {}", row.at_least ? "at least " : "",
      row.cpus < 0.001 ? "less than 0.001" : fmt::format("{:.3f}", row.cpus),
      duration_text(row.ns, data.cycles), duration_text(data.end_ns - data.start_ns, data.cycles));
}

// Returns ": main loop 79.0%, its vCPU 21.0%."
std::string roles_text(const HostVmRow& row) {
  std::map<HostRole, std::pair<std::uint64_t, std::size_t>> roles;
  for (const HostThreadRow& thread : row.threads) {
    if (!thread.part.empty()) continue;
    roles[thread.role].first += thread.ns;
    ++roles[thread.role].second;
  }
  const auto name = [](HostRole role, bool one) -> std::string_view {
    if (role == HostRole::kVcpu) return one ? "its vCPU" : "its vCPUs";
    if (role == HostRole::kOther) return one ? "another thread" : "other threads";
    return role == HostRole::kKernel ? "the kernel's threads for it" : text_of(role);
  };
  std::vector<std::pair<std::uint64_t, std::string_view>> order;
  for (const auto& [role, of] : roles) order.emplace_back(of.first, name(role, of.second == 1));
  std::ranges::sort(order, std::greater());
  std::string text;
  for (const auto& [ns, role] : order)
    text += fmt::format("{}{} {}", text.empty() ? ": " : ", ", role, percent_text(ns, row.ns));
  return text + '.';
}

// Returns "VM 229 took 0.118 CPUs of the host, 343 ms of CPU time in 2.90 s: main loop 79.0%, its
// vCPUs …".
std::string sentence_of(const HostVmRow& row, const ReportData& data) {
  const std::string vm = vm_text(row.vm, row.vm_name), took = took_text(row, data);
  return row.has_others
             ? fmt::format("VM {} {}{}{}", vm, took, roles_text(row), loop_sentence(row, data))
             : fmt::format(
                   "The vCPUs of VM {} {}. Which other threads are the VM's is not known "
                   "(record {}).",
                   vm, took, events::task_newtask.full_name);
}

std::string text_of(const Ranked& ranked) {
  constexpr std::size_t kMostShown = 2;
  std::string text;
  for (std::size_t i = 0; i < ranked.names.size() && i < kMostShown; ++i)
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", ranked.names[i], grouped(ranked.counts[i]));
  return text + (ranked.names.size() > kMostShown ? ", …" : "");
}

// Returns sentences on the threads for which the kernel counts another time, by more than 1 %: the
// largest difference first.
std::vector<Paragraph> counted_sentences(const HostVmRow& vm) {
  constexpr std::size_t kMostShown = 3;
  constexpr std::uint64_t kLeast = 100'000;  // ns
  std::vector<std::pair<std::uint64_t, std::string>> sentences;
  for (const HostThreadRow& row : vm.threads) {
    if (!row.counted_ns) continue;
    const std::uint64_t counted = *row.counted_ns, more = std::max(row.ns, counted);
    const std::uint64_t difference = more - std::min(row.ns, counted);
    if (difference < kLeast || difference <= more / 100) continue;
    sentences.emplace_back(
        difference,
        fmt::format("{}: {} by switches, {} by the kernel's count, which begins at the "
                    "wake-up{}.",
                    name_of(row), duration_text(row.ns, false), duration_text(counted, false),
                    vm.irq_time_apart ? " and has no time of interrupts" : ""));
  }
  std::ranges::sort(sentences, std::greater());
  const std::size_t more = keep_first(sentences, kMostShown);
  std::vector<Paragraph> paragraphs;
  for (auto& [difference, sentence] : sentences)
    paragraphs.push_back({.text = std::move(sentence), .figures = true});
  if (more != 0)
    paragraphs.push_back(
        {.text = fmt::format("{} more threads differ likewise (JSON has them).", more)});
  return paragraphs;
}

Table threads_of(const HostVmRow& vm, const std::string& sentence) {
  using Row = HostThreadRow;
  enum DropOrder : std::uint8_t { kTurns = 1, kWoken, kDid, kInterrupts };
  const auto has_any = [&vm](auto get) { return std::ranges::any_of(vm.threads, get); };
  const auto title = [](bool is_shown, std::string text) {
    return is_shown ? std::move(text) : std::string();
  };
  const bool interrupts = has_any([](const Row&row) { return row.interrupts_ns.has_value(); }),
             did = has_any([](const Row&row) { return !row.did.names.empty(); });
  TableOf<Row> table({.key = "threads"}, std::vector<Row>(vm.threads), name_of);
  table.titles = {"Host CPU of"};
  table.before = {{}, {.text = sentence, .figures = true}};
  for (Paragraph& counted : counted_sentences(vm)) table.before.push_back(std::move(counted));
  const auto of_thread = [](auto get) {
    return [get](const Row& row) {
      return row.part.empty() ? to_value(std::invoke(get, row)) : CellValue();
    };
  };
  table.add({"role"}, [](const Row& row) { return to_value(text_of(row.role)); });
  table.add({"name"}, &Row::name);
  table.add({"tid"}, &Row::tid);
  table.add({"part"}, [](const Row& row) { return text_or_null(row.part); });
  table.add({"ns", "time", Unit::kDuration}, &Row::ns);
  table.add({.title = "share", .unit = Unit::kShare, .whole = "the VM's CPU time"},
            [](const Row& row) {
              return Share{row.ns, row.whole};
            });
  table.add({.key = "turns", .title = "turns", .drop_order = kTurns}, of_thread(&Row::turns));
  table.add({.key = "interrupts_ns",
             .title = title(interrupts, "interrupts"),
             .unit = Unit::kDuration,
             .drop_order = kInterrupts},
            of_thread(&Row::interrupts_ns));
  table.add({"counted_ns"}, &Row::counted_ns);
  table.add({.key = "woken_by"}, of_thread([](const Row& row) { return row.woken_by.names; }));
  table.add({.key = "woken_by_counts"},
            of_thread([](const Row& row) { return row.woken_by.counts; }));
  table.add({.title = "woken by", .unit = Unit::kText, .drop_order = kWoken},
            of_thread([](const Row& row) { return text_of(row.woken_by); }));
  table.add({.key = "did"}, of_thread([](const Row& row) { return row.did.names; }));
  table.add({.key = "did_counts"}, of_thread([](const Row& row) { return row.did.counts; }));
  table.add({.title = title(did, "did"), .unit = Unit::kText, .drop_order = kDid},
            of_thread([](const Row& row) { return text_of(row.did); }));
  return table;
}

// Returns the CPU time of the VM's threads with this role.
std::uint64_t time_of(const HostVmRow& vm, HostRole role) {
  std::uint64_t ns = 0;
  for (const HostThreadRow& thread : vm.threads)
    if (thread.role == role && thread.part.empty()) ns += thread.ns;
  return ns;
}

// Returns what CPU time of the host the VMs took, with the parts of the VM that took most, which is
// the first of `vms`.
std::string sentence_of(const std::vector<HostVmRow>& vms, const ReportData& data) {
  const HostVmRow& most = vms.front();
  if (vms.size() == 1) return sentence_of(most, data);
  HostVmRow all;
  for (const HostVmRow& vm : vms) {
    all.ns += vm.ns;
    all.cpus += vm.cpus;
    all.at_least |= vm.at_least || !vm.is_all;
  }
  const std::string ns = duration_text(most.ns, data.cycles);
  const std::string took = fmt::format("{} VMs {}", vms.size(), took_text(all, data));
  if (all.at_least || vms[1].ns == most.ns) return took + '.';
  const std::string vm = vm_text(most.vm, most.vm_name);
  if (most.ns * vms.size() < all.ns + all.ns / 2)  // nearly even
    return fmt::format("{}; VM {} took most, {}.", took, vm, ns);
  return fmt::format("{}. VM {} took most, {}{}{}", took, vm, ns, roles_text(most),
                     loop_sentence(most, data));
}

// Returns why the table has no row.
std::string why_none(const ReportData& data, const Naming& names) {
  const auto ran = host_threads(names, names.pipeline.host_runs()->threads(names.pipeline.end()));
  if (ran.empty())
    return fmt::format("No thread that is known to be a VM's ran{}.",
                       data.is_window ? " in this part of the recording" : "");
  return fmt::format(
      "How long the VM's threads ran is not known: {}.",
      std::ranges::any_of(ran, [](const HostThread& thread) { return thread.runs.state.several; })
          ? "other threads had their ids as well"
          : "not all of their switches are recorded");
}

// Returns a line on what `record --host-cpu` would tell; empty if it would tell nothing.
std::string lacks_text(std::span<const HostVmRow> vms, const Naming& names) {
  bool wakers = false;
  for (const HostVmRow& vm : vms)
    for (const HostThreadRow& row : vm.threads)
      wakers |= std::ranges::count(row.woken_by.names, text_of(HostRole::kNotKnown)) != 0;
  wakers &= !names.pipeline.waits()->knows_timers();
  const bool interrupts = !names.pipeline.host_runs()->knows_interrupts();
  if (!wakers && !interrupts) return {};
  return fmt::format("Not known: {}{}{}. trapline record --host-cpu records it.",
                     interrupts ? "how long interrupts took" : "",
                     interrupts && wakers ? ", and " : "",
                     wakers ? "some of what woke threads" : "");
}

// Returns the table from which the page draws a bar for each VM: its time by role.
Table role_table(const std::vector<HostVmRow>& vms, const ReportData& data, const Naming& names) {
  using Row = HostVmRow;
  TableOf<Row> table({.key = "host_cpu_roles"}, std::vector<Row>(vms), &Row::vm);
  const bool is_known = !vms.empty() && std::ranges::all_of(vms, &Row::has_others);
  table.facts = {{"sentence", vms.empty() ? to_value(why_none(data, names))
                                          : text_or_null(is_known ? sentence_of(vms, data) : "")}};
  table.add({"vm"}, [](const Row& row) { return vm_text(row.vm, row.vm_name); });
  table.add({"ns"}, &Row::ns);
  table.add({"cpus"}, &Row::cpus);
  for (const HostRole role : kRolesOfVm)
    table.add({key_of(role)}, [role](const Row& row) { return time_of(row, role); });
  return table;
}

// Returns the page's table, which has the threads of all VMs in one table.
Table page_table(std::vector<HostVmRow> vms) {
  HostVmRow all;
  for (HostVmRow& vm : vms) {
    for (HostThreadRow& thread : vm.threads) {
      if (thread.part.empty())
        thread.name = fmt::format("VM {} {}", vm_text(vm.vm, vm.vm_name), thread.name);
      all.threads.push_back(std::move(thread));
    }
  }
  Table table = threads_of(all, {});
  table.key = "host_cpu";
  table.page_title = "VM and thread: host CPU";
  return table;
}

class HostCpuTable : public TableSink {
 public:
  explicit HostCpuTable(const ReportOptions& options)
      : requested_(options.asks(kHostCpuTable.option)), of_page_(options.page) {}

  [[nodiscard]] SpanClass selects() const override {
    if (!requested_) return SpanClass::kHostRuns;
    return SpanClass::kHostRuns | SpanClass::kDeeds;
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    if (!pipeline.is_of_hosts_kernel(event)) return;
    const auto& woke = pipeline.waits()->woke();
    if (woke) {
      Deeds* deeds = deeds_.get(woke->thread, kMostThreads);
      if (deeds != nullptr)
        deeds->woken_by.add(
            {woke->by->kind, woke->by->is_thread() ? woke->by->thread : ThreadId{}});
    }
    const auto* made = std::get_if<NewThread>(&event.payload);
    if (Deeds* earlier = made != nullptr ? deeds_.find(made->child) : nullptr) {
      if (earlier_.size() < kMostThreads)
        earlier_.emplace(std::pair(made->child, event.at), std::move(*earlier));
      *earlier = {};
    }
    const auto* ioctl = std::get_if<IoctlEnter>(&event.payload);
    const auto* irq = std::get_if<KvmIrq>(&event.payload);
    const bool calls = ioctl != nullptr && ioctl->command != kKvmRun;
    const bool messages = irq != nullptr && irq->step == IrqStep::kMsi;
    // Work of an interrupt that hit the thread is not the thread's.
    if ((!calls && !messages) || pipeline.host_runs()->is_in_interrupt(event.cpu)) return;
    Deeds* deeds = deeds_.get(event.thread, kMostThreads);
    if (deeds == nullptr) return;
    if (calls) deeds->ioctls.add(ioctl->command);
    if (messages) ++deeds->messages;
  }
  // Sets the sentence on the VMs' CPU time. No sentence if a VM's threads other than vCPUs are not
  // known.
  void fill(ReportData& data, const Naming& names) const override {
    if (requested_ || !data.model.sched_switch) return;
    const std::vector<HostVmRow> vms = rows(data, names);
    if (vms.empty() || !std::ranges::all_of(vms, &HostVmRow::has_others)) return;
    data.host_cpu = sentence_of(vms, data);
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& data,
                                          const Naming& names) const override {
    if (!requested_ && (!of_page_ || !data.model.sched_switch)) return {};
    using Row = HostVmRow;
    if (!data.model.sched_switch) {
      Table none;
      none.key = "host_cpu";
      none.after = {{},
                    {.text = fmt::format("What the VM's threads ran was not recorded ({}).",
                                         events::sched_switch.full_name)}};
      return {std::move(none)};
    }
    if (of_page_) {
      const std::vector<Row> vms = rows(data, names);
      std::vector<Table> tables = {role_table(vms, data, names)};
      if (requested_) tables.push_back(page_table(vms));
      return tables;
    }
    TableOf<Row> table({.key = "host_cpu", .csv = true}, rows(data, names),
                       [](const Row& row) { return vm_text(row.vm, row.vm_name); });
    const std::uint64_t unknown = names.pipeline.host_runs()->unknown_ns();
    table.facts = {{"not_known_ns", to_value(unknown)},
                   {"irq_time_apart", to_value(names.processes.irq_time_apart())}};
    table.text_children = table.csv_children = true;
    const std::string lacks =
        table.rows == 0 ? why_none(data, names) : lacks_text(table.all(), names);
    if (!lacks.empty()) table.after = {{}, {.text = lacks}};
    if (unknown != 0)
      table.before = {{},
                      {.text = fmt::format("Which thread ran is not known of {} of the CPUs' time.",
                                           duration_text(unknown, data.cycles))}};
    std::vector<std::string> sentences;
    for (const Row& row : table.all()) sentences.push_back(sentence_of(row, data));
    table.children = [all = table.all(), sentences = std::move(sentences)](std::size_t row) {
      return std::vector<Table>{threads_of(all[row], sentences[row])};
    };
    table.add({"vm"}, &Row::vm);
    table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
    table.add({"ns"}, &Row::ns);
    table.add({"cpus"}, &Row::cpus);
    return {std::move(table)};
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;  // limit of threads whose actions are kept
  struct Deeds {
    Counts<std::uint64_t> ioctls;
    std::uint64_t messages = 0;
    Counts<std::pair<CulpritKind, ThreadId>> woken_by;
  };
  [[nodiscard]] std::vector<HostVmRow> rows(const ReportData& data, const Naming& names) const {
    const Pipeline& pipeline = names.pipeline;
    std::map<std::string, std::pair<const Vm*, HostVmRow>> by_id;
    std::map<ThreadId, VcpuTotals> totals;
    for (const VcpuTotalsOf& vcpu : pipeline.vcpus()) totals.emplace(vcpu.thread, vcpu.totals);
    for (const HostThread& thread :
         host_threads(names, pipeline.host_runs()->threads(pipeline.end()))) {
      auto& [vm, row] = by_id[thread.vm->id()];
      vm = thread.vm;
      if (thread.lacks_runs) {
        row.at_least = true;
        continue;
      }
      row.ns += thread.runs.state.ran_ns;
      row.threads.push_back(row_of(thread, names));
    }
    const bool covers =
        pipeline.host_runs()->covers(Timestamp(data.start_ns), Timestamp(data.end_ns));
    const bool is_all = std::ranges::none_of(
        by_id, [](const auto& vm) { return vm.second.second.threads.empty(); });
    std::vector<HostVmRow> rows;
    const std::uint64_t interval = data.end_ns - data.start_ns;
    for (auto& [id, of] : by_id) {
      auto& [vm, row] = of;
      if (row.threads.empty()) continue;
      row.vm = id;
      row.vm_name = vm->given;
      row.has_others = !vm->inferred;
      row.irq_time_apart = names.processes.irq_time_apart() == true;
      row.at_least |= data.counters.gaps != 0 || !covers;
      row.is_all = is_all;
      row.cpus = interval == 0 ? 0 : static_cast<double>(row.ns) / static_cast<double>(interval);
      for (HostThreadRow& thread : std::exchange(row.threads, {})) {
        thread.whole = row.ns;
        row.threads.push_back(std::move(thread));
        if (data.is_window || data.counters.gaps != 0 || data.cycles)
          row.threads.back().counted_ns.reset();
        const auto vcpu = totals.find(ThreadId{row.threads.back().tid});
        if (vcpu != totals.end()) add_parts(row.threads, vcpu->second, data);
      }
      rows.push_back(std::move(row));
    }
    std::ranges::stable_sort(rows, std::greater(), &HostVmRow::ns);
    return rows;
  }
  [[nodiscard]] HostThreadRow row_of(const HostThread& thread, const Naming& names) const {
    const HostRuns::Entry& entry = thread.runs;
    HostThreadRow row;
    row.role = thread.role;
    row.tid = static_cast<std::int32_t>(entry.thread);
    row.name = row.role == HostRole::kVcpu ? names.vcpus.vcpu(entry.thread, false) : thread.comm;
    row.ns = entry.state.ran_ns;
    row.turns = entry.state.turns;
    const HostRuns& runs = *names.pipeline.host_runs();
    if (runs.knows_interrupts()) row.interrupts_ns = entry.state.interrupts_ns;
    if (!entry.state.several) row.counted_ns = names.processes.counted(entry.thread);
    const HostRuns::Lines lines = entry.state.until ? HostRuns::Lines() : runs.lines(entry.thread);
    row.line = line_of(lines);
    static const Deeds kNothing;
    const Deeds* deeds = deeds_.find(entry.thread);
    if (const auto& until = entry.state.until) {
      const auto earlier = earlier_.find({entry.thread, *until});
      deeds = earlier == earlier_.end() ? nullptr : &earlier->second;
    }
    const Deeds& did = deeds == nullptr ? kNothing : *deeds;
    std::map<std::string, std::uint64_t> wakers;
    if (did.woken_by.others != 0) wakers.emplace(text_of(HostRole::kNotKnown), did.woken_by.others);
    for (const auto& [by, count] : did.woken_by.of)
      wakers[waker_text(by.first, by.second, names, *thread.vm)] += count;
    row.woken_by = ranked(wakers);
    row.did = deeds_of(did.ioctls, lines, did.messages);
    return row;
  }

  bool requested_, of_page_;
  ThreadTable<Deeds> deeds_;
  std::map<std::pair<ThreadId, Timestamp>, Deeds> earlier_;  // of ids that others took, then
};

}  // namespace

const TableKind kHostCpuTable = {
    .option = "--host-cpu",
    .help = "Host CPU time of each VM, by thread",
    .in_finding = true,
    .make = make_sink<HostCpuTable>,
    .answers = [](Part most) -> std::string_view {
      return most == Part::kHalted ? "what CPU time of the host the VM took, by thread" : "";
    }};

}  // namespace trapline
