// Orders an exit, its parts, and QEMU's handlers inside the parts as they nest, for formats whose
// spans consist of a begin and an end: children must end before the exit.
#pragma once

#include <algorithm>
#include <vector>

#include "merge/model/span.h"

namespace trapline {

// Collects an exit's span and the spans of its children, which follow. One object serves all exits.
class NestedExit {
 public:
  void start(const Span& exit) {
    exit_ = exit;
    parts_.clear();
    handlers_.clear();
    is_open_ = true;
  }
  [[nodiscard]] bool is_open() const { return is_open_; }
  void close() { is_open_ = false; }

  [[nodiscard]] const Span& exit() const { return exit_; }
  void add(const Span& child) {
    (child.kind == SpanKind::kHandler ? handlers_ : parts_).push_back(child);
  }
  // Calls begin(span) and end(span) for the exit and each child, in order of time. A handler that
  // begins before the part in which it ends is passed as if it began with that part.
  template <class Begin, class End>
  void walk(const Begin& begin, const End& end) const {
    begin(exit_);
    std::size_t next = 0;
    for (const Span& part : parts_) {
      begin(part);
      for (; next < handlers_.size() && handlers_[next].end <= part.end; ++next) {
        Span handler = handlers_[next];
        handler.begin = std::max(handler.begin, part.begin);
        begin(handler);
        end(handler);
      }
      end(part);
    }
    end(exit_);
  }

 private:
  Span exit_;
  std::vector<Span> parts_, handlers_;
  bool is_open_ = false;
};

}  // namespace trapline
