// The losses of a text. A line that tells of one stands before the next event of its CPU, maybe
// long after the last one; the timeline has to know it when it has read the last one, so they are
// sought before the text is read. A text without any is only searched for the words.
#pragma once

#include <cstdint>
#include <vector>

#include "merge/source/file.h"

namespace trapline::trace_text {

struct TextLoss {
  std::uint64_t offset = 0;  // in the file: after the last event before it, of its CPU
  std::uint64_t from = 0, to = 0;
  std::uint64_t count = 0;  // 0: not known
  std::uint32_t cpu = 0;
};

// In order of their offsets. Errors: the file cannot be read; more than a recording can have.
[[nodiscard]] Result<std::vector<TextLoss>> find_text_losses(const File& file);

}  // namespace trapline::trace_text
