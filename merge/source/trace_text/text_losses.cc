#include "merge/source/trace_text/text_losses.h"

#include <algorithm>
#include <map>
#include <span>
#include <string>

#include "backend_ftrace/base/saturated_sum.h"
#include "merge/source/trace_text/text_line.h"
#include "merge/source/trace_text/text_lines.h"

namespace trapline::trace_text {
namespace {

// Of 40 bytes each.
constexpr std::size_t kMostLosses = 500'000;
constexpr std::string_view kLost = "[LOST ", kDropped = "EVENTS DROPPED]";

Result<bool> has_losses(const File& file) {
  constexpr std::size_t kBlockSize = 256U << 10, kOverlap = 32;
  std::string block(kBlockSize, '\0');
  for (std::uint64_t at = 0; at < file.size(); at += kBlockSize - kOverlap) {
    block.resize(static_cast<std::size_t>(std::min<std::uint64_t>(file.size() - at, kBlockSize)));
    if (auto read = file.read(at, std::as_writable_bytes(std::span(block))); !read)
      return tl::unexpected(std::move(read).error());
    if (block.find(kLost) != block.npos || block.find(kDropped) != block.npos) return true;
  }
  return false;
}

struct LastOfCpu {
  std::uint64_t offset = 0, at = 0;
  bool lost = false;
  std::uint64_t count = 0;
};

}  // namespace

Result<std::vector<TextLoss>> find_text_losses(const File& file) {
  std::vector<TextLoss> losses;
  const auto any = has_losses(file);
  if (!any) return tl::unexpected(any.error());
  if (!*any) return losses;
  std::map<std::uint32_t, LastOfCpu> cpus;
  TextLines lines(file);
  std::uint64_t last = 0;
  for (std::string_view text; lines.next(text);) {
    const TextLine line = parse_text_line(text);
    if (line.kind == TextLine::Kind::kLoss) {
      // Before its first event nothing of the CPU was recorded.
      const auto cpu = cpus.find(line.cpu);
      if (cpu == cpus.end()) continue;
      cpu->second.count = saturated_sum(cpu->second.count, line.count);
      cpu->second.lost = true;
    } else if (line.kind == TextLine::Kind::kEvent) {
      last = std::max(last, line.at);
      LastOfCpu& cpu = cpus[line.cpu];
      if (cpu.lost) losses.push_back({cpu.offset, cpu.at, last, cpu.count, line.cpu});
      cpu = {lines.offset(), last, false, 0};
    }
    if (losses.size() > kMostLosses) {
      return fail(ErrorKind::kDamaged,
                  "{}: events were lost more than {} times; record with larger buffers",
                  file.path(), kMostLosses);
    }
  }
  if (!lines.status()) return tl::unexpected(lines.status().error());
  for (const auto& [number, cpu] : cpus)
    if (cpu.lost) losses.push_back({cpu.offset, cpu.at, last, cpu.count, number});
  std::ranges::stable_sort(losses, {}, &TextLoss::offset);
  return losses;
}

}  // namespace trapline::trace_text
