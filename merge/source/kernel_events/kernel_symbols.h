// The functions of a recorded kernel, from the copy of /proc/kallsyms in the recording.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::kernel_events {

class KernelSymbols {
 public:
  // Parses lines like "ffffffff81000000 T _text\t[module]"; skips other lines and hidden addresses
  // (0).
  explicit KernelSymbols(std::string text);
  // Returns the function that ftrace means by the address of an entry: it begins there, or at most
  // kMostBefore bytes before, since the tracer's call site follows the function's start. Empty:
  // none.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;

 private:
  static constexpr std::uint64_t kMostBefore = 32;
  struct Symbol {
    std::uint64_t address;
    std::uint32_t at, size;  // offset and size of its name in text_
  };
  std::string text_;
  std::vector<Symbol> symbols_;  // sorted by address
};

}  // namespace trapline::kernel_events
