// What the screen of `trapline top` shows: the state that keys change, and its lines. Knows no
// terminal; tests and screen.h draw the same lines.
//
//   level   VM ──> vCPU ──> reason ──> device ──> slow exits      Enter goes on, Backspace returns
//   panel   rows | culprits | requests | slow exits               Tab
//   time    live | paused | one of the last minutes               Space, Left, Right
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "merge/live/batch.h"

namespace trapline::live {

enum class Look : std::uint8_t {
  kPlain,
  kTitle,
  kDim,
  kSelected,
  kWarning,
  kGuest,
  kKernel,
  kUser,
  kPreempted,
  kBlocked,
  kHalted
};
struct StyledText {
  std::string text;
  Look look = Look::kPlain;
};
using Line = std::vector<StyledText>;

// Printable keys are their character.
enum Key : int { kUp = 256, kDown, kLeft, kRight, kEnter, kBack, kTab, kEscape };

class View {
 public:
  static constexpr std::size_t kMostFrames = 600, kMostBytes = 6u << 20;

  View(const Engine& engine, BatchOptions options);

  void add(Frame&& frame);
  // A key; false: the user wants to leave.
  [[nodiscard]] bool key(int key);
  void say(std::string message) { message_ = std::move(message); }
  // Called for the key w; what it returns is shown.
  std::function<std::string()> save;

  // At most `height` lines of at most `width` columns.
  [[nodiscard]] std::vector<Line> draw(std::size_t width, std::size_t height) const;
  [[nodiscard]] bool paused() const { return paused_; }
  [[nodiscard]] std::size_t frames() const { return frames_.size(); }
  // Forgets what was kept: its numbers have no names any more.
  void clear() { frames_.clear(), bytes_ = back_ = 0; }

 private:
  enum class Level : std::uint8_t { kVm, kVcpu, kReason, kDevice, kSlow, kBy };
  enum class Panel : std::uint8_t { kRows, kWaits, kRequests, kSlow };
  struct Place {
    Level level = Level::kReason;
    Scope scope;
    std::string title;  // of the row that led there
  };
  struct Table;

  [[nodiscard]] const Frame* shown() const;
  [[nodiscard]] Place& here() { return path_.back(); }
  [[nodiscard]] const Place& here() const { return path_.back(); }
  [[nodiscard]] std::vector<Dimension> dimensions() const;
  [[nodiscard]] std::vector<LiveRow> rows() const;
  [[nodiscard]] std::size_t row_count() const;
  void type(int key);
  void time_key(int key);
  void open_row();
  void step_back(int by);
  void next_level();
  [[nodiscard]] bool fits_filter(const std::string& text) const;

  [[nodiscard]] Line header(const Frame* frame) const;
  [[nodiscard]] Line path_line() const;
  void draw_vcpus(const Frame& frame, std::size_t width, std::size_t most,
                  std::vector<Line>& lines) const;
  void draw_panel(const Frame& frame, std::size_t width, std::size_t most,
                  std::vector<Line>& lines) const;
  [[nodiscard]] Table rows_table(const Frame& frame) const;
  [[nodiscard]] Table slow_table(const Frame& frame) const;
  [[nodiscard]] Table waits_table(const Frame& frame) const;
  [[nodiscard]] Table requests_table(const Frame& frame) const;
  [[nodiscard]] Line footer() const;

  const Engine& engine_;
  BatchOptions options_;
  std::deque<Frame> frames_;
  std::size_t bytes_ = 0, back_ = 0;  // how many frames before the newest is shown
  bool paused_ = false, help_ = false, typing_ = false;
  Panel panel_ = Panel::kRows;
  SortBy sort_;
  std::vector<Place> path_;
  std::size_t selected_ = 0;
  std::string filter_, message_;
  std::string answer_;  // to the last key: until the next one it is shown in a message's place
};

}  // namespace trapline::live
