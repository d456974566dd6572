// The view of `trapline top`: the state that keys change, and the lines of the screen, which are a
// report's tables as text. Does not use the terminal itself.
//
//   level   VM ──> vCPU ──> reason ──> device ──> slow exits      Enter goes on, Backspace returns
//   panel   rows | culprits | requests | slow exits               Tab
//   time    live | paused | one of the last minutes               Space, Left, Right
#pragma once

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "merge/live/frame_report.h"
#include "merge/render/text_table.h"

namespace trapline::live {

// The keys that are not characters. A printable key has its character's code.
enum Key : int { kUp = 256, kDown, kLeft, kRight, kEnter, kBack, kTab, kEscape };

class View {
 public:
  static constexpr std::size_t kMostFrames = 600, kMostBytes = 24u << 20;

  explicit View(const Engine& engine);

  void add(Frame&& frame);
  // Handles a key. Returns false if the user wants to leave.
  [[nodiscard]] bool key(int key);
  void say(std::string message) { message_ = std::move(message); }
  // Called for the key w; the text that save() returns is shown.
  std::function<std::string()> save;

  // Returns `height` lines; the first, the path and the last may be wider than the style says.
  [[nodiscard]] std::vector<std::string> draw(TextStyle style, std::size_t height);
  // Forgets all frames: a new pipeline has no names for the numbers in their keys.
  void clear() { frames_.clear(), bytes_ = back_ = 0; }

 private:
  enum class Level : std::uint8_t { kVm, kVcpu, kReason, kDevice, kBy, kSlow };
  [[nodiscard]] static Level after(Level level) {
    return static_cast<Level>(static_cast<int>(level) + 1);
  }
  enum class Panel : std::uint8_t { kRows, kWaits, kRequests, kSlow };
  struct Place {
    Level level = Level::kBy;
    Scope scope;
    std::string title;  // of the row that led there
  };

  [[nodiscard]] const Frame* shown() const;
  [[nodiscard]] Place& here() { return path_.back(); }
  [[nodiscard]] const Place& here() const { return path_.back(); }
  [[nodiscard]] Panel panel() const { return here().level == Level::kSlow ? Panel::kSlow : panel_; }
  [[nodiscard]] std::vector<Dimension> dimensions() const;
  [[nodiscard]] std::vector<LiveRow> rows() const;
  void type(int key);
  void open_row();
  void step_back(std::ptrdiff_t by);

  [[nodiscard]] std::string header(const TextStyle& style) const;
  [[nodiscard]] std::string path_line(const TextStyle& style) const;
  [[nodiscard]] Table row_panel(const Frame& frame, const ReportData& data) const;
  // The lines of a panel: those above its rows, then the rows that contain the filter's text.
  using Lines = std::pair<std::vector<std::string>, std::vector<std::string>>;
  [[nodiscard]] Lines lines(const Frame& frame, const ReportData& data,
                            const TextStyle& style) const;

  const Engine& engine_;
  std::deque<Frame> frames_;
  std::size_t bytes_ = 0, back_ = 0;  // back_: 0 shows the newest frame, 1 the one before, …
  bool paused_ = false, help_ = false, typing_ = false;
  Panel panel_ = Panel::kRows;
  SortBy sort_;
  std::vector<Place> path_;
  std::size_t selected_ = 0;
  std::string filter_, message_;
  std::string answer_;  // answer to the last key, shown instead of a message until the next key
};

}  // namespace trapline::live
