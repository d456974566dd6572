#include "merge/source/trace_dat/tail.h"

#include <string_view>

#include "merge/source/trace_dat/layout_reader.h"

namespace trapline::trace_dat {
namespace {

using namespace std::literals;

// Numbers are in the byte order of the machine, which the header names.
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_option(std::string& out, Option id, std::string_view text) {
  put(out, static_cast<std::uint16_t>(id));
  put(out, static_cast<std::uint32_t>(text.size() + 1));
  out.append(text);
  out.push_back('\0');
}

}  // namespace

Tail trace_dat_tail(const TailFacts& facts, std::uint64_t head_bytes, std::size_t page_size,
                    const std::vector<std::uint64_t>& sizes) {
  Tail tail;
  put(tail.bytes, static_cast<std::uint64_t>(facts.cmdlines.size()));
  tail.bytes += facts.cmdlines;
  put(tail.bytes, static_cast<std::uint32_t>(sizes.size()));
  tail.bytes += "options  \0"sv;
  for (const std::string& stats : facts.cpu_stats) put_option(tail.bytes, kCpuStat, stats);
  put_option(tail.bytes, kTraceClock, facts.clocks);
  put_option(tail.bytes, kUname, facts.uname);
  put_option(tail.bytes, kVersion, facts.version);
  put(tail.bytes, static_cast<std::uint16_t>(kDone));
  tail.bytes += "flyrecord\0"sv;
  const auto to_page = [page_size](std::uint64_t at) {
    return (at + page_size - 1) / page_size * page_size;
  };
  std::uint64_t at = to_page(head_bytes + tail.bytes.size() + sizes.size() * 16);
  for (const std::uint64_t size : sizes) {
    tail.areas.push_back({at, size});
    put(tail.bytes, at);
    put(tail.bytes, size);
    at = to_page(at + size);
  }
  const std::uint64_t first =
      tail.areas.empty() ? to_page(head_bytes + tail.bytes.size()) : tail.areas.front().offset;
  tail.bytes.resize(first - head_bytes, '\0');
  return tail;
}

}  // namespace trapline::trace_dat
