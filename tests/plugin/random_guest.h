// A guest under the call tracker that does what its input says: it calls, returns, jumps, unwinds,
// is interrupted, makes system calls and changes its thread. It knows what happened, so it knows
// what the records must be, one by one:
//
//   each call is entered once and left once, after those that it made, at the depth of what is open
//   a change of thread, or of recording, closes what is open, innermost first
//   times do not go back, and the own times of all calls sum to that of the outermost
//
// Two architectures: one whose calls push the return address (x86), one with a link register.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plugin/call_tracker.h"
#include "tests/fuzz/choices.h"

namespace trapline::test {

class RandomGuest : public GuestState,
                    public TaskChooser,
                    public FunctionFilter,
                    public RecordSink,
                    public CallText {
 public:
  explicit RandomGuest(std::string_view input);

  // Lives to the end of the input. What is not as it must be; nullptr: everything is.
  [[nodiscard]] const char* live();
  // The same, but the host tells any nonsense: what is recorded must be balanced all the same.
  [[nodiscard]] const char* live_lawlessly();

  struct Step {
    bool entry = false;
    std::uint64_t depth = 0, function = 0;
    friend bool operator==(const Step&, const Step&) = default;
  };
  [[nodiscard]] const std::vector<Step>& expected() const { return expected_; }
  [[nodiscard]] std::vector<Step> recorded_steps() const;

 private:
  enum class Kind : std::uint8_t { kCall, kTail, kEvent };
  struct Known {
    Kind kind = Kind::kCall;
    std::uint64_t slot = 0, function = 0, ret = 0;
    bool open = false, saved = true;
  };
  struct Place {
    std::uint64_t base = 0;
    std::vector<Known> frames;
    bool visited = false;
    [[nodiscard]] std::uint64_t stack_pointer() const {
      return frames.empty() ? base : frames.back().slot;
    }
  };

  std::uint64_t stack_pointer() override { return sp_; }
  std::uint64_t address_space() override { return 0x1000; }
  int interrupted_level_at(std::uint64_t) override { return interrupted_level_; }
  std::uint64_t return_address(std::uint64_t) override { return 0; }
  Task* task_for(unsigned, const StackKey&, std::uint64_t) override { return &task_; }
  bool recorded(std::uint64_t function) const override { return !filtered_ || function % 4 != 3; }
  bool is_start(std::uint64_t address) const override { return address < 1000; }
  std::size_t append(std::uint32_t, std::span<const Record> records) override;
  void release(std::uint32_t) override {}
  void write(bool entry, std::uint32_t task, std::uint64_t depth, std::uint64_t function) override;

  void step();
  void save_link();
  void call();
  void give_back();  // returns, from the innermost function or from one further out
  void leave_handler();
  void stray();
  void jump();
  void interrupt();
  void end_interrupt();
  void system_call();
  void change_thread();
  void record(bool on);
  void take_request();

  [[nodiscard]] bool in_user() const { return place_ == &user_; }
  [[nodiscard]] unsigned level() const { return in_user() ? user_level_ : kernel_level_; }
  void note_entry(Kind kind, std::uint64_t function, std::uint64_t slot, std::uint64_t ret);
  void note_exits(std::size_t keep);  // all but so many of the present place's frames
  void close_open();
  void nonsense();
  [[nodiscard]] const char* check_balance() const;

  std::string bytes_;
  fuzz::Choices input_;
  bool slots_, told_, filtered_ = false, recording_ = true, nothing_lasts_ = false;
  unsigned user_level_, kernel_level_;
  TrackerOptions options_;
  StackPool pool_{false};
  Task task_{7, *this, 64};
  std::unique_ptr<CallTracker> tracker_;
  Place user_, kernel_[2];
  Place* place_ = &kernel_[0];
  bool user_below_ = false;  // kernel_[0] was entered from user_
  bool changed_in_system_call_ = false;
  std::uint64_t sp_ = 0, next_ret_ = 0x5000, depth_ = 0;
  int interrupted_level_ = -1;
  int request_ = 0;
  TrackerCounters counted_;
  std::vector<Step> expected_, said_;
  std::vector<Record> records_;
};

}  // namespace trapline::test
