#include "merge/render/calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "backend_ftrace/base/text.h"
#include "merge/model/processes.h"
#include "merge/render/units.h"

namespace trapline {
namespace {

constexpr std::size_t kMostVcpuRows = 16;

std::uint64_t sum_of(const Parts& parts) {
  std::uint64_t sum = 0;
  for (const std::uint64_t part : parts) sum += part;
  return sum;
}
std::uint64_t part(const Parts& parts, Part which) {
  return parts[static_cast<std::size_t>(which)];
}

// Of own time: guest, devices, at most, preempted, blocked.
void add_shares(std::vector<std::string>& cells, std::uint64_t guest_ns, const Parts& parts,
                std::uint64_t devices_at_most_ns) {
  const std::uint64_t own = guest_ns + sum_of(parts);
  for (const std::uint64_t ns : {guest_ns, part(parts, Part::kUser), devices_at_most_ns,
                                 part(parts, Part::kPreempted), part(parts, Part::kBlocked)}) {
    cells.push_back(percent_text(ns, own));
  }
}

}  // namespace

std::string vcpu_name(const VcpuRow& row, bool with_vm) {
  std::string name = row.vcpu == kNoVcpu ? "vCPU ?" : fmt::format("vCPU {}", row.vcpu);
  if (with_vm) name = fmt::format("VM {} {}", vm_text(row.vm, row.vm_name), name);
  return fmt::format("{} (tid {})", name, row.tid);
}

bool shows_vms(const Report& report) {
  return std::any_of(report.vcpus.begin(), report.vcpus.end(), [&](const VcpuRow& row) {
    return row.vm != report.vcpus.front().vm || !row.vm_name.empty();
  });
}

std::vector<VcpuRow> shown_vcpus(const Report& report) {
  std::vector<VcpuRow> rows = report.vcpus;
  if (rows.size() <= kMostVcpuRows) return rows;
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return rows[a].totals.exits > rows[b].totals.exits;
  });
  order.resize(kMostVcpuRows);
  std::sort(order.begin(), order.end());
  std::vector<VcpuRow> busiest;
  for (const std::size_t i : order) busiest.push_back(rows[i]);
  return busiest;
}

void print_more_vcpus(const Report& report, std::ostream& out) {
  if (report.vcpus.size() <= kMostVcpuRows) return;
  out << fmt::format("and {} more with fewer {} (--by vm sums those of each VM, --vm shows one)\n",
                     report.vcpus.size() - kMostVcpuRows, name_of(report.rows_of));
}

void print_call_vcpus(const Report& report, std::ostream& out, const TextStyle& style) {
  const bool with_vm = shows_vms(report);
  TextTable table(
      {"Share of wall time", "calls", "guest", "devices", "preempted", "blocked", "elsewhere"});
  const std::uint64_t interval = report.end_ns - report.start_ns;
  for (const VcpuRow& row : shown_vcpus(report)) {
    const Parts& parts = row.totals.parts;
    const std::uint64_t known = std::min(row.totals.guest_ns + sum_of(parts), interval);
    table.add({vcpu_name(row, with_vm), grouped(row.totals.exits),
               percent_text(row.totals.guest_ns, interval),
               percent_text(part(parts, Part::kUser), interval),
               percent_text(part(parts, Part::kPreempted), interval),
               percent_text(part(parts, Part::kBlocked), interval),
               percent_text(interval - known, interval)});
  }
  out << '\n';
  table.print(out, style);
  print_more_vcpus(report, out);
  out << "The time elsewhere is in functions that were not recorded, before the first call and "
         "after the last.\n";
}

void print_call_parts(const Report& report, std::ostream& out, const TextStyle& style) {
  TextTable table(
      {"Where their own time went", "guest", "devices", "at most", "preempted", "blocked"});
  for (const GroupRow& row : report.rows) {
    std::vector<std::string> cells = {row.key};
    add_shares(cells, row.guest_ns(), row.parts, row.devices_at_most_ns);
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
}

void print_call_functions(const Report& report, std::ostream& out, const TextStyle& style) {
  if (report.by == "function") return;  // the rows are the same
  std::vector<std::uint64_t> values;
  for (const GuestFunctionRow& row : *report.guest_functions) values.push_back(row.times.own_ns());
  const Unit unit = choose_unit(values, report.cycles);
  TextTable table({"own time of", "calls", "QEMU events", fmt::format("own/{}", unit.name), "guest",
                   "devices", "at most", "preempted", "blocked"});
  for (const GuestFunctionRow& row : *report.guest_functions) {
    const GuestFunctionTimes& times = row.times;
    std::vector<std::string> cells = {row.name, grouped(times.calls), grouped(times.vmm_events),
                                      in_unit(times.own_ns(), unit)};
    add_shares(cells, times.guest_ns, times.parts, times.devices_at_most_ns);
    table.add(std::move(cells));
  }
  out << '\n';
  table.print(out, style);
  print_left_out(report.guest_functions_left_out, out);
}

}  // namespace trapline
