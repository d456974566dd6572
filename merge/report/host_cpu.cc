// --host-cpu: the CPU time of the host that each VM used, thread by thread.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
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
#include "merge/report/vcpus.h"

namespace trapline {
namespace {

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
  // part: a part of the thread's time, in a row below the thread's; reason: a part of that part, of
  // exits with this reason.
  std::string name, part, reason;
  ThreadId thread{};
  std::uint64_t ns = 0, whole = 0, turns = 0;
  double cpus = 0;
  std::optional<std::uint64_t> interrupts_ns;
  std::optional<std::uint64_t> counted_ns;  // by the kernel's count, for the whole recording
  Ranked woken_by, did;
  std::optional<Line> line;  // the interrupt line that the thread set most often
};
struct HostVmRow {
  std::string vm, vm_name;
  ThreadId process{};           // 0: the VM is inferred
  bool at_least = false;        // not all runs of some threads are known
  bool irq_time_apart = false;  // the kernel counts the time of interrupts apart
  bool has_others = true;       // the VM's threads besides its vCPUs are known
  bool is_all = true;           // every VM that ran has a row
  std::uint64_t ns = 0;
  std::uint64_t unsure_ns = 0;  // of threads that may be the VM's
  double cpus = 0;
  // Interrupts of idle CPUs that woke the VM's threads: their number and time.
  std::optional<std::uint64_t> idle_wakes, idle_ns;
  std::vector<HostThreadRow> threads;
};

// The times of a thread's exits by reason, which packed() made a number: the kernel's part, QEMU's.
using ReasonTimes = std::map<std::uint64_t, std::array<std::uint64_t, 2>>;

// Returns what ended a sleep: "timer", "vCPU", "main loop", "own thread", a thread's name, "disk",
// "interrupt", "not known".
std::string waker_text(CulpritKind kind, ThreadId named, const Naming& names, const Vm& vm) {
  if (const ThreadId by = unnamed(named); by != ThreadId{}) {
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
Ranked deeds_of(const std::map<std::uint64_t, std::uint64_t>& ioctls, std::uint64_t other_ioctls,
                const HostRuns::Lines& lines, std::uint64_t messages) {
  std::map<std::string, std::uint64_t> counts;
  for (const auto& [command, count] : ioctls) counts[ioctl_text(command)] = count;
  if (other_ioctls != 0) counts["other ioctls"] = other_ioctls;
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

// Adds rows with the parts of a vCPU thread's time, and below those of exits the `top` reasons that
// took most of it.
void add_parts(std::vector<HostThreadRow>& rows, const VcpuTotals& totals,
               const ReasonTimes& reasons, std::size_t top, const ReportData& data,
               const Naming& names) {
  const HostThreadRow thread = rows.back();
  const auto ns_of = [&](Part part) { return totals.parts[static_cast<std::size_t>(part)]; };
  const std::uint64_t known =
      totals.guest_ns + ns_of(Part::kKernel) + ns_of(Part::kUser) + totals.polled_ns;
  if (!data.knows(State::kGuest) || known > thread.ns) return;
  const auto add = [&](std::string_view part, std::string name, std::uint64_t ns,
                       std::string reason = {}) {
    if (ns == 0) return;
    HostThreadRow& row = rows.emplace_back(thread);
    row.name = std::move(name);
    row.part = part;
    row.reason = std::move(reason);
    row.ns = ns;
    row.counted_ns.reset();
  };
  const auto add_exits = [&](Part part, std::string name) {
    const std::string_view key = kPartNames[static_cast<std::size_t>(part)];
    std::uint64_t others = ns_of(part);
    add(key, std::move(name), others);
    if (others < thread.whole / 100) return;
    std::vector<std::pair<std::uint64_t, std::string>> most;
    for (const auto& [reason, times] : reasons) {
      const std::uint64_t ns = times[static_cast<std::size_t>(part)];
      if (ns != 0) most.emplace_back(ns, ExitKeys({Dimension::kReason}).text({{reason}}, names));
    }
    std::ranges::sort(most, std::greater());
    (void)keep_first(most, top);
    for (const auto& [ns, reason] : most) {
      add(key, reason, ns, reason);
      others -= ns;
    }
    if (!most.empty()) add(key, "other exits", others, std::string(ReportData::kFoldedKey));
  };
  add("guest", "guest", totals.guest_ns);
  add_exits(Part::kKernel,
            fmt::format("exits, the host's kernel{}{}", data.knows(State::kUser) ? "" : " or ",
                        data.knows(State::kUser) ? "" : data.vmm));
  add_exits(Part::kUser, fmt::format("exits, {}", data.vmm));
  add("polling", "halts: polling, falling asleep", totals.polled_ns);
  add("not_known", totals.offline_ns != 0 ? "offline, or not known" : "not known",
      thread.ns - known);
}

std::string name_of(const HostThreadRow& row) {
  if (!row.reason.empty()) return "    " + row.name;
  if (!row.part.empty()) return "  " + row.name;
  const std::string text = fmt::format("{} (tid {})", row.name, tid_text(row.thread));
  return row.role == HostRole::kVcpu || row.role == HostRole::kOther
             ? text
             : fmt::format("{}: {}", text_of(row.role), text);
}

// Returns " Its main loop ran 250 times a second and set interrupt line 0 500 times a second,
// without raising it."; empty if the main loop took little.
std::string loop_sentence(const HostVmRow& row, const ReportData& data) {
  constexpr std::uint64_t kLeastShare = 3;  // the main loop must have 1/kLeastShare of the time
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

std::string cpus_text(double cpus, std::string_view less = "<") {
  return cpus < 0.001 ? fmt::format("{}0.001", less) : fmt::format("{:.3f}", cpus);
}

// Returns "took 0.118 CPUs of the host, 343 ms of CPU time in 2.90 s"
std::string took_text(const HostVmRow& row, const ReportData& data) {
  return fmt::format("took {}{} CPUs of the host, {} of CPU time in {}",
                     row.at_least ? "at least " : "", cpus_text(row.cpus, "less than "),
                     duration_text(row.ns, data.cycles),
                     duration_text(data.end_ns - data.start_ns, data.cycles));
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
    if (role == HostRole::kIoUring) return one ? "an io_uring worker" : "io_uring workers";
    if (role == HostRole::kWork) return "kernel workers";
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
                   "The vCPUs of VM {}{} {}. Which other threads are the VM's is not known "
                   "(record {}).",
                   vm,
                   std::ranges::find(row.threads, HostRole::kWork, &HostThreadRow::role) ==
                           row.threads.end()
                       ? ""
                       : ", with kernel workers for them,",
                   took, events::task_newtask.full_name);
}

// Returns "timer ×1,772, vCPU ×12, …"; if it is not for a reader, all of them, with plain numbers.
std::string text_of(const Ranked& ranked, bool is_shown = true) {
  const std::size_t most = is_shown ? 2 : ranked.names.size();
  std::string text;
  for (std::size_t i = 0; i < ranked.names.size() && i < most; ++i)
    text += fmt::format("{}{} {}{}", i == 0 ? "" : ", ", ranked.names[i], is_shown ? "×" : "",
                        is_shown ? grouped(ranked.counts[i]) : std::to_string(ranked.counts[i]));
  return text + (ranked.names.size() > most ? ", …" : "");
}

// Returns sentences on the threads for which the kernel counts another time, by more than 1 %: the
// largest difference first.
std::vector<Paragraph> counted_sentences(const HostVmRow& vm) {
  constexpr std::size_t kMostShown = 3;
  constexpr std::uint64_t kLeast = 100'000;  // ns; smaller differences are not shown
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
  add_tid(table, &Row::thread);
  table.add({"part"}, [](const Row& row) { return text_or_null(row.part); });
  table.add({"reason"}, [](const Row& row) { return text_or_null(row.reason); });
  table.add({"ns", "time", Unit::kDuration}, &Row::ns);
  table.add({"cpus"}, &Row::cpus);
  table.add({.title = "CPUs"}, [](const Row& row) { return cpus_text(row.cpus); });
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
  if (vm.idle_wakes.value_or(0) != 0)
    table.after = {{.text = fmt::format("Interrupts that woke its threads on idle CPUs: {}. They "
                                        "took {}, which is in no row.",
                                        grouped(*vm.idle_wakes), duration_text(vm.idle_ns, false)),
                    .figures = true}};
  if (vm.unsure_ns != 0)
    table.after.push_back(
        {.text =
             fmt::format("Other threads took {}, which is in none of its rows. Whether they were "
                         "the VM's is not known.",
                         duration_text(vm.unsure_ns, false)),
         .figures = true});
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
  if (most.ns * vms.size() < all.ns + all.ns / 2)  // the VMs took nearly the same
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
  return "How long the VM's threads ran is not known: not all of their switches are recorded.";
}

// Returns lines on the roles that are known by name alone, and on what `record --host-cpu` would
// tell.
std::vector<Paragraph> limits_of(std::span<const HostVmRow> vms, const Naming& names) {
  bool wakers = false;
  std::set<std::string_view> named;
  for (const HostVmRow& vm : vms) {
    for (const HostThreadRow& row : vm.threads) {
      wakers |= std::ranges::count(row.woken_by.names, text_of(HostRole::kNotKnown)) != 0;
      if (is_by_name(row.role)) named.insert(text_of(row.role));
    }
  }
  const HostRuns& runs = *names.pipeline.host_runs();
  std::vector<std::string_view> unknown;
  if (!runs.knows_interrupts()) unknown.push_back("how long interrupts took");
  if (wakers && !names.pipeline.waits()->knows_timers())
    unknown.push_back("some of what woke threads");
  if (!runs.knows_works()) unknown.push_back("what kernel workers did for VMs");
  std::vector<Paragraph> lines = {{}};
  if (!named.empty())
    lines.push_back({.text = fmt::format("Roles known only by the threads' names: {}.",
                                         fmt::join(named, ", "))});
  if (!unknown.empty())
    lines.push_back({.text = fmt::format("Not known: {}. trapline record --host-cpu records it.",
                                         fmt::join(unknown, "; "))});
  return lines.size() == 1 ? std::vector<Paragraph>() : lines;
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
  if (std::ranges::any_of(vms, [](const Row& row) { return row.idle_wakes.value_or(0) != 0; })) {
    table.add({"idle_wakes"}, &Row::idle_wakes);
    table.add({"idle_ns"}, &Row::idle_ns);
  }
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

// Returns the table of `export --rows host-cpu`: a thread with its parts as one row.
Table export_table(const std::vector<HostVmRow>& vms, const ReportData& data, const Naming& names) {
  struct Row : HostThreadRow {
    std::int32_t vm = 0, vcpu = kNoVcpu;
    std::string vm_name;
    std::map<std::string, std::uint64_t> parts{};
  };
  std::vector<Row> rows;
  for (const HostVmRow& vm : vms) {
    for (const HostThreadRow& row : vm.threads) {
      if (row.part.empty())
        rows.push_back({row, tid_of(vm.process), names.vcpus.number(row.thread),
                        vm.process == ThreadId{} ? vm.vm : vm.vm_name});
      else if (row.reason.empty())
        rows.back().parts[row.part] = row.ns;
    }
  }
  TableOf<Row> table({.key = "host_cpu"}, std::move(rows), &Row::name);
  table.add({"vm"}, [](const Row& row) { return number_or_null(row.vm, 0); });
  table.add({"vcpu"}, [](const Row& row) { return number_or_null(row.vcpu, kNoVcpu); });
  table.add({"tid"}, [](const Row& row) { return tid_of(row.thread); });
  table.add({"start_ns"}, [at = data.start_ns](const Row&) { return at; });
  table.add({"total_ns"}, [ns = data.end_ns - data.start_ns](const Row&) { return ns; });
  table.add({"vm_name"}, &Row::vm_name);
  table.add({"role"}, [](const Row& row) { return text_of(row.role); });
  table.add({"name"}, &Row::name);
  table.add({"ran_ns"}, &Row::ns);
  for (const std::string part : {"guest", "kernel", "user", "polling", "not_known"})
    table.add({part + "_ns"}, [part](const Row& row) {
      const auto found = row.parts.find(part);
      return found == row.parts.end() ? CellValue() : to_value(found->second);
    });
  table.add({"turns"}, &Row::turns);
  table.add({"interrupts_ns"}, &Row::interrupts_ns);
  table.add({"counted_ns"}, &Row::counted_ns);
  table.add({"woken_by"}, [](const Row& row) { return text_of(row.woken_by, false); });
  table.add({"did"}, [](const Row& row) { return text_of(row.did, false); });
  return table;
}

class HostCpuTable : public TableSink {
 public:
  explicit HostCpuTable(const ReportOptions& options)
      : requested_(options.asks(kHostCpuTable.option)),
        of_page_(options.page),
        of_rows_(options.rows),
        top_(options.top == 0 ? kReasons : options.top) {}

  [[nodiscard]] SpanClass selects() const override {
    if (!requested_) return SpanClass::kHostRuns;
    return SpanClass::kHostRuns | SpanClass::kDeeds | SpanClass::kExits;
  }
  void event(const Event& event, const Pipeline& pipeline) override {
    if (!pipeline.is_of_hosts_kernel(event)) return;
    if (const auto& woke = pipeline.waits()->woke()) {
      Deeds* deeds = deeds_.get(woke->thread, kMostThreads);
      if (deeds != nullptr)
        ++bounded(deeds->woken_by,
                  {woke->by->kind, woke->by->is_thread() ? woke->by->thread : ThreadId{}},
                  kMostDeeds, deeds->woken_otherwise);
    }
    const auto* ioctl = std::get_if<IoctlEnter>(&event.payload);
    const bool calls = ioctl != nullptr && ioctl->command != kKvmRun;
    const bool messages = std::holds_alternative<KvmIrq>(event.payload);
    // Work of an interrupt that hit the thread is not the thread's.
    if ((!calls && !messages) || pipeline.host_runs()->is_in_interrupt(event.cpu)) return;
    Deeds* deeds = deeds_.get(event.thread, kMostThreads);
    if (deeds == nullptr) return;
    if (calls) ++bounded(deeds->ioctls, ioctl->command, kMostDeeds, deeds->other_ioctls);
    if (messages) ++deeds->messages;
  }
  void exit(const ExitSpan& exit, const Pipeline&) override {
    Deeds* deeds = deeds_.get(exit.thread, kMostThreads);
    if (deeds == nullptr) return;
    const std::uint64_t reason = packed(exit.reason, exit.source);
    if (deeds->exits.size() >= kMostReasons && !deeds->exits.contains(reason)) return;
    std::array<std::uint64_t, 2>& ns = deeds->exits[reason];
    ns[0] += exit.parts[static_cast<std::size_t>(Part::kKernel)];
    ns[1] += exit.parts[static_cast<std::size_t>(Part::kUser)];
  }
  void unended(const UnendedExit& unended, const Pipeline& pipeline) override {
    exit(unended.span, pipeline);
  }
  // Sets the sentence on the VMs' CPU time. No sentence if a VM's threads other than vCPUs are not
  // known.
  void fill(ReportData& data, const Naming& names) const override {
    if (requested_ || !data.model.sched_switch) return;
    const std::vector<HostVmRow> vms = rows(data, names);
    if (vms.empty() || !std::ranges::all_of(vms, &HostVmRow::has_others)) return;
    data.host_cpu = sentence_of(vms, data);
    if (const std::uint32_t cpus = host_cpus(names.timeline); cpus != 0)
      data.host_cpu += fmt::format(" The host has {} CPU{}.", cpus, cpus == 1 ? "" : "s");
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
    if (of_rows_) return {export_table(rows(data, names), data, names)};
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
                   {"irq_time_apart", to_value(names.processes.irq_time_apart)}};
    table.text_children = table.csv_children = true;
    table.after = table.rows != 0 ? limits_of(table.all(), names)
                                  : std::vector<Paragraph>{{}, {.text = why_none(data, names)}};
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
    table.add({"ns", "time", Unit::kDuration}, &Row::ns);
    table.add({"cpus"}, &Row::cpus);
    table.add({.key = "at_least", .csv = false}, &Row::at_least);
    table.add({.key = "unsure_ns", .csv = false}, &Row::unsure_ns);
    table.add({.title = "CPUs"}, [](const Row& row) { return cpus_text(row.cpus); });
    table.add({"idle_wakes"}, &Row::idle_wakes);
    table.add({"idle_ns"}, &Row::idle_ns);
    if (table.rows > 1) table.titles = {"Host CPU of VM"};
    for (const HostRole role : kRolesOfVm)
      table.add({.title = std::string(text_of(role)),
                 .unit = Unit::kShare,
                 .drop_order = static_cast<std::uint8_t>(role),
                 .whole = "the VM's CPU time"},
                [role](const Row& row) {
                  const bool is_known = row.has_others || role == HostRole::kVcpu;
                  return is_known ? Share{time_of(row, role), row.ns} : CellValue();
                });
    return {std::move(table)};
  }

 private:
  static constexpr std::size_t kMostThreads = 1u << 16;  // limit of threads whose actions are kept
  struct Deeds {
    std::map<std::uint64_t, std::uint64_t> ioctls;
    std::map<std::pair<CulpritKind, ThreadId>, std::uint64_t> woken_by;
    std::uint64_t other_ioctls = 0, woken_otherwise = 0, messages = 0;
    ReasonTimes exits;
  };
  static constexpr std::size_t kMostDeeds = 32;  // limit of a thread's ioctls, and of its wakers
  static constexpr std::size_t kReasons = 3, kMostReasons = 256;
  [[nodiscard]] std::vector<HostVmRow> rows(const ReportData& data, const Naming& names) const {
    const Pipeline& pipeline = names.pipeline;
    std::map<std::string, HostVmRow> by_id;
    std::map<ThreadId, VcpuTotals> totals;
    for (const VcpuTotalsOf& vcpu : pipeline.vcpus()) totals.emplace(vcpu.thread, vcpu.totals);
    auto threads = host_threads(names, pipeline.host_runs()->threads(pipeline.end()));
    for (HostThread& work : host_works(names)) threads.push_back(std::move(work));
    const auto ran = [](const HostThread& one) { return one.runs.state.ran_ns; };
    std::ranges::stable_sort(threads, std::greater(), ran);
    for (const HostThread& thread : threads) {
      HostVmRow& row = by_id[thread.vm->id()];
      row.vm_name = thread.vm->given;
      if (!thread.vm->inferred) row.process = thread.vm->process;
      row.has_others = !thread.vm->inferred;
      if (thread.lacks_runs) {
        row.at_least = true;
        if (thread.unsure) row.unsure_ns += thread.runs.state.ran_ns;
        continue;
      }
      row.ns += thread.runs.state.ran_ns;
      if (pipeline.host_runs()->knows_interrupts() && data.model.wakeups) {
        row.idle_wakes = row.idle_wakes.value_or(0) + thread.runs.state.idle_wakes;
        row.idle_ns = row.idle_ns.value_or(0) + thread.runs.state.idle_ns;
      }
      row.threads.push_back(row_of(thread, names));
    }
    // The kernel counted time of a thread without a switch: it had its CPU for itself.
    for (const auto& counted : names.processes.counted()) {
      const auto is_it = [&](const HostThread& thread) {
        return thread.runs.thread == counted.first;
      };
      if (data.is_window || counted.second <= HostRuns::kMostAfter ||
          std::ranges::any_of(threads, is_it))
        continue;
      const ThreadId process = names.processes.of(counted.first, ThreadId{});
      for (auto& [id, row] : by_id) row.at_least |= row.has_others && row.process == process;
    }
    const bool covers =
        pipeline.host_runs()->covers(Timestamp(data.start_ns), Timestamp(data.end_ns));
    const bool lacks_cpus = pipeline.threads().switches().lacks_cpu(pipeline.end());
    const bool is_all =
        std::ranges::none_of(by_id, [](const auto& vm) { return vm.second.threads.empty(); });
    std::vector<HostVmRow> rows;
    const auto length =
        static_cast<double>(std::max(data.end_ns - data.start_ns, std::uint64_t{1}));
    for (auto& [id, row] : by_id) {
      if (row.threads.empty()) continue;
      row.vm = id;
      row.irq_time_apart = names.processes.irq_time_apart == true;
      row.at_least |= data.counters.gaps != 0 || !covers || lacks_cpus;
      row.is_all = is_all;
      row.cpus = static_cast<double>(row.ns) / length;
      for (HostThreadRow& thread : std::exchange(row.threads, {})) {
        thread.whole = row.ns;
        row.threads.push_back(std::move(thread));
        if (data.is_window || data.counters.gaps != 0 || data.cycles)
          row.threads.back().counted_ns.reset();
        const auto vcpu = totals.find(row.threads.back().thread);
        const Deeds* deeds = deeds_.find(row.threads.back().thread);
        if (vcpu != totals.end())
          add_parts(row.threads, vcpu->second, deeds == nullptr ? ReasonTimes() : deeds->exits,
                    top_, data, names);
      }
      for (HostThreadRow& one : row.threads) one.cpus = static_cast<double>(one.ns) / length;
      rows.push_back(std::move(row));
    }
    std::ranges::stable_sort(rows, std::greater(), &HostVmRow::ns);
    return rows;
  }
  [[nodiscard]] HostThreadRow row_of(const HostThread& thread, const Naming& names) const {
    const HostRuns::Entry& entry = thread.runs;
    HostThreadRow row;
    row.role = thread.role;
    row.thread = entry.thread;
    row.name = row.role == HostRole::kVcpu ? names.vcpus.vcpu(entry.thread, false) : thread.comm;
    row.ns = entry.state.ran_ns;
    row.turns = entry.state.turns;
    if (row.role == HostRole::kWork) return row;
    const HostRuns& runs = *names.pipeline.host_runs();
    if (runs.knows_interrupts()) row.interrupts_ns = entry.state.interrupts_ns;
    // If several threads had the id, it is not known of which of them the kernel's count is.
    if (life_of(names.pipeline.now(tid_of(entry.thread))) == 0)
      row.counted_ns = names.processes.counted(entry.thread);
    const HostRuns::Lines lines = runs.lines(entry.thread);
    row.line = line_of(lines);
    static const Deeds kNothing;
    const Deeds* deeds = deeds_.find(entry.thread);
    const Deeds& did = deeds == nullptr ? kNothing : *deeds;
    std::map<std::string, std::uint64_t> wakers;
    if (did.woken_otherwise != 0) wakers.emplace(text_of(HostRole::kNotKnown), did.woken_otherwise);
    for (const auto& [by, count] : did.woken_by)
      wakers[waker_text(by.first, by.second, names, *thread.vm)] += count;
    row.woken_by = ranked(wakers);
    row.did = deeds_of(did.ioctls, did.other_ioctls, lines, did.messages);
    return row;
  }

  bool requested_, of_page_, of_rows_;
  std::size_t top_;
  ThreadTable<Deeds> deeds_;
};

}  // namespace

const TableKind kHostCpuTable = {
    .option = "--host-cpu",
    .help = "Host CPU time of each VM, by thread",
    .in_finding = true,
    .make = [](const ReportOptions& options, const std::string&)
        -> Result<std::unique_ptr<TableSink>> { return std::make_unique<HostCpuTable>(options); },
    .answers = "what CPU time of the host the VM took, by thread",
    .of = Part::kHalted};

}  // namespace trapline
