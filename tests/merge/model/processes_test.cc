#include "merge/model/processes.h"

#include <gtest/gtest.h>

#include "tests/merge/analyze/events.h"

namespace trapline::test {
namespace {

TEST(ProcessesTest, ThreadsBelongToTheProcessThatMadeThem) {
  Processes processes;
  processes.on(make(1, 0, ThreadId{10}, {}), NewThread{ThreadId{20}, false});
  processes.on(make(2, 0, ThreadId{20}, {}), NewThread{ThreadId{21}, true});
  processes.on(make(3, 0, ThreadId{21}, {}), NewThread{ThreadId{22}, true});
  EXPECT_EQ(processes.of(ThreadId{22}, {}), ThreadId{20});
  EXPECT_FALSE(processes.knows(ThreadId{10}));
}

// A list does not say which of the threads that had an id it means.
TEST(ProcessesTest, AListThatMayMeanALaterThreadTellsNothingOfTheFirst) {
  constexpr ThreadId kMaker{10}, kFirst{20};
  const ThreadId second = thread_of(20, 1);
  Processes processes;
  processes.set(kFirst, kMaker);
  processes.on(make(1, 0, kMaker, {}), NewThread{second, true});
  EXPECT_EQ(processes.of(second, {}), kMaker);
  EXPECT_FALSE(processes.is_of_several(second));
  EXPECT_TRUE(processes.is_of_several(kFirst));
  processes = {};
  processes.on(make(1, 0, kMaker, {}), NewThread{kFirst, true});
  processes.on(make(2, 0, kMaker, {}), NewThread{second, true});
  EXPECT_FALSE(processes.is_of_several(kFirst));
}

TEST(ProcessesTest, AListOfAnotherProcessThanTheLaterThreadsMeansTheFirst) {
  constexpr ThreadId kFirst{20}, kListed{11};
  Processes processes;
  processes.set(kFirst, kListed);
  processes.on(make(1, 0, ThreadId{10}, {}), NewThread{thread_of(20, 1), true});
  EXPECT_FALSE(processes.is_of_several(kFirst));
  EXPECT_EQ(processes.of(kFirst, {}), kListed);
}

// A listed thread that had an event is of the process that had the id then.
TEST(ProcessesTest, AListedThreadThatCameLateMayBeOfEachProcessWithTheId) {
  constexpr ThreadId kProcess{10}, kSeen{20}, kLate{21}, kMade{22};
  const ThreadId second = thread_of(10, 1);
  Processes processes;
  for (const ThreadId thread : {kSeen, kLate, kMade}) processes.set(thread, kProcess);
  processes.use_again(second, [](ThreadId thread) { return thread == kSeen; });
  processes.on(make(1, 0, ThreadId{1}, {}), NewThread{second, false});
  processes.on(make(2, 0, second, {}), NewThread{kMade, true});
  EXPECT_EQ(processes.of(kSeen, {}), kProcess);
  EXPECT_EQ(processes.of(kLate, {}), second);
  EXPECT_TRUE(processes.is_of_several(kLate));
  EXPECT_FALSE(processes.is_of_several(kSeen));
  EXPECT_FALSE(processes.is_of_several(kMade));  // an event told of it
  EXPECT_TRUE(processes.has_threads(kProcess));
  EXPECT_FALSE(processes.was_made(kProcess));
  EXPECT_TRUE(processes.was_made(second));
}

// A list, which has ids alone, does not contradict events of a process with another one's id.
TEST(ProcessesTest, AListMayMeanALaterProcess) {
  const ThreadId process = thread_of(10, 1), vcpu{20};
  Processes processes;
  processes.set(vcpu, ThreadId{10});
  processes.set_name(ThreadId{10}, "web01");
  processes.on(make(1, 0, process, {}), NewThread{vcpu, true});
  EXPECT_FALSE(processes.is_of_several(vcpu));
  EXPECT_EQ(processes.of(vcpu, {}), process);
  EXPECT_EQ(find_vms({{vcpu, 0}}, processes)[0].text(), "web01 (10)");
}

TEST(ProcessesTest, ARepeatedVcpuNumberBeginsAnotherVm) {
  const auto vms = find_vms({{ThreadId{104}, 0}, {ThreadId{101}, 0}, {ThreadId{102}, 1}}, {});
  EXPECT_EQ(vms[1].id(), "~101");
  EXPECT_EQ(vms[2].id(), "~101");
  EXPECT_EQ(vms[0].id(), "~104");
}

// Ids began again; two VMs were started at once; a vCPU has no event.
TEST(ProcessesTest, VcpuNumbersThatAreInNoOrderTellNoVm) {
  const std::vector<VcpuThread> cases[] = {
      {{ThreadId{32767}, 0}, {ThreadId{301}, 1}, {ThreadId{302}, 0}, {ThreadId{303}, 1}},
      {{ThreadId{301}, 0}, {ThreadId{302}, 0}, {ThreadId{303}, 1}, {ThreadId{304}, 1}},
      {{ThreadId{301}, 0}, {ThreadId{302}, 1}, {ThreadId{303}, 0}, {ThreadId{304}, 2}}};
  for (const auto& threads : cases) {
    const auto vms = find_vms(threads, {});
    for (std::size_t i = 0; i < threads.size(); ++i)
      EXPECT_EQ(vms[i].id(), "?" + std::to_string(static_cast<std::int32_t>(threads[i].thread)));
  }
  // One VM, whatever its vCPUs are.
  const auto one = find_vms({{ThreadId{301}, 2}, {ThreadId{302}, 0}}, {});
  EXPECT_EQ(one[0].id(), "~301");
  EXPECT_EQ(one[1].id(), "~301");
}

TEST(ProcessesTest, WhatIsKnownIsNotInferred) {
  Processes processes;
  processes.set(ThreadId{101}, ThreadId{90});
  const auto vms = find_vms({{ThreadId{101}, 0}, {ThreadId{102}, 0}}, processes);
  EXPECT_EQ(vms[0].id(), "90");
  EXPECT_EQ(vms[1].id(), "~102");
}

TEST(ProcessesTest, AVmGoesByItsNameBesideItsProcess) {
  Processes session, events;
  session.set(ThreadId{101}, ThreadId{90});
  session.set(ThreadId{102}, ThreadId{91});
  session.set_name(ThreadId{90}, "web01");
  EXPECT_FALSE(session.has_several_names());
  events.merge(session);
  const auto vms = find_vms({{ThreadId{101}, 0}, {ThreadId{102}, 0}, {ThreadId{103}, 0}}, events);
  EXPECT_EQ(vms[0].text(), "web01 (90)");
  EXPECT_EQ(vms[0].id(), "90");
  EXPECT_EQ(vms[1].text(), "91");
  EXPECT_EQ(vms[2].text(), "~103");
}

TEST(ProcessesTest, ARegionHasTheNameOfSlotsThatCoverAllOfIt) {
  constexpr ThreadId kVm{7};
  constexpr std::uint64_t kLast = 0x1fffff;
  Processes processes;
  processes.set_slots(kVm, {{0x1000, kLast, "pc.ram"}, {0, 0xfff, "pc.ram"}});
  EXPECT_EQ(processes.slot_of(kVm, 0, kLast), "pc.ram");
  EXPECT_EQ(processes.slot_of(kVm, 0, kLast + 1), "");
  processes.set_slots(kVm, {{0, 0xfff, "pc.ram"}, {0x2000, kLast, "pc.ram"}});
  EXPECT_EQ(processes.slot_of(kVm, 0, kLast), "");
  processes.set_slots(kVm, {{0, 0xfff, "pc.ram"}, {0x1000, kLast, "vga"}});
  EXPECT_EQ(processes.slot_of(kVm, 0, kLast), "");
  EXPECT_EQ(processes.slot_of(ThreadId{8}, 0, kLast), "");
}

TEST(ProcessesTest, AnAddressIsInTheSlotThatStays) {
  constexpr ThreadId kVm{7};
  Processes processes;
  // pc.ram was there before the recording and after it; what is above it changed.
  processes.set_slots(kVm, {{0x1000, 0x1fff, "pc.ram", 0x800},
                            {0x1000, 0x1fff, "pc.ram", 0x800},
                            {0x2000, 0x2fff, "", 0},
                            {0x2000, 0x4fff, "", 0}});
  EXPECT_EQ(processes.slot_at(kVm, 0xfff), nullptr);
  ASSERT_NE(processes.slot_at(kVm, 0x1fff), nullptr);
  EXPECT_EQ(processes.slot_at(kVm, 0x1fff), processes.slot_at(kVm, 0x1000));
  EXPECT_EQ(processes.slot_at(kVm, 0x1000)->offset, 0x800u);
  EXPECT_EQ(processes.slot_at(kVm, 0x2000), nullptr);
  EXPECT_EQ(processes.slot_at(kVm, 0x5000), nullptr);
  EXPECT_EQ(processes.slot_at(ThreadId{8}, 0x1000), nullptr);
}

// QEMU 50 ended, and another QEMU got its id; each made a vCPU.
TEST(ProcessesTest, VmsWhoseProcessHadOneIdAreTwo) {
  const ThreadId first{50}, second = thread_of(50, 1), bash{9};
  const auto made = [](ThreadId by, ThreadId child, bool same_process) {
    return make(1, 0, by, NewThread{child, same_process});
  };
  Processes processes, listed;
  processes.set_name(first, "web01");
  for (const Event& event : {made(first, ThreadId{60}, true), made(bash, second, false),
                             made(second, ThreadId{61}, true)})
    processes.on(event, std::get<NewThread>(event.payload));
  for (const ThreadId thread : {ThreadId{60}, ThreadId{61}}) listed.set(thread, first);
  processes.merge(listed);  // a list has ids alone
  const auto vms = find_vms({{ThreadId{60}, 0}, {ThreadId{61}, 0}}, processes);
  EXPECT_EQ(vms[0].text(), "50");
  EXPECT_EQ(vms[1].text(), "50 #2");
  // In a part of the recording only the second one ran.
  EXPECT_EQ(find_vms({{ThreadId{61}, 0}}, processes)[0].text(), "50 #2");
}

}  // namespace
}  // namespace trapline::test
