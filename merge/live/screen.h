// The terminal, through ncurses: lines out, keys in.
#pragma once

#include <memory>

#include "backend_ftrace/base/result.h"
#include "merge/live/view.h"

namespace trapline::live {

class Screen {
 public:
  // An error (kUsage): stdin or stdout is no terminal; it says what to use instead.
  [[nodiscard]] static Result<void> can_open();
  // Errors (kUsage): also a terminal that ncurses does not know.
  [[nodiscard]] static Result<std::unique_ptr<Screen>> open(bool colours);
  // The terminal is as it was before.
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  [[nodiscard]] std::size_t width() const;
  [[nodiscard]] std::size_t height() const;
  // Only what has changed is sent.
  void draw(const std::vector<Line>& lines);
  // The next key (Key, or a character), -1: none now. A new size is no key: it is taken in.
  [[nodiscard]] int key();

 private:
  explicit Screen(bool colours) : colours_(colours) {}
  [[nodiscard]] unsigned attributes(Look look) const;
  bool colours_;
};

}  // namespace trapline::live
