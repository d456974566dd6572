// The functions of a recorded kernel, from the /proc/kallsyms that its recording kept.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trapline::kernel_events {

class KernelSymbols {
 public:
  // "ffffffff81000000 T _text\t[module]" lines; others, and addresses that were hidden (0), are
  // left out.
  explicit KernelSymbols(std::string text);
  // The function that ftrace means by the address of its entry: that begins there, or at most
  // kMostBefore bytes before, where the tracer is called. Empty: none.
  [[nodiscard]] std::string_view function_at(std::uint64_t address) const;

 private:
  static constexpr std::uint64_t kMostBefore = 32;
  struct Symbol {
    std::uint64_t address;
    std::uint32_t at, size;  // its name, in text_
  };
  std::string text_;
  std::vector<Symbol> symbols_;  // by address
};

}  // namespace trapline::kernel_events
