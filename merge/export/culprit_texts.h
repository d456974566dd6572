// The texts of whom vCPUs waited for, each made once: while a recording is read, so a vCPU that has
// had no exit yet is named as a thread.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

#include "merge/analyze/culprit.h"
#include "merge/analyze/pipeline.h"
#include "merge/source/timeline.h"

namespace trapline {

class CulpritTexts {
 public:
  // `form` is applied to each text when it is made. Borrows the timeline.
  explicit CulpritTexts(
      const Timeline& timeline,
      std::function<std::string(std::string)> form = [](std::string text) { return text; })
      : timeline_(timeline), form_(std::move(form)) {}

  // Valid until the next call.
  [[nodiscard]] const std::string& of(const Culprit& culprit, const Pipeline& pipeline);

 private:
  static constexpr std::size_t kMost = 1u << 16;
  const Timeline& timeline_;
  std::function<std::string(std::string)> form_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

}  // namespace trapline
