// The terminal: prints lines with their looks and reads keys, with the control sequences that every
// terminal of today has (ECMA-48).
#pragma once

#include <termios.h>
#include <unistd.h>

#include <sys/ioctl.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "merge/live/view.h"
#include "merge/render/text_table.h"

namespace trapline::live {

// Reads keys one by one, and draws on the terminal's alternate screen, without a cursor. Long lines
// are cut.
class Screen {
 public:
  explicit Screen(bool colours) : colours_(colours) { enter(); }
  // Restores the terminal.
  ~Screen() { leave(); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] TextStyle style() const { return {.width = size_.ws_col, .colours = colours_}; }
  [[nodiscard]] std::size_t height() const { return size_.ws_row; }
  void draw(const std::vector<std::string>& lines) {
    std::string text = "\x1b[H";
    for (std::size_t y = 0; y < lines.size() && y < height(); ++y)
      text += (y == 0 ? "\x1b[K" : "\n\x1b[K") + lines[y];
    write_out(text + "\x1b[J");
  }
  // Returns the next key (Key, or a character); -1: none now; 0: none, but draw the screen again.
  [[nodiscard]] int key() {
    const winsize before = size_;
    look_at_size();
    if (before.ws_col != size_.ws_col || before.ws_row != size_.ws_row) return 0;
    if (typed_.empty()) read_typed();
    if (typed_.empty()) return -1;
    constexpr char kEsc = 27, kSuspend = 26;
    if (typed_[0] == kEsc) return take_sequence();
    const int key = static_cast<unsigned char>(typed_[0]);
    typed_.erase(0, 1);
    if (key == kSuspend) {
      leave();
      (void)::raise(SIGTSTP);
      enter();
      return 0;
    }
    if (key == '\r' || key == '\n') return kEnter;
    if (key == 127 || key == 8) return kBack;
    return key == '\t' ? int{kTab} : key;
  }

 private:
  void enter() {
    (void)::tcgetattr(STDIN_FILENO, &before_);
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    raw.c_cc[VMIN] = raw.c_cc[VTIME] = 0;
    raw.c_cc[VSUSP] = _POSIX_VDISABLE;
    (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    look_at_size();
    write_out("\x1b[?1049h\x1b[?25l\x1b[?7l");
  }
  void leave() {
    write_out("\x1b[?7h\x1b[?25h\x1b[?1049l");
    (void)::tcsetattr(STDIN_FILENO, TCSADRAIN, &before_);
  }
  void look_at_size() {
    if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size_) != 0 || size_.ws_col == 0 || size_.ws_row == 0)
      size_.ws_col = 80, size_.ws_row = 24;
  }
  static void write_out(const std::string& text) {
    (void)std::fwrite(text.data(), 1, text.size(), stdout);
    (void)std::fflush(stdout);
  }
  void read_typed() {
    char bytes[64];
    if (const ssize_t got = ::read(STDIN_FILENO, bytes, sizeof bytes); got > 0)
      typed_.append(bytes, static_cast<std::size_t>(got));
  }
  // Takes an arrow key's sequence, "ESC [ A" with or without digits. Returns kEscape for ESC alone,
  // and 0 for other sequences.
  [[nodiscard]] int take_sequence() {
    using namespace std::chrono_literals;
    if (typed_.size() == 1) {  // the rest may follow
      std::this_thread::sleep_for(50ms);
      read_typed();
    }
    if (typed_.size() < 2 || (typed_[1] != '[' && typed_[1] != 'O')) {
      typed_.erase(0, 1);
      return kEscape;
    }
    const std::size_t end = std::min(typed_.find_first_not_of("0123456789;", 2), typed_.size() - 1);
    const char last = typed_[end];
    typed_.erase(0, end + 1);
    constexpr int kArrows[] = {kUp, kDown, kRight, kLeft};
    return last >= 'A' && last <= 'D' ? kArrows[last - 'A'] : 0;
  }

  bool colours_;
  winsize size_{};
  termios before_{};
  std::string typed_;  // read, and not yet returned
};

}  // namespace trapline::live
