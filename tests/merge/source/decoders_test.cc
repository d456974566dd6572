// Every event and loss of every recording, and the fields of what is decoded, against the text of
// trace-cmd report -R.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "backend_ftrace/base/text.h"
#include "merge/source/trace_dat/trace_dat_source.h"
#include "tests/merge/source/recordings.h"
#include "tests/support/open_by_path.h"

namespace trapline::trace_dat {
namespace {

// "COMM-TID  [CPU]  SECONDS.NANOSECONDS: NAME: key=value key= value …"; cycles have no point.
struct Printed {
  std::uint64_t at;
  std::uint32_t cpu;
  std::int32_t thread;
  std::string name;
  std::string rest;
  std::map<std::string, std::string> fields;

  [[nodiscard]] std::uint64_t hex(const std::string& key) const { return number(key, 16); }
  [[nodiscard]] std::uint64_t number(const std::string& key, int base = 0) const {
    const auto found = fields.find(key);
    if (found == fields.end()) {
      ADD_FAILURE() << name << " has no " << key << ": " << rest;
      return 0;
    }
    const char* text = found->second.c_str();
    return *text == '-' ? static_cast<std::uint64_t>(std::strtoll(text, nullptr, base))
                        : std::strtoull(text, nullptr, base);
  }
  template <typename T>
  [[nodiscard]] T as(const std::string& key) const {
    return static_cast<T>(number(key));
  }
};

std::optional<Printed> parse(std::string_view line) {
  const auto bracket = line.find(" ["), close = line.find(']', bracket);
  const auto time = line.find(": ", close);
  const auto colon = line.find(':', time + 1);
  if (close == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  const auto number = [](std::string_view text) {
    std::string digits(trimmed(text));
    std::erase(digits, '.');
    digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
    return parse_number(digits).value_or(0);
  };
  const auto dash = line.substr(0, bracket).rfind('-');
  Printed printed{number(line.substr(close + 1, time - close - 1)),
                  static_cast<std::uint32_t>(number(line.substr(bracket + 2, close - bracket - 2))),
                  static_cast<std::int32_t>(number(line.substr(dash + 1, bracket - dash - 1))),
                  std::string(trimmed(line.substr(time + 1, colon - time - 1))),
                  std::string(trimmed(line.substr(colon + 1))),
                  {}};
  std::string_view rest = printed.rest;
  for (auto equals = rest.find('='); equals != std::string_view::npos; equals = rest.find('=')) {
    const auto key = trimmed(rest.substr(0, equals));
    const auto key_start = key.rfind(' ');
    rest.remove_prefix(equals + 1);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const auto end = std::min(rest.find(' '), rest.size());
    printed.fields.emplace(key_start == std::string_view::npos ? key : key.substr(key_start + 1),
                           rest.substr(0, end));
  }
  return printed;
}

class Check {
 public:
  Check(const Printed& printed, bool arm64)
      : p(printed), arm(arm64), riscv(printed.fields.contains("scause")) {}

  void operator()(const KvmExit& exit) const {
    if (riscv) return check_riscv(exit);
    if (arm) {
      EXPECT_EQ(exit.isa, kIsaArm64);
      EXPECT_EQ(exit.reason, p.as<std::uint32_t>("ret"));
      EXPECT_EQ(exit.exception_class, p.as<std::uint32_t>("esr_ec"));
      EXPECT_EQ(exit.rip, p.number("vcpu_pc"));
      EXPECT_EQ(exit.vcpu, kNoVcpu);
      return;
    }
    EXPECT_EQ(exit.isa, p.as<std::uint32_t>("isa"));
    EXPECT_EQ(exit.reason, p.as<std::uint32_t>("exit_reason"));
    EXPECT_EQ(exit.rip, p.number("guest_rip"));
    EXPECT_EQ(exit.vcpu, p.as<std::int32_t>("vcpu_id"));
  }
  void operator()(const KvmEntry& entry) const {
    const bool has_vcpu = p.fields.contains("vcpu_id");
    EXPECT_EQ(entry.vcpu, arm || !has_vcpu ? kNoVcpu : p.as<std::int32_t>("vcpu_id"));
  }
  void operator()(const KvmUserspaceExit& exit) const {
    EXPECT_EQ(exit.reason, p.as<std::uint32_t>("reason"));
    EXPECT_EQ(exit.error, p.as<std::int32_t>("errno"));
  }
  void operator()(const KvmStateLoad&) const {
    if (p.name == "kvm_fpu") {
      EXPECT_EQ(p.number("load"), 1u);
    }
  }
  void operator()(const KvmDetail& detail) const {
    EXPECT_EQ(detail.value, value());
    const auto wrote = [this](const char* key) { return p.number(key) != 0; };
    if (p.name == "kvm_pio") {
      EXPECT_EQ(detail.kind, DetailKind::kPort);
      EXPECT_EQ(detail.access == Access::kWrite, wrote("rw"));
    } else if (p.name == "kvm_mmio") {
      EXPECT_EQ(detail.kind, DetailKind::kMmio);
      EXPECT_EQ(detail.access == Access::kWrite, p.number("type") == 2);
      EXPECT_EQ(detail.unsatisfied, p.number("type") == 0);
      EXPECT_EQ(detail.data, p.number("val"));
    } else if (p.name == "kvm_msr") {
      EXPECT_EQ(detail.kind, DetailKind::kMsr);
      EXPECT_EQ(detail.access == Access::kWrite, wrote("write"));
    } else if (p.name == "kvm_cr") {
      EXPECT_EQ(detail.kind, DetailKind::kControlRegister);
      EXPECT_EQ(detail.access == Access::kWrite, wrote("rw"));
    } else if (p.name == "kvm_page_fault" || p.name == "kvm_guest_fault") {
      EXPECT_EQ(detail.kind, DetailKind::kPageFault);
    }
  }
  void operator()(const KvmNested& nested) const {
    const bool enters = p.name == "kvm_nested_vmenter" || p.name == "kvm_nested_vmrun";
    EXPECT_EQ(nested.step, enters                          ? NestedStep::kEnter
                           : p.name == "kvm_nested_vmexit" ? NestedStep::kExit
                                                           : NestedStep::kPassOn);
  }
  void operator()(const KvmVcpuWakeup& wakeup) const {
    EXPECT_EQ(wakeup.ns, p.number("ns"));
    EXPECT_EQ(wakeup.waited, p.number("waited") != 0);
    EXPECT_EQ(wakeup.valid, p.number("valid") != 0);
  }
  void operator()(const KvmHaltPoll& poll) const {
    EXPECT_EQ(poll.now, p.as<std::uint32_t>("new"));
    EXPECT_EQ(poll.before, p.as<std::uint32_t>("old"));
  }
  void operator()(const KvmIrq& irq) const {
    switch (irq.step) {
      case IrqStep::kLine:
        EXPECT_EQ(irq.pin, p.as<std::uint32_t>(p.name == "kvm_set_irq" ? "gsi" : "irq_num"));
        EXPECT_EQ(irq.level, p.number("level") != 0);
        break;
      case IrqStep::kMsi:
        EXPECT_EQ(irq.vector, p.number("data") & 0xff);
        break;
      case IrqStep::kRoute:
        EXPECT_EQ(irq.pin, p.as<std::uint32_t>("pin"));
        break;
      case IrqStep::kAccept:
        EXPECT_EQ(irq.vector, p.as<std::uint32_t>("vec"));
        EXPECT_EQ(irq.vcpu, p.as<std::int32_t>("apicid"));
        break;
      case IrqStep::kInject:
        EXPECT_EQ(irq.vector, p.as<std::uint32_t>(p.fields.contains("irq") ? "irq" : "vector"));
        break;
      case IrqStep::kEoi:
        EXPECT_EQ(irq.vector, p.as<std::uint32_t>("vector"));
        EXPECT_EQ(irq.vcpu, p.as<std::int32_t>("apicid"));
        break;
      case IrqStep::kPending:
        EXPECT_EQ(irq.pin, p.as<std::uint32_t>("irq"));
        EXPECT_EQ(irq.level, p.number("level") != 0);
        break;
      case IrqStep::kPic:
        EXPECT_EQ(irq.pin, p.as<std::uint32_t>("chip") * 8 + p.as<std::uint32_t>("pin"));
        break;
      case IrqStep::kPicEnd:
        EXPECT_EQ(irq.pin % 8, p.as<std::uint32_t>("pin") % 8);
        break;
    }
  }
  void operator()(const SchedSwitch& sched) const {
    EXPECT_EQ(static_cast<std::int32_t>(sched.prev), p.as<std::int32_t>("prev_pid"));
    EXPECT_EQ(static_cast<std::int32_t>(sched.next), p.as<std::int32_t>("next_pid"));
    EXPECT_EQ(sched.runnable, (p.number("prev_state") & 0xff) == 0);
    EXPECT_THAT(p.rest, ::testing::HasSubstr("next_comm=" + std::string(sched.next_comm)));
  }
  void operator()(const SchedWakeup& wakeup) const {
    EXPECT_EQ(static_cast<std::int32_t>(wakeup.thread), p.as<std::int32_t>("pid"));
    EXPECT_EQ(wakeup.cpu, p.as<std::int32_t>("target_cpu"));
    EXPECT_EQ(wakeup.waking, p.name == "sched_waking");
    EXPECT_NE(wakeup.context, SchedWakeup::Context::kUnknown);
  }
  void operator()(const HostEvent& host) const {
    if (host.step == HostStep::kMigrate) {
      EXPECT_EQ(host.thread, p.as<std::int32_t>("pid"));
      EXPECT_EQ(host.number, p.as<std::int32_t>("dest_cpu"));
    } else if (host.step == HostStep::kIrqBegin || host.step == HostStep::kIrqEnd) {
      EXPECT_EQ(host.number, p.as<std::int32_t>("irq"));
    } else if (host.step == HostStep::kFutex) {
      EXPECT_EQ(host.address, p.number("uaddr"));
      EXPECT_EQ(host.call, p.number("op"));
    }
  }
  void operator()(const BlockIo& block) const {
    EXPECT_EQ(block.device, p.as<std::uint32_t>("dev"));
    EXPECT_EQ(block.sector, p.number("sector"));
    EXPECT_EQ(block.sectors, p.as<std::uint32_t>("nr_sector"));
    EXPECT_EQ(block.read, p.rest.find(" rwbs=R") != std::string::npos);
    EXPECT_EQ(block.write, p.rest.find(" rwbs=W") != std::string::npos ||
                               p.rest.find(" rwbs=FW") != std::string::npos);
  }
  void operator()(const IoctlEnter& ioctl) const {
    EXPECT_EQ(ioctl.command, p.as<std::uint32_t>("cmd"));
  }
  void operator()(const NewThread& thread) const {
    EXPECT_THAT(p.rest, ::testing::HasSubstr(
                            "pid=" + std::to_string(static_cast<std::int32_t>(thread.child))));
  }
  void operator()(const Marker& marker) const {
    EXPECT_EQ(printable(trimmed(marker.text)), p.rest.substr(p.rest.find(" buf=") + 5));
  }
  void operator()(const auto&) const {}

 private:
  void check_riscv(const KvmExit& exit) const {
    const std::uint64_t cause = p.number("scause"), tval = p.number("stval");
    EXPECT_EQ(exit.isa, kIsaRiscv);
    EXPECT_EQ(exit.rip, p.number("sepc"));
    EXPECT_EQ(exit.vcpu, kNoVcpu);
    EXPECT_EQ(exit.reason & 0xff, cause & 0xff);
    EXPECT_EQ((exit.reason & kRiscvInterrupt) != 0, cause >> 63 != 0);
    EXPECT_EQ(exit.exception_class == kRiscvWfi, cause == 22 && tval == 0x10500073);
    if (exit.fault_address != KvmExit::kNoAddress) {
      EXPECT_EQ(exit.fault_address, p.number("htval") * 4 + tval % 4);
    }
  }
  [[nodiscard]] std::uint64_t value() const {
    if (p.name == "kvm_pio") return p.number("port");
    if (p.name == "kvm_mmio" || p.name == "kvm_fast_mmio") return p.number("gpa");
    if (p.name == "kvm_msr") return p.hex("ecx");
    if (p.name == "kvm_cr") return p.number("cr");
    if (p.name == "kvm_cpuid") return p.hex("function");
    if (p.name == "kvm_page_fault") return p.hex("fault_address");
    if (p.name == "kvm_guest_fault") return p.number("ipa");
    if (p.name == "kvm_hypercall") return p.number("nr");
    if (p.name == "kvm_hvc_arm64") return p.number("r0");
    if (p.name == "kvm_sys_access") {
      return (p.number("Op0") << 14) | (p.number("Op1") << 11) | (p.number("CRn") << 7) |
             (p.number("CRm") << 3) | p.number("Op2");
    }
    ADD_FAILURE() << "no check for " << p.name;
    return 0;
  }
  const Printed& p;
  bool arm, riscv;
};

// The events that must be seen decoded at least once, by recording; of others, none must.
const std::map<std::string, std::vector<std::string>> kMustHave = {
    {"box/demo-ioctl.dat",
     {"kvm_exit", "kvm_entry", "kvm_userspace_exit", "kvm_fpu", "kvm_pio", "kvm_mmio", "kvm_msr",
      "kvm_cpuid", "kvm_page_fault", "sched_switch", "sched_waking", "sys_enter_ioctl", "print"}},
    {"box/linux-irq.dat",
     {"kvm_set_irq", "kvm_msi_set_irq", "kvm_ioapic_set_irq", "kvm_apic_accept_irq", "kvm_inj_virq",
      "kvm_eoi", "kvm_vcpu_wakeup", "kvm_halt_poll_ns"}},
    {"arm64/kvm-arm64-linux.dat",
     {"kvm_exit", "kvm_entry", "kvm_get_timer_map", "kvm_mmio", "kvm_guest_fault", "kvm_sys_access",
      "kvm_hvc_arm64", "kvm_irq_line", "vgic_update_irq_pending"}},
    {"box/demo-backports.dat", {"kvm_exit", "kvm_pio", "sys_enter_ioctl", "sched_switch"}},
    {"box/two-vms.dat", {"kvm_exit", "task_newtask"}},
    {"vmx/demo.dat",
     {"kvm_exit", "kvm_pio", "kvm_mmio", "kvm_msr", "kvm_cpuid", "kvm_page_fault", "kvm_cr"}},
    {"nested/svm.dat",
     {"kvm_nested_vmenter", "kvm_nested_vmexit", "kvm_nested_vmexit_inject",
      "kvm_nested_intr_vmexit"}},
    {"riscv64/linux.dat", {"kvm_exit", "kvm_entry", "kvm_vcpu_wakeup", "print"}},
    {"kernels/demo-5.10.dat", {"kvm_exit", "kvm_page_fault", "kvm_inj_virq"}},
    {"../merge/planted/lock.dat",
     {"sched_waking", "sched_wakeup", "sys_enter_futex", "hrtimer_expire_entry",
      "hrtimer_expire_exit"}},
    {"../merge/planted/disk.dat",
     {"block_rq_issue", "block_rq_complete", "irq_handler_entry", "irq_handler_exit"}},
    {"../merge/requests/blk-threads.dat",
     {"block_bio_queue", "block_rq_issue", "block_rq_complete"}},
};

class Decoders : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(, Decoders, ::testing::ValuesIn([] {
                           std::vector<std::string> names = trapline::test::recordings();
                           for (const auto& [name, events] : kMustHave)
                             if (name.starts_with("..")) names.push_back(name);
                           return names;
                         }()),
                         trapline::test::test_name);

TEST_P(Decoders, EventsLossesAndFieldsAreThoseThatTraceCmdPrints) {
  const std::string path = trapline::test::data_path(GetParam());
  auto source = open_trace_dat(path, {});
  ASSERT_TRUE(source) << source.error().message;
  const bool arm = (*source)->reasons().arm64_class.empty() == false;
  const std::string text =
      trapline::test::output_of("trace-cmd report -t -R -N " + path + " 2>/dev/null");
  std::set<std::string> decoded;
  std::map<std::string, std::uint64_t> counts, counted;
  std::uint64_t events = 0, gaps = 0, uncounted = 0, lost = 0;
  Event event;
  for (std::string_view rest = text; !rest.empty();) {
    const std::string_view line = take_line(rest);
    if (line.starts_with("CPU:")) {  // "CPU:0 [260 EVENTS DROPPED]", or without a number
      const std::string_view words = line.substr(line.find('[') + 1);
      const std::uint64_t loss = parse_number(words.substr(0, words.find(' '))).value_or(0);
      ++gaps;
      uncounted += loss == 0 ? 1 : 0;
      lost += loss;
      continue;
    }
    const auto printed = parse(line);
    if (!printed) continue;
    do {
      ASSERT_EQ((*source)->next(event), Read::kEvent) << line;
    } while (std::holds_alternative<Lost>(event.payload));
    const std::string name = (*source)->event_name(event);
    ASSERT_EQ(std::tuple(event.at.ns(), event.cpu, tid_of(event.thread)),
              std::tuple(printed->at, printed->cpu, printed->thread))
        << line;
    ASSERT_EQ(name.substr(name.find(':') + 1), printed->name) << line;
    std::visit(Check(*printed, arm), event.payload);
    if (!std::holds_alternative<Other>(event.payload)) decoded.insert(printed->name);
    if (HasFailure()) FAIL() << line;
    ++counts[printed->name];
    ++events;
  }
  while ((*source)->next(event) == Read::kEvent) FAIL() << "more events than trace-cmd prints";
  EXPECT_TRUE((*source)->status());
  for (const auto& [name, count] : (*source)->event_counts())
    counted[name.substr(name.find(':') + 1)] += count;
  EXPECT_EQ(counted, counts);
  const SourceCounters counters = (*source)->counters();
  EXPECT_EQ(counters.events, events);
  EXPECT_EQ(counters.gaps, gaps);
  EXPECT_EQ(counters.gaps_uncounted, uncounted);
  EXPECT_EQ(counters.lost_events, lost);
  EXPECT_EQ(counters.damaged_events, 0u);
  if (const auto must = kMustHave.find(GetParam()); must != kMustHave.end())
    for (const std::string& name : must->second) EXPECT_TRUE(decoded.contains(name)) << name;
}

}  // namespace
}  // namespace trapline::trace_dat
