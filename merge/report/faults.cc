// --faults: why pages of the guests were not mapped, and how long the faults took.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "merge/analyze/page_faults.h"
#include "merge/analyze/pipeline.h"
#include "merge/model/kernel_events.h"
#include "merge/report/grouping.h"
#include "merge/report/report_data.h"
#include "merge/report/table_kinds.h"
#include "merge/report/units.h"
#include "merge/report/vcpus.h"

namespace trapline {
namespace {

struct FaultSum {
  std::uint64_t count = 0, first = 0, again = 0, ns = 0, kernel_ns = 0, user_ns = 0,
                preempted_ns = 0, waits_ns = 0, server_ns = 0, disk_ns = 0, reclaim_ns = 0,
                max_ns = 0, max_at_ns = 0, large = 0;
  void add(const ExitSpan& exit, const PageFault& fault) {
    constexpr std::uint64_t kSmallPages = 64 << 10;
    const auto part = [&exit](Part one) { return exit.parts[static_cast<std::size_t>(one)]; };
    ++count;
    if (fault.first) ++(*fault.first ? first : again);
    ns += exit.total();
    kernel_ns += part(Part::kKernel);
    user_ns += part(Part::kUser);
    preempted_ns += part(Part::kPreempted);
    waits_ns += part(Part::kBlocked) + part(Part::kHalted);
    server_ns += fault.server_ns;
    disk_ns += fault.disk_ns;
    reclaim_ns += fault.reclaim_ns;
    large += fault.page_bytes > kSmallPages ? 1 : 0;
    if (exit.total() < max_ns) return;
    max_ns = exit.total();
    max_at_ns = exit.start.ns();
  }
  void add(const FaultSum& other) {
    for (const auto of :
         {&FaultSum::count, &FaultSum::first, &FaultSum::again, &FaultSum::ns, &FaultSum::kernel_ns,
          &FaultSum::user_ns, &FaultSum::preempted_ns, &FaultSum::waits_ns, &FaultSum::server_ns,
          &FaultSum::disk_ns, &FaultSum::reclaim_ns, &FaultSum::large})
      this->*of += other.*of;
    if (other.max_ns <= max_ns) return;
    max_ns = other.max_ns;
    max_at_ns = other.max_at_ns;
  }
  [[nodiscard]] std::uint64_t other_waits_ns() const {
    return waits_ns - std::min(waits_ns, server_ns + disk_ns);
  }
};

// A row of --faults: a cause, a region or a vCPU.
struct FaultRow : VcpuId {
  std::string name{};
  FaultSum sum{};
  PageFault::Why why{};  // in rows by cause
  std::string by{}, how{};
  std::uint64_t address = 0;  // in rows by region
  std::string slot{};         // in rows by region
  std::uint64_t whole = 0;
};

std::string_view lacking_event(FaultLack lack) {
  constexpr std::string_view kEvents[] = {{},
                                          events::kvm_page_fault.full_name,
                                          events::mm_page_alloc.full_name,
                                          events::mm_filemap_add_to_page_cache.full_name,
                                          events::kvm_tdp_mmu_spte_changed.full_name,
                                          {},
                                          events::sys_enter_ioctl.full_name,
                                          {}};
  return kEvents[static_cast<std::size_t>(lack)];
}

// Adds the columns that all tables of --faults have. Text leaves out parts of the time that are
// always 0.
void add_figures(TableOf<FaultRow>& table, const ReportData& data) {
  using Row = FaultRow;
  enum DropOrder : std::uint8_t { kFirst = 1, kLarge, kMax, kReclaim, kParts };
  const auto count = [&](const char* key, const char* title, std::uint8_t drop_order,
                         std::uint64_t FaultSum::*of) {
    table.add({.key = key, .title = title, .drop_order = drop_order},
              [of](const Row& row) { return row.sum.*of; });
  };
  count("count", "faults", 0, &FaultSum::count);
  count("first", "first", kFirst, &FaultSum::first);
  count("again", "", 0, &FaultSum::again);
  table.add({"total_ns", "time", Unit::kDuration}, [](const Row& row) { return row.sum.ns; });
  table.add({.title = "share", .unit = Unit::kShare, .whole = "the faults' time"},
            [](const Row& row) {
              return Share{row.sum.ns, row.whole};
            });
  const auto part = [&](const char* key, const char* title, State known, auto of,
                        std::uint8_t drop_order) {
    const bool knows = data.knows(known);
    const bool any = std::ranges::any_of(
        table.all(), [&](const Row& row) { return std::invoke(of, row.sum) != 0; });
    table.add({.key = key,
               .title = knows && any ? title : "",
               .unit = Unit::kDuration,
               .drop_order = drop_order},
              [knows, of](const Row& row) {
                return knows ? to_value(std::invoke(of, row.sum)) : CellValue();
              });
  };
  part("kernel_ns", "kernel", State::kKernel, &FaultSum::kernel_ns, kParts);
  part("user_ns", "QEMU", State::kUser, &FaultSum::user_ns, kParts);
  part("server_ns", "for a server", State::kBlocked, &FaultSum::server_ns, kParts);
  part("disk_ns", "for a disk", State::kBlocked, &FaultSum::disk_ns, kParts);
  part("other_wait_ns", "other waits", State::kBlocked, &FaultSum::other_waits_ns, kParts);
  part("preempted_ns", "preempted", State::kPreempted, &FaultSum::preempted_ns, kParts);
  part("reclaim_ns", "in reclaim", State::kKernel, &FaultSum::reclaim_ns, kReclaim);
  table.add({"max_ns", "max", Unit::kDuration, 0, kMax},
            [](const Row& row) { return row.sum.max_ns; });
  table.add({"max_at_ns"}, [](const Row& row) { return row.sum.max_at_ns; });
  const bool large = std::ranges::any_of(table.all(), [](auto& row) { return row.sum.large != 0; });
  count("large_pages", large ? "2 MiB" : "", kLarge, &FaultSum::large);
}

// Returns "11,871 page faults took 1.34 s." and a sentence on accesses to devices.
std::vector<Paragraph> sentences_of(const FaultSum& all, const FaultSum& devices,
                                    const ReportData& data) {
  const auto time = [&data](std::uint64_t ns) { return duration_text(ns, data.cycles); };
  std::vector<Paragraph> sentences = {{}};
  if (all.count == 0) {
    sentences.push_back(
        {.text = fmt::format("No page faults were recorded ({}, {}).",
                             events::kvm_page_fault.full_name, events::kvm_guest_fault.full_name)});
  } else {
    sentences.push_back({.text = fmt::format("{} page fault{} took {}.", grouped(all.count),
                                             all.count == 1 ? "" : "s", time(all.ns)),
                         .figures = true});
  }
  if (devices.count != 0)
    sentences.push_back(
        {.text = fmt::format("{} access{} to devices (MMIO) took {} and {} not among them.",
                             grouped(devices.count), devices.count == 1 ? "" : "es",
                             time(devices.ns), devices.count == 1 ? "is" : "are"),
         .figures = true});
  return sentences;
}

class FaultTable : public TableSink {
 public:
  [[nodiscard]] SpanClass selects() const override {
    return SpanClass::kExits | SpanClass::kFaults;
  }
  void exit(const ExitSpan& exit, const Pipeline& pipeline) override {
    if (exit.detail.kind == DetailKind::kMmio) return devices_.add(exit, {});
    if (!is_page_fault(exit)) return;
    const PageFault& fault = pipeline.faults()->last();
    all_.add(exit, fault);
    vcpus_[exit.thread].add(exit, fault);
    PageFault::Why why = fault.why;
    if (causes_.size() >= kMostRows && !causes_.contains(why)) why = {.cause = why.cause};
    causes_[why].add(exit, fault);
    if (!fault.address) return;
    const std::pair region{pipeline.processes().of(exit.thread, exit.thread),
                           *fault.address >> kRegionBits};
    if (regions_.size() == kMostRegions && !regions_.contains(region)) return (void)++in_no_region_;
    regions_.try_emplace(region, Region{exit.thread, {}}).first->second.sum.add(exit, fault);
  }
  // Notes the events that would show the unknown causes.
  void fill(ReportData& data, const Naming& /*names*/) const override {
    if (in_no_region_ != 0)
      data.table_notes.push_back(
          fmt::format("{} page faults are in no row of the memory regions: there are more than {}",
                      grouped(in_no_region_), grouped(kMostRegions)));
    std::vector<std::string_view> missing;
    std::uint64_t count = 0;
    for (const auto& [why, sum] : causes_) {
      const std::string_view event = lacking_event(why.lack);
      if (event.empty()) continue;
      count += sum.count;
      if (std::ranges::find(missing, event) == missing.end()) missing.push_back(event);
    }
    if (missing.empty()) return;
    data.table_notes.push_back(
        fmt::format("the cause{} of {} page fault{} not known; record {}: trapline record --faults",
                    count == 1 ? "" : "s", grouped(count), count == 1 ? " is" : "s are",
                    fmt::join(missing, ", ")));
  }
  [[nodiscard]] std::vector<Table> tables(const ReportData& data,
                                          const Naming& names) const override {
    using Row = FaultRow;
    std::vector<Table> tables;
    // Adds a table of at most `top` rows (0: all), those of most time first. `add_own` adds columns
    // that only this table has. `title`: of text's first column; text has no table without rows.
    const auto add = [&](const char* key, std::vector<Row> rows, const char* title, auto add_own,
                         std::size_t top = 0) -> Table& {
      std::ranges::stable_sort(rows, std::greater(), [](const Row& row) { return row.sum.ns; });
      for (Row& row : rows) row.whole = all_.ns;
      TableOf<Row> table(
          {.key = key, .left_out = keep_first(rows, top), .csv = true, .page_title = title},
          std::move(rows), &Row::name);
      if (table.rows != 0) table.titles = {title};
      add_own(table);
      add_figures(table, data);
      tables.push_back(std::move(table));
      return tables.back();
    };
    Table& by_cause = add("faults", causes(names), "page faults", [](TableOf<Row>& table) {
      table.add({"cause"}, [](const Row& row) { return to_value(key_of(row.why.cause)); });
      table.add({"by"}, [](const Row& row) { return text_or_null(row.by); });
      table.add({"how"}, [](const Row& row) { return text_or_null(row.how); });
    });
    by_cause.before = sentences_of(all_, devices_, data);
    by_cause.facts = {{"mmio_count", devices_.count}, {"mmio_ns", devices_.ns}};
    add(
        "fault_regions", regions(names), "page faults, 2 MiB from",
        [&](TableOf<Row>& table) {
          table.add({"vm"}, &Row::vm);
          table.add({"vm_name"}, [](const Row& row) { return text_or_null(row.vm_name); });
          table.add({"address"}, &Row::address);
          table.add({"slot"}, [](const Row& row) { return text_or_null(row.slot); });
        },
        data.top == 0 ? kTop : data.top);
    Table& by_vcpu = add("fault_vcpus", vcpus(names), "page faults of",
                         [](TableOf<Row>& table) { add_vcpu(table, false); });
    if (by_vcpu.rows == 1) by_vcpu.titles.clear();
    return tables;
  }

 private:
  static constexpr std::size_t kMostRows = 4096, kMostRegions = 1u << 15, kTop = 10;
  static constexpr unsigned kRegionBits = 21;  // 2 MiB
  [[nodiscard]] std::vector<FaultRow> causes(const Naming& names) const {
    std::map<std::string, FaultRow> merged;  // rows whose causes differ only in Why::lack
    for (const auto& [why, sum] : causes_) {
      const std::string name = names.text(why);
      FaultRow& row = merged[name];
      row.name = name;
      row.why = why;
      row.by = why.by == ThreadId{} ? std::string() : names.text(why.by);
      row.how = how_text(why);
      row.sum.add(sum);
    }
    std::vector<FaultRow> rows;
    for (auto& [name, row] : merged) rows.push_back(std::move(row));
    return rows;
  }
  [[nodiscard]] std::vector<FaultRow> regions(const Naming& names) const {
    std::vector<FaultRow> rows;
    for (const auto& [key, region] : regions_) {
      FaultRow& row = rows.emplace_back(FaultRow{{region.thread, names.vcpus}});
      row.address = key.second << kRegionBits;
      row.slot =
          names.processes.slot_of(key.first, row.address, row.address + (1u << kRegionBits) - 1);
      row.name = fmt::format("{:#x}{}{}", row.address, row.slot.empty() ? "" : " ", row.slot);
      if (names.vcpus.several_vms())
        row.name = fmt::format("VM {} {}", names.vcpus.vm(region.thread), row.name);
      row.sum = region.sum;
    }
    return rows;
  }
  [[nodiscard]] std::vector<FaultRow> vcpus(const Naming& names) const {
    std::vector<FaultRow> rows;
    for (const auto& [thread, sum] : vcpus_)
      rows.push_back({{thread, names.vcpus}, names.vcpus.vcpu(thread, true), sum});
    return rows;
  }

  std::map<PageFault::Why, FaultSum> causes_;
  struct Region {
    ThreadId thread{};  // a thread of the VM
    FaultSum sum;
  };
  std::map<std::pair<ThreadId, std::uint64_t>, Region> regions_;  // by process and 2 MiB
  std::map<ThreadId, FaultSum> vcpus_;
  FaultSum all_, devices_;
  std::uint64_t in_no_region_ = 0;
};

}  // namespace

const TableKind kFaultTable = {.option = "--faults",
                               .help = "Page faults by cause, memory region and vCPU",
                               .make = make_sink<FaultTable>};

}  // namespace trapline
