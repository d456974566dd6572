// The pieces of time that are kept: closed intervals, apart from each other and in order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace trapline::record {

struct Window {
  std::uint64_t from = 0, to = 0;
  friend bool operator==(const Window&, const Window&) = default;
};

class Windows {
 public:
  // Joins those that it touches. `from` must not be after `to`.
  void add(Window window) {
    const auto first = std::find_if(windows_.begin(), windows_.end(),
                                    [&](const Window& w) { return w.to >= window.from; });
    auto last = first;
    for (; last != windows_.end() && last->from <= window.to; ++last) {
      window = {std::min(window.from, last->from), std::max(window.to, last->to)};
    }
    windows_.insert(windows_.erase(first, last), window);
  }
  // Takes away those that end before `time`.
  [[nodiscard]] std::vector<Window> take_before(std::uint64_t time) {
    const auto end = std::find_if(windows_.begin(), windows_.end(),
                                  [&](const Window& w) { return w.to >= time; });
    std::vector<Window> taken(windows_.begin(), end);
    windows_.erase(windows_.begin(), end);
    return taken;
  }
  [[nodiscard]] const std::vector<Window>& all() const { return windows_; }

 private:
  std::vector<Window> windows_;
};

}  // namespace trapline::record
