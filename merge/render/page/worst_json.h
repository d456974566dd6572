// The longest exits and their neighbourhoods as tables of the page.
#pragma once

#include "merge/pass/naming.h"
#include "merge/render/page/numbered_texts.h"
#include "merge/render/page/worst_exits.h"
#include "merge/report/table.h"

namespace trapline::page {

// What numbers are called, and what times count from.
struct PageNames {
  const Naming& naming;
  std::uint64_t start = 0;
  [[nodiscard]] std::int64_t relative(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns - start);
  }
};

// "virtio_blk_req_complete ...", of which program: "qemu-system-x86-4242".
[[nodiscard]] std::string event_text(const Event& event, const Timeline& timeline);
[[nodiscard]] std::string task_text(const Event& event, const Timeline& timeline);

// The first neighbourhoods have more room than the others.
inline constexpr std::size_t kFirst = 12;
inline constexpr std::size_t kEventsOfFirst = 70, kSpansOfFirst = 64, kEvents = 9, kSpans = 10;

// "worst", with the texts that both name by number, and "neighbourhoods" of the first ones.
[[nodiscard]] std::vector<Table> worst_tables(const WorstExits& worst, const PageNames& names,
                                              std::size_t neighbourhoods);

}  // namespace trapline::page
