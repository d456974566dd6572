#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "merge/session/open.h"
#include "merge/source/open_recording.h"
#include "merge/source/trace_text/reason_numbers.h"
#include "merge/source/trace_text/text_events.h"
#include "merge/source/trace_text/text_fields.h"
#include "merge/source/trace_text/text_lines.h"
#include "tests/support/open_by_path.h"
#include "tests/support/temporary_folder.h"

namespace trapline::trace_text {
namespace {

using test::TemporaryFolder;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Kind = TextLine::Kind;

TEST(TextLine, EachToolsFormIsReadAlike) {
  for (const char* text : {
           " qemu-system-x86-101   [000]     6.792201: kvm_exit:             reason HLT rip 0x10",
           "host:  qemu-system-x86-101   [000]     6.792201: kvm_exit: reason HLT rip 0x10",
           " qemu-system-x86-101     [000] d..1.     6.792201: kvm_exit: reason HLT rip 0x10\r",
           " qemu-system-x86-101     (     99) [000] d..1     6.792201: kvm_exit: reason HLT rip "
           "0x10",
           " qemu-system-x86-101     (-------) [000] .....     6.792201: kvm_exit: reason HLT rip "
           "0x10",
           "qemu-system-x86   101 [000]     6.792201: kvm:kvm_exit: reason HLT rip 0x10",
           "qemu-system-x86    99/101   [000]     6.792201:   kvm:kvm_exit: reason HLT rip 0x10",
           "qemu-system-x86   101 [000]     6.792201:          1 kvm:kvm_exit: reason HLT rip 0x10",
           "> >> qemu-system-x86-101   [000]     6.792201: kvm_exit: reason HLT rip 0x10",
       }) {
    const TextLine line = parse_text_line(text);
    ASSERT_EQ(line.kind, Kind::kEvent) << text;
    EXPECT_EQ(line.comm, "qemu-system-x86") << text;
    EXPECT_EQ(line.thread, 101) << text;
    EXPECT_EQ(line.cpu, 0u) << text;
    EXPECT_EQ(line.at, 6'792'201'000u) << text;
    EXPECT_EQ(line.digits, 6) << text;
    EXPECT_TRUE(line.name == "kvm_exit" || line.name == "kvm:kvm_exit") << text;
    EXPECT_EQ(line.text, "reason HLT rip 0x10") << text;
  }
}

TEST(TextLine, NamesOfThreadsMayHoldWhatLinesAreMadeOf) {
  const TextLine slash = parse_text_line("CPU 0/KVM-137   [001] 37.215746123: sched_switch: x");
  EXPECT_EQ(slash.comm, "CPU 0/KVM");
  EXPECT_EQ(slash.thread, 137);
  EXPECT_EQ(slash.at, 37'215'746'123u);
  const TextLine perf = parse_text_line("CPU 0/KVM  130/137   [001] 37.215746: kvm:kvm_entry: x");
  EXPECT_EQ(perf.comm, "CPU 0/KVM");
  EXPECT_EQ(perf.thread, 137);
  const TextLine brackets = parse_text_line("a[1] b-7 [002] d.h2. 1.5: irq_handler_entry: irq=4");
  EXPECT_EQ(brackets.comm, "a[1] b");
  EXPECT_EQ(brackets.level, 'h');
  EXPECT_EQ(brackets.at, 1'500'000'000u);
}

TEST(TextLine, CyclesHaveNoFraction) {
  const TextLine line = parse_text_line("qemu-1 [000] 18446744073709551615: kvm_entry: vcpu 0");
  ASSERT_EQ(line.kind, Kind::kEvent);
  EXPECT_EQ(line.digits, 0);
  EXPECT_EQ(line.at, ~std::uint64_t{0});
}

TEST(TextLine, LossesOfTheKernelAndOfTraceCmd) {
  for (const char* text :
       {"CPU:3 [LOST 12 EVENTS]", "CPU:3 [12 EVENTS DROPPED]", "> CPU:3 [LOST 12 EVENTS]"}) {
    const TextLine line = parse_text_line(text);
    ASSERT_EQ(line.kind, Kind::kLoss) << text;
    EXPECT_EQ(line.cpu, 3u);
    EXPECT_EQ(line.count, 12u);
  }
  for (const char* text : {"CPU:3 [LOST EVENTS]", "CPU:3 [EVENTS DROPPED]"}) {
    EXPECT_EQ(parse_text_line(text).kind, Kind::kLoss) << text;
    EXPECT_EQ(parse_text_line(text).count, 0u) << text;
  }
}

TEST(TextLine, WhatIsNoEventIsAHeadingOrIsNotOfATrace) {
  for (const char* text : {"", "# tracer: nop", "cpus=4", "CPU 3 is empty", ">", "> # entries"})
    EXPECT_EQ(parse_text_line(text).kind, Kind::kHeading) << text;
  for (const char* text :
       {"Hi all,", "qemu-1 [000] 1.2", "qemu-1 [000] 1.: x: y", "qemu-1 [000] 1.0123456789: x: y",
        "qemu [000] 1.2: x: y", "-1 [000] 1.2: x: y", "qemu-99999999999 [000] 1.2: x: y",
        "qemu-1 [99999999] 1.2: x: y", "CPU:x [LOST 1 EVENTS]", "CPU:1 [LOST 1 EVENTS",
        "CPU:1 [LOST 99999999999999999999 EVENTS]"})
    EXPECT_EQ(parse_text_line(text).kind, Kind::kOther) << text;
  EXPECT_EQ(parse_text_line("a-1 [000] 1.2: x: " + std::string(kLongestTraceLine, 'y')).kind,
            Kind::kOther);
}

// ---- fields

template <typename T>
T payload_of(std::string_view event, std::string_view text) {
  TextFields fields;
  TextValues values(*events::find(event));
  Payload payload;
  EXPECT_TRUE(fields.read(text, values)) << text;
  values.decode(payload);
  const T* found = std::get_if<T>(&payload);
  EXPECT_NE(found, nullptr) << text;
  return found == nullptr ? T{} : *found;
}

TEST(TextFields, ExitsOfEachArchitectureAndTool) {
  struct {
    const char* text;
    std::uint32_t isa, reason;
    std::int32_t vcpu;
  } const cases[] = {
      {"vcpu 1 reason EPT_MISCONFIG rip 0xfff0 info1 0x0 info2 0x0", 1, 49, 1},
      {"reason EPT_MISCONFIG rip 0xfff0 info 0 0", 1, 49, kNoVcpu},
      {"reason EPT_VIOLATION FAILED_VMENTRY rip 0xfff0 info 0 0", 1, 0x80000030, kNoVcpu},
      {"vcpu 0 reason npf rip 0xfff0 info1 0x0", 2, 0x400, 0},
      {"reason EXIT_NPF rip 0xfff0 info 100000014 fffffff0", 2, 0x400, kNoVcpu},
      {"reason EXIT_IOIO rip 0xfff0 info 0 0", 2, 0x7b, kNoVcpu},
      {"reason EXIT_EXCP_PF rip 0xfff0 info 0 0", 2, 0x4e, kNoVcpu},
      {"vcpu 3 reason PF excp rip 0xfff0 info1 0x0", 2, 0x4e, 3},
      {"reason UNKNOWN (79) rip 0xfff0 info 0 0", 1, 79, kNoVcpu},
      {"exit_reason=1024 guest_rip=0xfff0 isa=2 info1=0x0 vcpu_id=5", 2, 1024, 5},
  };
  for (const auto& one : cases) {
    const auto exit = payload_of<KvmExit>("kvm:kvm_exit", one.text);
    EXPECT_EQ(exit.isa, one.isa) << one.text;
    EXPECT_EQ(exit.reason, one.reason) << one.text;
    EXPECT_EQ(exit.vcpu, one.vcpu) << one.text;
    EXPECT_EQ(exit.rip, 0xfff0u) << one.text;
  }
  const auto arm = payload_of<KvmExit>("kvm:kvm_exit", "TRAP: HSR_EC: 0x0024 (DABT_LOW), PC: 0x40");
  EXPECT_EQ(arm.isa, kIsaArm64);
  EXPECT_EQ(arm.reason, 2u);
  EXPECT_EQ(arm.exception_class, 0x24u);
  EXPECT_EQ(arm.rip, 0x40u);
  const auto riscv = payload_of<KvmExit>(
      "kvm:kvm_exit", "SEPC:0x40, SCAUSE:0x17, STVAL:0x3, HTVAL:0x4000, HTINST:0x0");
  EXPECT_EQ(riscv.isa, kIsaRiscv);
  EXPECT_EQ(riscv.fault_address, 0x10003u);
}

TEST(TextFields, ANewReasonHasItsOwnNumber) {
  TextFields fields;
  Payload payload;
  for (const char* name : {"SEAMCALL", "TDCALL2", "SEAMCALL"}) {
    TextValues values(events::kvm_exit);
    ASSERT_TRUE(fields.read(fmt::format("reason {} rip 0x0 info 0 0", name), values));
    values.decode(payload);
    const auto& exit = std::get<KvmExit>(payload);
    EXPECT_EQ(fields.reasons().of({exit.reason, exit.isa}), name);
  }
}

TEST(TextFields, DetailsOfTheKernelsFormatAndRaw) {
  for (const char* text :
       {"pio_write at 0x70 size 1 count 1 val 0x8f", "rw=1 port=0x70 size=1 count=1 val=0x8f"}) {
    const auto pio = payload_of<KvmDetail>("kvm:kvm_pio", text);
    EXPECT_EQ(pio.value, 0x70u);
    EXPECT_EQ(pio.data, 0x8fu);
    EXPECT_EQ(pio.access, Access::kWrite);
  }
  const auto mmio =
      payload_of<KvmDetail>("kvm:kvm_mmio", "mmio unsatisfied-read len 4 gpa 0xfee0 val 0x0");
  EXPECT_TRUE(mmio.unsatisfied);
  EXPECT_EQ(mmio.value, 0xfee0u);
  for (const char* text :
       {"msr_write 4b564d01 = 0xe8381", "write=1 ecx=4b564d01 data=0xe8381 exception=0"})
    EXPECT_EQ(payload_of<KvmDetail>("kvm:kvm_msr", text).value, 0x4b564d01u) << text;
  for (const char* text : {"address fffffff0 error_code 14",
                           "vcpu 0 rip 0x1 address 0x00000000fffffff0 error_code 0x14",
                           "fault_address=fffffff0 error_code=14"})
    EXPECT_EQ(payload_of<KvmDetail>("kvm:kvm_page_fault", text).value, 0xfffffff0u) << text;
  const auto register_access =
      payload_of<KvmDetail>("kvm:kvm_sys_access", "PC: 40dd SYS_X (3,0,1,2,4) write");
  EXPECT_EQ(register_access.value, 3u << 14 | 1u << 7 | 2u << 3 | 4u);
  EXPECT_EQ(register_access.access, Access::kWrite);
}

TEST(TextFields, AnEntryWithoutAVcpuHasNoneWhateverTheToolSaysOfIt) {
  for (const char* text : {"CAN'T FIND FIELD \"vcpu_id\"<CANT FIND FIELD rip>PC: 0xffff8000",
                           "PC: 0xffff8000", "vcpu ?, rip 0x1"})
    EXPECT_EQ(payload_of<KvmEntry>("kvm:kvm_entry", text).vcpu, kNoVcpu) << text;
  EXPECT_EQ(payload_of<KvmEntry>("kvm:kvm_entry", "vcpu 3, rip 0x1").vcpu, 3);
}

TEST(TextFields, BlanksMayBeDoubledAndAUnitCut) {
  const auto raised =
      payload_of<KvmIrq>("kvm:vgic_update_irq_pending", "VCPU: 0,  IRQ 33,  level: 1");
  EXPECT_TRUE(raised.level);
  EXPECT_EQ(payload_of<KvmVcpuWakeup>("kvm:kvm_vcpu_wakeup", "wait time 52340 n").ns, 52340u);
}

TEST(TextFields, SwitchesOfTheKernelAndOfTraceCmd) {
  for (const char* text : {"prev_comm=a b prev_pid=101 prev_prio=120 prev_state=R+ ==> "
                           "next_comm=k/0:2 next_pid=15 next_prio=98",
                           "a b:101 [120] R ==> k/0:2:15 [98]",
                           "prev_comm=a b prev_pid=101 prev_prio=120 prev_state=256 "
                           "next_comm=k/0:2 next_pid=15 next_prio=98"}) {
    const auto sched = payload_of<SchedSwitch>("sched:sched_switch", text);
    EXPECT_EQ(sched.prev, ThreadId{101}) << text;
    EXPECT_EQ(sched.next, ThreadId{15}) << text;
    EXPECT_TRUE(sched.runnable) << text;
    EXPECT_EQ(sched.next_comm, "k/0:2") << text;
    EXPECT_TRUE(sched.fair) << text;
  }
  EXPECT_FALSE(payload_of<SchedSwitch>("sched:sched_switch", "a:1 [120] S ==> b:2 [120]").runnable);
  EXPECT_EQ(payload_of<SchedSwitch>("sched:sched_switch", "a:1 [120] T ==> b:2 [120]").left,
            SchedSwitch::Left::kStopped);
}

// The next thread of a switch that is read from a line, and how many were unreadable.
std::pair<std::int32_t, std::uint64_t> next_of(const std::string& line) {
  TextEvents all;
  const TextLine parsed = parse_text_line(line);
  EXPECT_EQ(parsed.kind, Kind::kEvent) << line;
  Event event;
  const bool read = all.decode(parsed, all.type_of(parsed), event) != TextEvents::Fit::kNone;
  const auto* sched = std::get_if<SchedSwitch>(&event.payload);
  EXPECT_EQ(read, sched != nullptr) << line;
  if (sched == nullptr) return {-1, 1};
  EXPECT_EQ(static_cast<std::int32_t>(sched->prev), parsed.thread) << line;
  return {static_cast<std::int32_t>(sched->next), 0};
}

TEST(TextFields, ANameThatLooksLikeASwitchIsToldByTheLinesThread) {
  const std::string list = " prev_prio=120 prev_state=R ==> next_comm=";
  for (const std::string& line :
       {std::string("hog-50 [000] 1.5: sched_switch: hog:50 [120] R ==> x:1 [1] R ==> y:77 [120]"),
        std::string("x:1 [1] R ==> y-50 [000] 1.5: sched_switch: "
                    "x:1 [1] R ==> y:50 [120] S ==> hog:77 [120]"),
        std::string("x:1 [1] R ==> y-50 [000] d..2. 1.5: sched_switch: "
                    "x:1 [1] R ==> y:50 [120] S ==> x:1 [1] R ==> y:77 [120]"),
        // Also where the name has the line's thread.
        std::string("hog-5 [000] 1.5: sched_switch: hog:5 [120] R ==> x:5 [1] R ==> y:77 [-1]"),
        "a-5 [000] 1.5: sched_switch: prev_comm=a prev_pid=5" + list +
            "b prev_pid=1 next_pid=77 next_prio=120",
        " next_comm=a-5 [000] 1.5: sched_switch: prev_comm= next_comm=a prev_pid=5" + list +
            "b next_pid=1 next_pid=77 next_prio=120"})
    EXPECT_EQ(next_of(line).first, 77) << line;
  // Of a process in a container perf has another thread id than the text.
  EXPECT_EQ(payload_of<SchedSwitch>("sched:sched_switch", "a:4 [120] S ==> b:77 [120]").next,
            ThreadId{77});
}

TEST(TextFields, ASwitchThatIsCutOrReadsInTwoWaysIsNone) {
  for (const char* line :
       {"hog-50 [000] 1.5: sched_switch: hog:50 [120] R ==> x:1 [1] R ==> y",
        "hog-50 [000] 1.5: sched_switch: hog:50 [120] R ==> x:1 [1",
        "hog-50 [000] 1.5: sched_switch: prev_comm=hog prev_pid=50 prev_prio=120 prev_state=R ==> "
        "next_comm=a next_pid=1",
        "<...>-9 [000] 1.5: sched_switch: h:5 [1] R ==> x:6 [1] R ==> y:77 [120]",
        "<...>-5 [000] 1.5: sched_switch: h:5 [1] R ==> x:5 [1] R ==> y:77 [120]"})
    EXPECT_EQ(next_of(line).second, 1u) << line;
}

TEST(TextFields, AWakeupIsReadFromItsEnd) {
  const auto wakeup =
      payload_of<SchedWakeup>("sched:sched_wakeup", "x:1 [1] CPU:3:77 [120] CPU:001");
  EXPECT_EQ(wakeup.thread, ThreadId{77});
  EXPECT_EQ(payload_of<SchedWakeup>("sched:sched_wakeup", "a b:77 [120] success=1 CPU:001").thread,
            ThreadId{77});
}

TEST(TextFields, ReasonsAreThoseOfTheKernel) {
  const kernel_events::ReasonNames names = kernels_reason_names();
  EXPECT_EQ(names.of({12, kIsaVmx}), "HLT");
  EXPECT_EQ(names.of({0x78, kIsaSvm}), "hlt");
  EXPECT_EQ(names.of({2, ExitReason::kIsaUserspace}), "KVM_EXIT_IO");
  for (const auto& [number, name] : names.vmx) EXPECT_EQ(x86_reason(name)->reason, number) << name;
  for (const auto& [number, name] : names.svm) EXPECT_EQ(x86_reason(name)->reason, number) << name;
}

// ---- the source

struct ReadText {
  std::vector<Event> events;
  std::vector<std::string> notes, texts;
  SourceCounters counters;
  std::optional<std::uint64_t> resolution_ns;
  bool cycles = false;
};
ReadText read(const std::string& text, const std::string& unit = "") {
  TemporaryFolder folder;
  const std::string path = folder / "trace.txt";
  std::ofstream(path) << text;
  EXPECT_EQ(kind_of_source(path), SourceKind::kTraceText);
  auto source = open_source(path, {.unit = unit});
  EXPECT_TRUE(source) << source.error().message;
  ReadText all;
  Event event;
  while ((*source)->next(event) == Read::kEvent) {
    all.texts.push_back((*source)->event_name(event) + " " + (*source)->event_text(event));
    event.raw = {};
    all.events.push_back(event);
  }
  EXPECT_TRUE((*source)->status());
  for (const auto& [what, value] : (*source)->facts())
    if (what == "note") all.notes.push_back(value);
  all.counters = (*source)->counters();
  all.resolution_ns = (*source)->info().resolution_ns;
  all.cycles = (*source)->info().cycles;
  return all;
}

TEST(TraceText, AQuotedAndWrappedTraceIsReadWithACountOfTheRest) {
  const ReadText all = read(
      "Hi all,\n"
      "this is what I see [1]:\n"
      "\n"
      "> # tracer: nop\n"
      "> qemu-1 [003] d..1. 5.678901: kvm_exit: vcpu 0 reason\n"
      "> EPT_MISCONFIG rip 0xfff0 info1 0x0\n"
      "> qemu-1 [003] d..1. 5.678905: kvm_mmio: mmio write len 4 gpa 0xfee0 val 0x0\n"
      ">> qemu-1 [003] d..1. 5.678921: kvm_entry: vcpu 0, rip 0xfff0\n"
      "> qemu-1 [003] d..1. 5.678931: kvm_exit: vcpu 0 rea\n"
      "What do you think?\n");
  ASSERT_EQ(all.events.size(), 4u);
  EXPECT_EQ(std::get<KvmExit>(all.events[0].payload).reason, 49u);
  EXPECT_TRUE(std::holds_alternative<KvmEntry>(all.events[2].payload));
  EXPECT_TRUE(std::holds_alternative<Other>(all.events[3].payload));
  EXPECT_EQ(all.counters.damaged_events, 1u);
  EXPECT_THAT(all.notes,
              ElementsAre(HasSubstr("± 1000 ns"), HasSubstr("3 lines are not of a trace"),
                          HasSubstr("1 event was read from wrapped lines")));
}

TEST(TraceText, ALossIsToldWhenTheLastEventBeforeItIs) {
  const ReadText all = read(
      "a-1 [000] 1.000000001: kvm_entry: vcpu 0\n"
      "a-2 [001] 1.000000002: kvm_entry: vcpu 1\n"
      "a-1 [000] 1.000000003: kvm_fpu: load\n"
      "CPU:1 [LOST 7 EVENTS]\n"
      "a-2 [001] 1.000000004: kvm_fpu: load\n"
      "CPU:0 [EVENTS DROPPED]\n");
  ASSERT_EQ(all.events.size(), 6u);
  const auto& first = std::get<Lost>(all.events[2].payload);
  EXPECT_EQ(first.from.ns(), 1'000'000'002u);
  EXPECT_EQ(first.to.ns(), 1'000'000'004u);
  EXPECT_EQ(first.count, 7u);
  EXPECT_EQ(all.events[2].cpu, 1u);
  EXPECT_EQ(std::get<Lost>(all.events[4].payload).count, 0u);
  EXPECT_EQ(all.counters.lost_events, 7u);
  EXPECT_EQ(all.counters.gaps, 2u);
  EXPECT_EQ(all.counters.gaps_uncounted, 1u);
  EXPECT_TRUE(all.notes.empty());
}

TEST(TraceText, LossesThatHaveNoSumAreTheLargestNumber) {
  const std::string half = "CPU:0 [LOST 9223372036854775808 EVENTS]\n";
  const std::string exit = "a-1 [000] 1.000000001: kvm_entry: vcpu 0\n";
  for (const std::string& text : {exit + half + half + exit, exit + half + exit + half + exit}) {
    EXPECT_EQ(read(text).counters.lost_events, UINT64_MAX) << text;
  }
}

TEST(TraceText, MarkersOfEachForm) {
  const ReadText all = read(
      "a-1 [000] 1.000001: print: tracing_mark_write: kvm_run_exit cpu_index 0, reason 2\n"
      "a-1 [000] 1.000002: print: 0xffffffff810b: kvm_run_exit cpu_index 0, reason 2\n"
      "a-1 [000] 1.000003: print: ip=tracing_mark_write buf=kvm_run_exit cpu_index 0, reason 2\n"
      "a-1 [000] .... 1.000004: tracing_mark_write: kvm_run_exit cpu_index 0, reason 2\n");
  ASSERT_EQ(all.texts.size(), 4u);
  for (const std::string& text : all.texts)
    EXPECT_EQ(text, "ftrace:print kvm_run_exit cpu_index 0, reason 2");
}

TEST(TraceText, ResolutionIsThatOfTheFormAndMissingWhereTimesAreExact) {
  EXPECT_EQ(read("a-1 [000] .... 1.000001: kvm_entry: vcpu 0\n").resolution_ns, 1000u);
  EXPECT_EQ(read("a-1 [000] .... 1.000000001: kvm_entry: vcpu 0\n").resolution_ns, std::nullopt);
}

TEST(TraceText, WholeNumbersAreWhatTheUserOrALineOfTheClockSays) {
  const std::string event = "a-1 [000] 1000001: kvm_entry: vcpu 0\n";
  for (const std::string& text :
       {event + "# clock: boot\n", "trace_clock: mono\n" + event,
        "# trace_clock: local global counter [boot] x86-tsc\r\n" + event}) {
    const ReadText all = read(text);
    EXPECT_FALSE(all.cycles) << text;
    EXPECT_EQ(all.resolution_ns, std::nullopt) << text;
    EXPECT_EQ(all.events.front().at.ns(), 1'000'001u) << text;
  }
  EXPECT_FALSE(read(event, "ns").cycles);
  EXPECT_TRUE(read(event, "cycles").cycles);
  EXPECT_TRUE(read("# clock: x86-tsc\n" + event).cycles);
  EXPECT_FALSE(read("a-1 [000] 1.000001: kvm_entry: vcpu 0\n", "cycles").cycles);
}

TEST(TraceText, WholeNumbersOfWhichNothingSaysTheUnitAreAskedFor) {
  TemporaryFolder folder;
  const std::string path = folder / "trace.txt";
  for (const char* clock : {"", "# clock: uptime\n", "the clock: boot\n"}) {
    std::ofstream(path) << clock << "a-1 [000] 1000001: kvm_entry: vcpu 0\n";
    const auto source = open_source(path, {});
    ASSERT_FALSE(source) << clock;
    EXPECT_EQ(source.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(source.error().message, HasSubstr("--unit ns"));
  }
}

TEST(TraceText, ATextThatWasPastedTwiceIsReadOnce) {
  const std::string header = "# tracer: nop\n#\n";
  const std::string events =
      "a-1 [000] 1.000001: kvm_entry: vcpu 0\n"
      "a-1 [000] 1.000001: kvm_fpu: load\n"
      "CPU:0 [LOST 7 EVENTS]\n"
      "a-1 [000] 1.000003: kvm_fpu: unload\n";
  for (const auto& [text, repeated] :
       {std::pair{events + events, 3}, std::pair{header + events + "Again:\n" + header + events, 3},
        std::pair{events + events + events, 6}, std::pair{events + events.substr(0, 60), 2}}) {
    const ReadText all = read(text);
    EXPECT_EQ(all.events.size(), 4u) << text;
    EXPECT_EQ(all.counters.events, 3u) << text;
    EXPECT_EQ(all.counters.lost_events, 7u) << text;
    EXPECT_THAT(all.notes, Contains(HasSubstr(fmt::format("{} events repeat", repeated)))) << text;
  }
}

TEST(TraceText, OtherTracesBehindEachOtherAreReadWhole) {
  const std::string first = "a-1 [000] 1.000001: kvm_entry: vcpu 0\n",
                    second = "a-1 [000] 1.000002: kvm_fpu: load\n";
  // The same line at one time, twice; what follows differs; another trace.
  for (const std::string& text :
       {first + first, first + first + second,
        first + second + first + "a-1 [000] 1.000003: x: y\n",
        first + second + "a-1 [000] 1.000001: kvm_entry: vcpu 1\n" + second}) {
    const ReadText all = read(text);
    EXPECT_EQ(all.events.size(), static_cast<std::size_t>(std::ranges::count(text, '\n'))) << text;
    EXPECT_THAT(all.notes, Not(Contains(HasSubstr("repeat")))) << text;
  }
}

// So many exits of 1 ms from `second` on, each with its entry.
std::string exits_from(int second, int count = 10) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format(
        "a-1 [000] {0}.{1:03}000: kvm_exit: vcpu 0 reason HLT rip 0x1\n"
        "a-1 [000] {0}.{1:03}900: kvm_entry: vcpu 0\n",
        second, i);
  return text;
}
std::size_t losses_of(const ReadText& all) {
  return static_cast<std::size_t>(std::ranges::count_if(
      all.events, [](const Event& event) { return std::holds_alternative<Lost>(event.payload); }));
}

TEST(TraceText, BetweenTwoExcerptsIsALoss) {
  for (const char* between : {"and later:\n", "...\n", "\n", "[...]\n", "# tracer: nop\n"}) {
    const ReadText all = read(exits_from(5) + between + exits_from(700));
    ASSERT_EQ(losses_of(all), 1u) << between;
    const auto& lost = std::get<Lost>(all.events[20].payload);
    EXPECT_EQ(lost.from.ns(), 5'009'900'000u) << between;
    EXPECT_EQ(lost.to.ns(), 700'000'000'000u) << between;
    EXPECT_EQ(all.counters.gaps_uncounted, 1u) << between;
  }
  // A jump alone is a quiet time.
  EXPECT_EQ(losses_of(read(exits_from(5) + exits_from(700))), 0u);
  // What says that something was left out needs no jump.
  EXPECT_EQ(losses_of(read(exits_from(5) + "[...]\na-1 [000] 5.010000: kvm_fpu: load\n")), 1u);
}

TEST(TraceText, ExcerptsAreReadInTheOrderOfTheirTimes) {
  const ReadText all = read(exits_from(700) + "Before that:\n" + exits_from(5));
  EXPECT_EQ(losses_of(all), 1u);
  EXPECT_EQ(all.events.front().at.ns(), 5'000'000'000u);
  EXPECT_EQ(all.events.back().at.ns(), 700'009'900'000u);
  for (const std::string& note : all.notes) EXPECT_THAT(note, Not(HasSubstr("later time")));
}

TEST(TraceText, EqualLinesOfOneTimeAreEventsOfTheirOwn) {
  const std::string turn =
      "a-1 [000] 1.000001: kvm_exit: vcpu 0 reason HLT rip 0x1\n"
      "a-1 [000] 1.000001: kvm_entry: vcpu 0\n";
  std::string text;
  for (int i = 0; i < 20; ++i) text += turn;
  EXPECT_EQ(read(text).events.size(), 40u);
}

TEST(TraceText, AHaltThatBothSidesShowIsNoGap) {
  std::string text = exits_from(5), entry = "a-1 [000] 9.000000: kvm_entry: vcpu 0\n";
  text += "a-1 [000] 5.020000: kvm_exit: vcpu 0 reason HLT rip 0x1\nIt sleeps here:\n";
  EXPECT_EQ(losses_of(read(text + entry + exits_from(10))), 0u);
  EXPECT_EQ(losses_of(read(text + exits_from(10))), 1u);
}

TEST(TraceText, StacksBelowEventsAreNoPartsOfThemAndNoGaps) {
  const std::string stack =
      "\tffffffff81a03c20 vcpu_enter_guest+0x10 ([kernel.kallsyms])\n => do_syscall_64\n";
  std::string text;
  for (int i = 5; i < 15; ++i)
    text += fmt::format("a-1 [000] {}.5: kvm_apic: apic_write\n{}\n", i * 100, stack);
  const ReadText all = read(text);
  EXPECT_EQ(all.events.size(), 10u);
  EXPECT_EQ(losses_of(all), 0u);
}

TEST(TraceText, LostRecordsOfPerfAreLosses) {
  const ReadText all = read(
      "a 1 [000] 1.000001: kvm:kvm_entry: vcpu 0\n"
      "swapper 0 [000] 1.000005: PERF_RECORD_LOST lost 21\n"
      "a 1 [000] 1.000009: kvm:kvm_fpu: load\n");
  EXPECT_EQ(losses_of(all), 1u);
  EXPECT_EQ(all.counters.lost_events, 21u);
}

TEST(TraceText, AReasonThatWasCutIsTheOnlyOneThatBeginsSo) {
  const auto cut_at = [](std::size_t width, const char* reason) {
    std::string text;
    for (const std::string& line :
         {fmt::format("a-1 [000] 1.000001: kvm_exit: vcpu 0 reason {} rip 0x10", reason),
          std::string("a-1 [000] 1.000002: kvm_entry: vcpu 0, rip 0x10, and more that is cut off"),
          fmt::format("a-1 [000] 1.000003: kvm_exit: vcpu 0 reason {} rip 0x10", reason),
          fmt::format("a-1 [000] 1.000004: kvm_exit: vcpu 0 reason {} rip 0x10", reason)})
      text += line.substr(0, width) + "\n";
    return std::get<KvmExit>(read(text).events.front().payload).reason;
  };
  EXPECT_EQ(cut_at(54, "EXTERNAL_INTERRUPT"), 1u);
  EXPECT_EQ(cut_at(50, "MSR_WRITE"), 0x7fffu) << "MSR_R, or MSR_W";
}

TEST(TraceText, ANameWithAColonIsWhole) {
  EXPECT_EQ(parse_text_line("a: b-1 [000] 1.000001: kvm_entry: vcpu 0").comm, "a: b");
  EXPECT_EQ(parse_text_line("[1] 2: x-1 [000] 1.000001: kvm_entry: vcpu 0").comm, "[1] 2: x");
}

TEST(TraceText, WithoutThreadsOneVmIsAssumedUntilAVcpuExitsTwice) {
  const std::string once =
      "1.000001: kvm_exit: vcpu 0 reason HLT rip 0x1\n1.000003: kvm_entry: vcpu 0\n";
  EXPECT_THAT(read(once).notes, Contains(HasSubstr("one VM is assumed")));
  TemporaryFolder folder;
  const std::string path = folder / "trace.txt";
  std::ofstream(path) << once << "1.000004: kvm_entry: vcpu 0\n";
  const auto source = open_source(path, {});
  ASSERT_FALSE(source);
  EXPECT_THAT(source.error().message, HasSubstr("several VMs"));
}

TEST(TraceText, EventsInWrongOrderAreCounted) {
  const ReadText all = read(
      "a-1 [000] 2.000000001: kvm_entry: vcpu 0\n"
      "a-1 [000] 1.000000001: kvm_entry: vcpu 0\n");
  ASSERT_EQ(all.events.size(), 2u);
  EXPECT_EQ(all.events[1].at.ns(), 2'000'000'001u);
  EXPECT_THAT(all.notes, ElementsAre(HasSubstr("1 events stand after one of a later time")));
}

TEST(TraceText, SyscallsOfTracefsHaveNoName) {
  const ReadText all = read(
      "a-1 [000] .... 1.000001: sys_ioctl(fd: d, cmd: ae80, arg: 0)\n"
      "a-1 [000] .... 1.000002: sys_enter_ioctl: fd: 0x0d, cmd: 0x0000ae80, arg: 0x0\n"
      "a-1 [000] .... 1.000003: syscalls:sys_enter_ioctl: fd: 0x0d, cmd: 0x0000ae80, arg: 0x0\n");
  ASSERT_EQ(all.events.size(), 3u);
  for (const Event& event : all.events)
    EXPECT_EQ(std::get<IoctlEnter>(event.payload).command, 0xae80u);
}

TEST(TraceText, ATextWithoutATraceIsRefusedWithTheForms) {
  TemporaryFolder folder;
  const std::string path = folder / "mail.txt";
  std::ofstream(path) << "Hi all,\nsee [1] for it.\n";
  const auto kind = kind_of_source(path);
  ASSERT_FALSE(kind);
  EXPECT_THAT(kind.error().message, HasSubstr("trace-cmd report"));
}

}  // namespace
}  // namespace trapline::trace_text
