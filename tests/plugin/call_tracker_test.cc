// The shadow stack alone: a guest of a few registers, records in memory.
#include "plugin/call_tracker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

namespace trapline {
namespace {

class CallTrackerTest : public ::testing::Test,
                        public GuestState,
                        public TaskChooser,
                        public FunctionFilter,
                        public RecordSink {
 protected:
  static constexpr std::uint64_t kStackA = 0xffff888000008000;  // two kernel stacks of 16 KiB
  static constexpr std::uint64_t kStackB = 0xffff888000010000;

  void SetUp() override { start(true); }
  void start(bool sites_know_slots) { start(sites_know_slots, pool_); }
  void start(bool sites_know_slots, StackPool& pool, unsigned vcpu = 0) {
    TrackerOptions options;
    options.know_starts = true;
    options.sites_know_slots = sites_know_slots;
    tracker_ = std::make_unique<CallTracker>(vcpu, *this, *this, *this, pool, options);
    RecordClock clock;
    clock.start(ClockChoice::kTsc);
    tracker_->use_clock(clock);
  }
  // A call from the stack pointer `sp`: the return address is pushed below.
  void call(std::uint64_t function, std::uint64_t slot) {
    site_.ret = 0x1000 + function;
    tracker_->call(site_, function, slot);
    tracker_->function_start(0, function);
  }
  void ret(std::uint64_t slot, std::uint64_t target = 0) {
    tracker_->return_at(0, slot, [target] { return target; });
  }
  // "1( 2( 2) 1)": what was recorded, all closed; of one task where it is asked for.
  std::string records(std::uint32_t task = 0) {
    tracker_->close_all();
    std::string text;
    for (const Record& record : task == 0 ? records_ : of_task_[task]) {
      if (record.type() == RecordType::kLost) continue;
      text += (text.empty() ? "" : " ") + std::to_string(record.address()) +
              (record.type() == RecordType::kEntry ? "(" : ")");
    }
    return text;
  }
  // How many records a reader is told are lost; after records().
  std::uint64_t lost() const {
    std::uint64_t count = 0;
    for (const Record& record : records_)
      if (record.type() == RecordType::kLost) count += record.address();
    return count;
  }
  std::size_t of_type(RecordType type) const {
    const auto is = [type](const Record& record) { return record.type() == type; };
    return static_cast<std::size_t>(std::count_if(records_.begin(), records_.end(), is));
  }
  const TrackerCounters& counters() const { return tracker_->counters(); }

  std::uint64_t sp_ = 0;
  std::size_t stack_pointer_reads_ = 0;
  int interrupted_level_ = -1;
  std::uint64_t return_address_ = 0;
  Site site_;
  std::unique_ptr<CallTracker> tracker_;

 private:
  std::uint64_t stack_pointer() override {
    ++stack_pointer_reads_;
    return sp_;
  }
  std::uint64_t address_space() override { return 0; }
  int interrupted_level_at(std::uint64_t) override { return interrupted_level_; }
  std::uint64_t return_address(std::uint64_t) override { return return_address_; }
  Task* task_for(unsigned vcpu, const StackKey&, std::uint64_t stack_pointer) override {
    const bool other =
        stacks_have_tasks_ && (vcpu != 0 || stack_block(stack_pointer) == stack_block(kStackB));
    return other ? &other_task_ : &task_;
  }
  void entered(unsigned, Task&) override { ++entered_; }
  void left_out(unsigned, std::uint64_t records) override { without_task_ += records; }
  bool recorded(std::uint64_t) const override { return true; }
  bool is_start(std::uint64_t address) const override { return address < 100; }
  std::size_t append(std::uint32_t task, std::span<const Record> records) override {
    records_.insert(records_.end(), records.begin(), records.end());
    of_task_[task].insert(of_task_[task].end(), records.begin(), records.end());
    return records.size_bytes();
  }
  void release(std::uint32_t) override {}

  std::vector<Record> records_;
  std::map<std::uint32_t, std::vector<Record>> of_task_;
  Task task_{1, *this}, other_task_{2, *this};

 protected:
  bool stacks_have_tasks_ = false;  // kStackB has one of its own, as have vCPU 1's stacks
  std::uint64_t without_task_ = 0, entered_ = 0;
  StackPool pool_{false};
};

TEST_F(CallTrackerTest, CallsAndReturnsNest) {
  call(1, kStackA - 8), call(2, kStackA - 40), ret(kStackA - 40), call(3, kStackA - 40);
  ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 2) 3( 3) 1)");
  EXPECT_EQ(counters().unmatched_returns, 0u);
}

TEST_F(CallTrackerTest, ALongjmpClosesWhatItLeaves) {
  call(1, kStackA - 8), call(2, kStackA - 40), call(3, kStackA - 80), call(4, kStackA - 40);
  ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 3( 3) 2) 4( 4) 1)");
}

// The function was called, and closed in the records, before another thread ran; the guest is back
// at its first instruction.
TEST_F(CallTrackerTest, RecordingStartsInAFunctionThatTheGuestCameBackTo) {
  constexpr std::uint64_t kUser = 0x7fff00007ff8;
  tracker_->call({0x5000, 7, 0, 3, 0}, 7, kUser);
  tracker_->function_start(3, 7);
  ret(kStackA - 8), ret(kStackB - 8);
  tracker_->set_recording(false);
  sp_ = kUser;
  tracker_->function_start(3, 7);
  tracker_->start_recording_in(7);
  EXPECT_EQ(records(), "7( 7) 7( 7)");
}

// Another vCPU's stop= was not seen yet when start= comes: what was open ends at the stop, and the
// function that start= names is recorded anew.
TEST_F(CallTrackerTest, AStartAfterAStopThatWasNotSeenRecords) {
  call(1, kStackA - 8), call(7, kStackA - 40);
  tracker_->request_recording(false);
  EXPECT_FALSE(tracker_->will_record());
  tracker_->start_recording_in(7);
  EXPECT_TRUE(tracker_->will_record());
  call(2, kStackA - 80), ret(kStackA - 80), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 7( 7) 1) 7( 2( 2) 7)");
}

TEST_F(CallTrackerTest, AStopAfterAStartThatWasNotSeenDoesNotRecord) {
  tracker_->set_recording(false);
  tracker_->request_recording(true);
  EXPECT_TRUE(tracker_->will_record());
  tracker_->stop_recording();
  EXPECT_FALSE(tracker_->will_record());
  call(1, kStackA - 8), ret(kStackA - 8);
  EXPECT_EQ(records(), "");
}

// A kernel that called user mode: a system call from there ends, what the kernel did before goes
// on.
TEST_F(CallTrackerTest, ASystemCallsReturnLeavesWhatTheKernelDidBeforeUserMode) {
  constexpr std::uint64_t kUser = 0x7fff00007ff8;
  call(1, kStackA - 8);
  tracker_->call({0x5000, 7, 0, 3, 0}, 7, kUser);
  tracker_->function_start(3, 7);
  sp_ = kStackA - 64;
  tracker_->system_call(3);
  tracker_->function_start(0, 70);
  tracker_->system_return();
  tracker_->call({0x5010, 8, 0, 3, 0}, 8, kUser - 32);
  tracker_->return_at(3, kUser - 32, [] { return std::uint64_t{0}; });
  tracker_->return_at(3, kUser, [] { return std::uint64_t{0}; });
  EXPECT_EQ(counters().stack_switches, 4u);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 7( 70( 70) 8( 8) 7) 1)");
}

// A handler that begins at the stack pointer of a frame has that frame's place.
TEST_F(CallTrackerTest, AHandlersStackIsFreshFromItsStackPointerOn) {
  constexpr std::uint64_t kUser = 0x7fff00007ff8;
  call(1, kStackA - 8), call(2, kStackA - 64);
  tracker_->call({0x5000, 7, 0, 3, 0}, 7, kUser);
  tracker_->function_start(3, 7);
  sp_ = kStackA - 64;
  tracker_->event(0, 60);
  tracker_->function_start(0, 60);
  EXPECT_EQ(records(), "1( 2( 7( 7) 2) 1) 60( 60)");
}

// But a system call goes on where the kernel called user mode.
TEST_F(CallTrackerTest, ASystemCallsStackIsNotFresh) {
  constexpr std::uint64_t kUser = 0x7fff00007ff8;
  call(1, kStackA - 8), call(2, kStackA - 64);
  tracker_->call({0x5000, 7, 0, 3, 0}, 7, kUser);
  tracker_->function_start(3, 7);
  sp_ = kStackA - 64;
  tracker_->system_call(3);
  tracker_->function_start(0, 60);
  EXPECT_EQ(records(), "1( 2( 7( 60( 60) 7) 2) 1)");
}

TEST_F(CallTrackerTest, WhatAHandlersFreshStackLeftGoesWithItsCallersReturn) {
  tracker_->system_return();
  call(1, kStackA - 24), call(2, kStackA - 32);
  sp_ = kStackA - 32;
  tracker_->event(0, 60);
  tracker_->function_start(0, 60);
  call(3, kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 2) 1) 60( 60) 3( 3)");
}

TEST_F(CallTrackerTest, AnotherStackIsSeenHoweverTheGuestCameThere) {
  call(1, kStackA - 8);
  sp_ = kStackB - 8;
  tracker_->function_start(0, 5);
  EXPECT_EQ(counters().stack_switches, 2u);
  EXPECT_FALSE(tracker_->frame_known(0, kStackA - 48));
  EXPECT_EQ(counters().stack_switches, 3u);
  start(false);
  sp_ = kStackA - 8;
  call(1, 0);
  sp_ = kStackB - 8;
  tracker_->stack_pointer_set();
  call(2, 0);
  EXPECT_EQ(counters().stack_switches, 2u);
}

// A stack larger than the block that tells stacks apart.
TEST_F(CallTrackerTest, AStackThatGrowsIntoTheNextBlockIsTheSame) {
  call(1, kStackA + 16), call(2, kStackA - 40), ret(kStackA - 40), ret(kStackA + 16);
  EXPECT_EQ(counters().stack_switches, 1u);
  EXPECT_EQ(records(), "1( 2( 2) 1)");
}

TEST_F(CallTrackerTest, AfterAnInterruptTheStackPointerIsLookedAtAnew) {
  start(false);
  sp_ = kStackA - 8;
  call(1, 0);
  sp_ = kStackA - 64;
  tracker_->event(0, 7);
  tracker_->interrupt_return(0);
  sp_ = kStackB - 8;
  call(2, 0);
  EXPECT_EQ(counters().stack_switches, 2u);
}

// The handler's beginning has told where the stack pointer is: nothing is read again.
TEST_F(CallTrackerTest, InAHandlerTheStackPointerIsKnown) {
  start(false);
  sp_ = kStackA - 8;
  call(1, 0);
  tracker_->stack_pointer_set();
  sp_ = kStackA - 64;
  tracker_->event(0, 7);
  const std::size_t reads = stack_pointer_reads_;
  tracker_->return_plain(0, [] { return std::uint64_t{0x2000}; });
  EXPECT_EQ(stack_pointer_reads_, reads);
}

// siglongjmp, or a coroutine: the code that the handler interrupted goes on with its return.
TEST_F(CallTrackerTest, AReturnOfInterruptedCodeEndsTheHandlerToo) {
  start(false);
  sp_ = kStackA - 8;
  call(1, 0), tracker_->return_address_saved(kStackA - 8);
  sp_ = kStackA - 64;
  tracker_->event(0, 7);
  tracker_->return_plain(0, [] { return std::uint64_t{0x1001}; });
  EXPECT_EQ(counters().unmatched_returns, 0u);
  EXPECT_EQ(counters().unwound, 1u);
  EXPECT_EQ(records(), "1( 7( 7) 1)");
}

// A return address may be that of a caller further out; the stack pointer tells.
TEST_F(CallTrackerTest, AReturnIsNotThatOfACallerWhoseFramesAreAlive) {
  start(false);
  sp_ = kStackA - 8;
  call(1, 0), tracker_->return_address_saved(kStackA - 8);
  call(2, 0), tracker_->return_address_saved(kStackA - 40);
  tracker_->stack_pointer_set();
  sp_ = kStackA - 48;
  tracker_->return_plain(0, [] { return std::uint64_t{0x1001}; });
  call(3, 0);
  EXPECT_EQ(records(), "1( 2( 3( 3) 2) 1)");
}

TEST_F(CallTrackerTest, FramesBelowAStackPointerAreUnwoundAndCounted) {
  call(1, kStackA - 8), call(2, kStackA - 40), call(3, kStackA - 64);
  sp_ = kStackA - 20;
  tracker_->function_start(0, 5);
  EXPECT_EQ(counters().unwound, 2u);
  EXPECT_EQ(records(), "1( 2( 3( 3) 2) 5( 5) 1)");
}

// Nobody saw how the kernel was entered.
TEST_F(CallTrackerTest, AReturnInTheKernelDoesNotEndWhatTheProgramWasDoing) {
  constexpr std::uint64_t kUser = 0x7fff00007ff8;
  tracker_->call({0x5000, 7, 0, 3, 0}, 7, kUser);
  tracker_->function_start(3, 7);
  ret(kStackA - 64), call(1, kStackA - 64), ret(kStackA - 64);
  tracker_->return_at(3, kUser, [] { return std::uint64_t{0}; });
  EXPECT_EQ(records(), "7( 1( 1) 7)");
}

TEST_F(CallTrackerTest, FramesAreKnownByTheirPointers) {
  EXPECT_FALSE(tracker_->frame_known(0, kStackA - 16));
  tracker_->frame_entered(kStackA - 16, 0x5000, 1);
  EXPECT_TRUE(tracker_->frame_known(0, kStackA - 16));
  EXPECT_FALSE(tracker_->frame_known(0, kStackA - 64));
  tracker_->frame_entered(kStackA - 64, 0x5000, 2);
  EXPECT_TRUE(tracker_->frame_known(0, kStackA - 64));
  EXPECT_TRUE(tracker_->frame_known(0, kStackA - 16));
  EXPECT_EQ(records(), "1( 2( 2) 1)");
  EXPECT_EQ(counters().calls, 2u);
}

TEST_F(CallTrackerTest, AFrameOfAnotherPrivilegeIsOfAnotherStack) {
  EXPECT_FALSE(tracker_->frame_known(3, 0x7fff00007ff0));
  tracker_->frame_entered(0x7fff00007ff0, 0x5000, 1);
  EXPECT_FALSE(tracker_->frame_known(0, 0x7fff00007ff0));
  EXPECT_EQ(counters().stack_switches, 2u);
}

TEST_F(CallTrackerTest, ATailCallGoesWithItsCaller) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  sp_ = kStackA - 40;
  tracker_->function_start(0, 3);  // by a jump: the return address is still on top
  ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 3( 3) 2) 1)");
  EXPECT_EQ(counters().tail_calls, 1u);
}

TEST_F(CallTrackerTest, AJumpAfterALongjmpIsATailCallOfWhatIsLeft) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  sp_ = kStackA - 8;
  tracker_->function_start(0, 5);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 2) 5( 5) 1)");
  EXPECT_EQ(counters().tail_calls, 1u);
  EXPECT_EQ(counters().unwound, 1u);
}

// A state machine of jumps: its past states are closed, and its next ones nest again.
TEST_F(CallTrackerTest, JumpsNestUpToALimit) {
  call(1, sp_ = kStackA - 8);
  for (std::uint64_t i = 0; i < CallTracker::kMaxTails; ++i) tracker_->function_start(0, 2 + i % 2);
  tracker_->function_start(0, 4), tracker_->function_start(0, 5);
  ret(kStackA - 8);
  const std::string all = records();
  EXPECT_EQ(all.substr(0, 12), "1( 2( 3( 2( ");
  EXPECT_EQ(all.substr(all.size() - 17), "2) 4( 5( 5) 4) 1)");
}

TEST_F(CallTrackerTest, AReturnBeyondACallersFramesUnwindsThem) {
  start(false);
  sp_ = kStackA - 8;
  call(1, 0), tracker_->return_address_saved(kStackA - 8);
  call(2, 0), tracker_->return_address_saved(kStackA - 40);
  tracker_->stack_pointer_set();
  sp_ = kStackA;
  tracker_->return_plain(0, [] { return std::uint64_t{0x1001}; });
  EXPECT_EQ(counters().unwound, 1u);
  EXPECT_EQ(records(), "1( 2( 2) 1)");
}

// A signal comes when the program is about to run a function's first instruction: the kernel begins
// the handler further down, whose return address leads to rt_sigreturn.
TEST_F(CallTrackerTest, AFunctionThatASignalInterruptedAtItsStartIsCountedOnce) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  sp_ = kStackA - 808;
  tracker_->function_start(0, 5);  // the handler
  call(6, kStackA - 840), ret(kStackA - 840), ret(kStackA - 808);
  sp_ = kStackA - 800;
  tracker_->function_start(0, 9);  // what ends in rt_sigreturn
  sp_ = kStackA - 40;
  tracker_->function_start(0, 2);  // the program goes on
  ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 5( 6( 6) 5) 9( 9) 2) 1)");
  EXPECT_EQ(counters().unmatched_returns, 0u);
}

// With a link register, the handler's return address is in it.
TEST_F(CallTrackerTest, WithoutSlotsTooAnInterruptedFunctionIsCountedOnce) {
  start(false);
  const auto begin = [&](std::uint64_t function, std::uint64_t stack_pointer, std::uint64_t ret) {
    sp_ = stack_pointer, return_address_ = ret;
    tracker_->function_start(0, function);
  };
  sp_ = kStackA;
  call(1, 0), tracker_->return_address_saved(kStackA - 8);
  call(2, 0);
  tracker_->stack_pointer_set(), begin(5, kStackA - 816, 0x9000);  // the handler
  call(6, 0), tracker_->return_plain(0, [] { return std::uint64_t{0x1006}; });
  tracker_->return_plain(0, [] { return std::uint64_t{0x9000}; });
  tracker_->stack_pointer_set(), begin(2, kStackA - 16, 0x1002);  // the program goes on
  tracker_->stack_pointer_set(), begin(3, kStackA - 16, 0x1002);  // a jump of 2
  tracker_->return_plain(0, [] { return std::uint64_t{0x1002}; });
  tracker_->return_plain(0, [] { return std::uint64_t{0x1001}; });
  EXPECT_EQ(records(), "1( 2( 5( 6( 6) 5) 3( 3) 2) 1)");
  EXPECT_EQ(counters().unmatched_returns, 0u);
}

TEST_F(CallTrackerTest, ASignalInTheMiddleOfAFunctionLeavesItsCallersOpen) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  sp_ = kStackA - 808;
  tracker_->function_start(0, 5);
  ret(kStackA - 808);
  sp_ = kStackA - 800;
  tracker_->function_start(0, 9);
  ret(kStackA - 40), call(3, kStackA - 40), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 5( 5) 9( 9) 2) 3( 3) 1)");
}

// The kernel is not followed (code=), so nothing shows that the thread left vCPU 0.
class MovedThreadTest : public CallTrackerTest {
 protected:
  StackPool shared_{true};
  std::unique_ptr<CallTracker> other_;

  void begin(bool sites_know_slots) {
    stacks_have_tasks_ = true;
    start(sites_know_slots, shared_, 1);
    other_ = std::move(tracker_);
    start(sites_know_slots, shared_);
  }
  void move() { std::swap(tracker_, other_); }
  // Calls the function, which runs no instruction before the thread moves.
  void call_and_move(std::uint64_t function, std::uint64_t slot) {
    site_.ret = return_address_ = 0x1000 + function;
    tracker_->call(site_, function, slot);
    move();
    arrive(function, slot);
  }
  void arrive(std::uint64_t function, std::uint64_t slot) {
    sp_ = slot;
    tracker_->function_start(0, function);
  }
};

TEST_F(MovedThreadTest, AFunctionThatMovesBeforeItsFirstInstructionIsCountedOnce) {
  begin(true);
  call(1, kStackA - 8), call_and_move(2, kStackA - 40), ret(kStackA - 40);
  call(3, kStackA - 40), ret(kStackA - 40);
  EXPECT_EQ(records(1), "1( 2( 2) 1)");
  EXPECT_EQ(records(2), "3( 3)");
}

// A leaf has not saved its return address: its caller's tells which stack it is on.
TEST_F(MovedThreadTest, WithoutSlotsTooAFunctionIsCountedOnce) {
  begin(false);
  sp_ = kStackA, site_.ret = 0x1001;
  tracker_->call(site_, 1, 0), arrive(1, kStackA), tracker_->return_address_saved(kStackA - 8);
  site_.ret = return_address_ = 0x1002;
  tracker_->call(site_, 2, 0), move(), arrive(2, kStackA - 16);
  return_address_ = 0x1003;
  arrive(3, kStackA - 16);  // a jump of 2
  EXPECT_EQ(records(1), "1( 2( 2) 1)");
  EXPECT_EQ(records(2), "3( 3)");
}

// The thread leaves vCPU 1 in the middle of 3, which ends on vCPU 0, and comes back.
TEST_F(MovedThreadTest, AFrameThatEndedElsewhereIsNoCallerThatJumps) {
  begin(true);
  call(1, kStackA - 8), move(), call(3, kStackA - 40), move(), ret(kStackA - 40, 0x1003);
  call_and_move(2, kStackA - 40), ret(kStackA - 40), call(4, kStackA - 40), ret(kStackA - 40);
  EXPECT_EQ(records(1), "1( 2( 2) 1)");
  EXPECT_EQ(records(2), "3( 3) 4( 4)");
}

// The thread left vCPU 0 in the middle of 3, to which 2 jumps both times.
TEST_F(MovedThreadTest, AJumpIsCountedThoughItsFunctionIsOpenElsewhere) {
  begin(true);
  call(2, kStackA - 40), arrive(3, kStackA - 40), move();
  call(2, kStackA - 40), return_address_ = 0x1002, arrive(3, kStackA - 40), ret(kStackA - 40);
  EXPECT_EQ(records(1), "2( 3( 3) 2)");
  EXPECT_EQ(records(2), "2( 3( 3) 2)");
}

// Functions that jump to each other, each on the other's return address, are entered anew.
TEST_F(CallTrackerTest, TailCallsBackAndForthAreCountedEach) {
  call(1, kStackA - 40);
  sp_ = kStackA - 40;
  tracker_->function_start(0, 2), tracker_->function_start(0, 1), tracker_->function_start(0, 2);
  ret(kStackA - 40);
  EXPECT_EQ(records(), "1( 2( 1( 2( 2) 1) 2) 1)");
}

// The kernel is not followed (code=): after the system call comes another thread's function.
TEST_F(CallTrackerTest, AFunctionOfTheProgramIsNoSystemCallsHandler) {
  call(1, kStackA - 8);
  tracker_->system_call(0);
  sp_ = kStackA - 8;
  tracker_->function_start(0, 1);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 1)");
  EXPECT_EQ(counters().events, 0u);
}

// The handler was not followed, and the kernel's next function has nothing to do with the call.
TEST_F(CallTrackerTest, AfterASystemCallsReturnNoFunctionIsItsHandler) {
  tracker_->system_call(3);
  tracker_->system_return();
  sp_ = kStackA - 8;
  tracker_->function_start(0, 5);
  EXPECT_EQ(counters().events, 0u);
  EXPECT_EQ(records(), "5( 5)");
}

TEST_F(CallTrackerTest, ALoopToAFunctionsOwnStartIsNoCall) {
  call(1, kStackA - 8);
  sp_ = kStackA - 8;
  tracker_->function_start(0, 1);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 1)");
}

TEST_F(CallTrackerTest, ARetpolineIsAJump) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  ret(kStackA - 48, 3);  // below every frame: jumps to what it put there
  ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 3( 3) 2) 1)");
  EXPECT_EQ(counters().unmatched_returns, 0u);
}

TEST_F(CallTrackerTest, AnInterruptEndsWithItsReturnWhereverItsStackIs) {
  call(1, kStackA - 8);
  sp_ = kStackA - 4096;
  tracker_->event(0, 7);
  call(8, kStackA - 4200), ret(kStackA - 4200);
  tracker_->interrupt_return(0);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 7( 8( 8) 7) 1)");
}

TEST_F(CallTrackerTest, ALabelOnTheWayBackFromAnInterruptIsNoSecondOne) {
  call(1, kStackA - 8);
  interrupted_level_ = 0;
  sp_ = kStackA - 64;
  tracker_->function_start(0, 7);
  call(8, kStackA - 200), ret(kStackA - 200);
  sp_ = kStackA - 56;  // the error code is off the stack
  tracker_->function_start(0, 9);
  tracker_->interrupt_return(0);
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 7( 8( 8) 9( 9) 7) 1)");
  EXPECT_EQ(counters().events, 1u);
}

TEST_F(CallTrackerTest, AHandlerThatDoesNotComeBackEndsWhereItsStackIsUsedAgain) {
  call(1, kStackA - 8);
  sp_ = kStackA - 64;
  tracker_->event(0, 7);
  call(8, kStackA - 200), call(2, kStackA - 40), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 7( 8( 8) 7) 2( 2) 1)");
}

// The handler begins on the program's stack pointer.
TEST_F(CallTrackerTest, AThousandSystemCallsLeaveNothingBehind) {
  for (int i = 0; i < 1000; ++i) {
    site_.level = 3;
    site_.ret = 0x1000;
    tracker_->call(site_, 1, 0x7fff00001000);
    tracker_->system_call(3);
    sp_ = 0x7fff00000ff8;
    tracker_->function_start(0, 7);
    site_.level = 0;
    call(8, kStackA - 8), ret(kStackA - 8);
    tracker_->system_return();
    tracker_->return_at(3, 0x7fff00001000, [] { return std::uint64_t{0x1000}; });
  }
  EXPECT_EQ(counters().unmatched_returns, 0u);
  std::size_t frames = 0;
  pool_.for_each([&](const Stack& stack) { frames += stack.depth(); });
  EXPECT_LT(frames, 5u);
  const std::string all = records();
  EXPECT_EQ(all.substr(0, 36), "1( 7( 8( 8) 7) 1) 1( 7( 8( 8) 7) 1) ");
}

TEST_F(CallTrackerTest, AThreadSwitchClosesWhatIsOpenAndLaterReturnsAreSilent) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  ret(kStackB - 40, 0x1009);  // another thread's return: nothing of it was seen
  call(3, kStackB - 72), ret(kStackB - 72);
  ret(kStackA - 40, 0x1002);  // back: 2 returns
  call(4, kStackA - 40), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 2) 1) 3( 3) 4( 4)");
  EXPECT_EQ(counters().unmatched_returns, 1u);
  EXPECT_EQ(entered_, 3u);
}

TEST_F(CallTrackerTest, WhatIsCalledAfterASilentReturnIsClosedByTheNextSwitch) {
  call(1, kStackA - 8), call(2, kStackA - 40);
  ret(kStackB - 40, 0x1009);
  ret(kStackA - 40, 0x1002);
  call(4, kStackA - 40);
  ret(kStackB - 40, 0x1009);
  call(5, kStackB - 72), ret(kStackB - 72);
  EXPECT_EQ(records(), "1( 2( 2) 1) 4( 4) 5( 5)");
}

// Another vCPU may be giving the buffer of a stack back that this one is not on.
TEST_F(CallTrackerTest, AStopClosesOfStacksThatWanderOnlyTheOneThatTheVcpuIsOn) {
  StackPool shared(true);
  stacks_have_tasks_ = true;
  start(true, shared);
  call(1, kStackA - 8);
  ret(kStackB - 40, 0x1009), call(2, kStackB - 72);
  tracker_->set_recording(false);
  tracker_->set_recording(true);
  call(4, kStackB - 104), ret(kStackB - 104), ret(kStackB - 72);
  ret(kStackA - 40), call(5, kStackA - 40), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(records(1), "1( 5( 5) 1)");
  EXPECT_EQ(records(2), "2( 2) 4( 4)");
}

TEST_F(CallTrackerTest, ACallOntoAnotherStackNests) {
  call(1, kStackA - 8);
  call(2, kStackB - 8), ret(kStackB - 8);  // an interrupt stack
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 2( 2) 1)");
}

TEST_F(CallTrackerTest, RecursionHasNoLimit) {
  std::uint64_t slot = 0x7ffff000;
  for (int i = 0; i < 20000; ++i) call(1, slot -= 16);
  for (int i = 0; i < 20000; ++i) ret(slot), slot += 16;
  EXPECT_EQ(counters().unmatched_returns, 0u);
  EXPECT_EQ(counters().unwound, 0u);
}

// A guest may recurse as deep as it likes: what has no room is counted, what has it stays balanced.
TEST_F(CallTrackerTest, CallsBeyondTheBudgetOfFramesAreCounted) {
  constexpr std::uint64_t kCalls = FrameBudget::kMost + 50'000;
  std::uint64_t slot = 0x7fff0000;
  for (std::uint64_t i = 0; i < kCalls; ++i) call(1, slot -= 16);
  for (std::uint64_t i = 0; i < kCalls; ++i) ret(slot, 0x1001), slot += 16;
  call(2, slot - 16), ret(slot - 16);
  (void)records();
  EXPECT_EQ(of_type(RecordType::kEntry) + of_type(RecordType::kExit) + lost(), 2 * kCalls + 2);
  EXPECT_EQ(of_type(RecordType::kEntry), of_type(RecordType::kExit));
  EXPECT_GT(lost(), 100'000u);
}

TEST_F(CallTrackerTest, WithoutSlotsTooTheReturnsOfCallsWithoutRoomAreTheirs) {
  start(false);
  site_.ret = 0x1001;
  constexpr std::uint64_t kCalls = FrameBudget::kMost + 50'000;
  sp_ = 0x7fff0000;
  const auto step = [this](bool calls) {
    if (!calls) {
      tracker_->return_plain(0, [] { return std::uint64_t{0x1001}; });
      sp_ += 16;
      return;
    }
    tracker_->call(site_, 1, 0);
    tracker_->return_address_saved(sp_ -= 16);
  };
  for (std::uint64_t i = 0; i < kCalls; ++i) step(true);
  for (std::uint64_t i = 0; i < 50'000; ++i) step(false);
  EXPECT_EQ(of_type(RecordType::kExit), 0u) << "of those that have room";
  for (std::uint64_t i = 50'000; i < kCalls; ++i) step(false);
  (void)records();
  EXPECT_EQ(of_type(RecordType::kEntry), of_type(RecordType::kExit));
  EXPECT_EQ(of_type(RecordType::kEntry) * 2 + lost(), 2 * kCalls);
  EXPECT_EQ(counters().unmatched_returns, 0u);
}

TEST_F(CallTrackerTest, CallsOnStacksThatAreTooManyAreCounted) {
  StackPool all(true);
  Stack nowhere;
  std::vector<Stack*> stacks;
  for (std::uint64_t i = 0; i < StackPool::kMostShared; ++i) {
    Stack& left = stacks.empty() ? nowhere : *stacks.back();
    stacks.push_back(all.find({0, i + 10, 0}, kStackA, 0, left));
    ASSERT_NE(stacks.back(), nullptr);
  }
  EXPECT_EQ(all.find({0, 5, 0}, kStackA, 0, *stacks.back()), nullptr);
  EXPECT_EQ(all.find({0, 17, 0}, kStackA, 0, *stacks.back()), stacks[7]) << "known";
  tracker_ = std::make_unique<CallTracker>(0, *this, *this, *this, all, TrackerOptions());
  for (const std::uint64_t stack : {kStackA, kStackB, kStackA}) {
    call(1, stack - 8), call(2, stack - 40), ret(stack - 40), ret(stack - 8);
  }
  EXPECT_EQ(records(), "");
  EXPECT_EQ(without_task_, 12u);
  EXPECT_EQ(entered_, 0u);
  // As text, too.
  struct Text : CallText {
    void write(bool, std::uint32_t, std::uint64_t, std::uint64_t) override { ++written; }
    void leave_out(std::uint64_t count) override { left_out += count; }
    std::uint64_t written = 0, left_out = 0;
  } text;
  TrackerOptions options;
  options.text = &text;
  tracker_ = std::make_unique<CallTracker>(0, *this, *this, *this, all, options);
  call(1, kStackA - 8), call(2, kStackA - 40), ret(kStackA - 40), ret(kStackA - 8);
  EXPECT_EQ(text.written, 0u);
  EXPECT_EQ(text.left_out, 4u);
}

TEST_F(CallTrackerTest, WhereCallsAreMissingAReturnIsNoJump) {
  call(1, kStackA - 8);
  tracker_->miss_calls();
  ret(kStackA - 40, 2);  // of a call that was not seen
  ret(kStackA - 8);
  EXPECT_EQ(records(), "1( 1)");
  EXPECT_EQ(of_type(RecordType::kLost), 1u) << "how many, nobody can tell";
}

// Two harts of a machine start with the same stack pointer, 0; a thread goes from one to the other.
TEST(StackPoolTest, AStackIsOneVcpusAtATimeAndGoesWithItsThread) {
  StackPool pool(true);
  Stack nowhere;
  Stack* first = pool.find({0, 0, 3}, 0, 0, nowhere);
  Stack* second = pool.find({0, 0, 3}, 0, 1, nowhere);
  EXPECT_NE(first, second);
  Stack* thread = pool.find({0, 0, 3}, 0x80010000, 0, *first);
  thread->hint = 0x80010000;
  Stack* idle = pool.find({0, 0, 3}, 0x90010000, 0, *thread);
  EXPECT_EQ(pool.find({0, 0, 3}, 0x8000fff0, 1, *second), thread);
  EXPECT_NE(pool.find({0, 0, 3}, 0x8000fff0, 0, *idle), thread);
}

TEST(StackPoolTest, StacksSideBySideAreFoundAgainByTheirPlaces) {
  StackPool pool(true);
  Stack nowhere;
  const StackKey kernel{0, 0, 1}, machine{0, 0, 3};
  Stack* first = pool.find(kernel, 0x80010000, 0, nowhere);
  Stack* second = pool.find(kernel, 0x80014000, 1, nowhere);
  ASSERT_NE(first, second);
  first->hint = 0x80010000, second->hint = 0x80014000;
  Stack* handler = pool.find(machine, 0x90000000, 0, *first);
  Stack* other = pool.find(machine, 0x90000000, 1, *second);
  EXPECT_EQ(pool.find(kernel, 0x80013ff0, 1, *other), second);
  EXPECT_EQ(pool.find(kernel, 0x8000fff0, 0, *handler), first);
}

}  // namespace
}  // namespace trapline
