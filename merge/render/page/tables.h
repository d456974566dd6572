// The page's tables, with the figures that the report has by the same dimensions.
//
//   exit ──> row of its combination ─────────────────── sum ──> rows by reason, device, …
//        └─> groups of the table: page faults by address,  ┘
//            and exits of combinations that found no room
//
// A combination's row is counted once for all tables: they are its sums, made at the end.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "merge/render/page/combos.h"
#include "merge/report/groups.h"

namespace trapline::page {

class Tables {
 public:
  Tables();

  // `combo` is the exit's number in Combos.
  void add(std::uint32_t combo, const ExitSpan& exit, StackId stack, const GuestStacks& stacks);

  struct Table {
    std::string by;
    std::vector<GroupRow> rows;
  };
  // In the report's order, the largest first: by total where `durations`, else by count.
  [[nodiscard]] std::vector<Table> tables(const Combos& combos, const Naming& names,
                                          bool durations) const;

 private:
  struct Own {
    explicit Own(std::string_view text);
    std::string text;
    std::vector<Dimension> by;
    ExitKeys keys;
    bool details;  // combinations lack the addresses of page faults
    Groups groups;
  };
  [[nodiscard]] std::vector<GroupRow> rows(const Own& own, const Combos& combos,
                                           const Naming& names, bool durations) const;

  std::deque<Own> own_;
  std::vector<GroupRow> combos_;   // by number
  std::vector<bool> has_address_;  // of a combination: its exits are page faults
};

}  // namespace trapline::page
