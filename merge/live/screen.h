// The terminal, through ncurses: prints lines and reads keys.
#pragma once

#include <memory>

#include "backend_ftrace/base/result.h"
#include "merge/live/view.h"

namespace trapline::live {

class Screen {
 public:
  // Returns an error (kUsage) if stdin or stdout is not a terminal; it says what to use instead.
  [[nodiscard]] static Result<void> can_open();
  // Errors (kUsage): as above, or ncurses does not know the terminal.
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool colours);
  // Restores the terminal.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] std::size_t width() const;
  [[nodiscard]] std::size_t height() const;
  // Sends only what has changed.
  void draw(const std::vector<Line>& lines);
  // Returns the next key (Key, or a character); -1: none now. A new size is handled here and is not
  // a key.
  [[nodiscard]] int key();

 private:
  explicit Screen(bool colours) : colours_(colours) {}
  [[nodiscard]] unsigned attributes(Look look) const;
  bool colours_;
};

}  // namespace trapline::live
