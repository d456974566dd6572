// The beginning of every report of recordings: what they contain, and what was lost.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "merge/model/loss_counts.h"
#include "merge/model/source_alignment.h"
#include "merge/pass/pass.h"
#include "merge/report/table.h"

namespace trapline {

struct SourceRow : SourceInfo {
  std::uint64_t events = 0, lost = 0;
};

[[nodiscard]] std::vector<SourceRow> source_rows(const Timeline& timeline);
[[nodiscard]] Table source_table(std::vector<SourceRow> rows);

// Returns the facts "command", "time_unit", "interval" and "losses".
[[nodiscard]] Facts head_facts(std::string_view command, bool cycles, std::uint64_t begin_ns,
                               std::uint64_t end_ns, const LossCounts& losses);
// Makes a report of the pass with its head and its sources.
[[nodiscard]] Report begin_report(std::string_view command, const PassEnd& pass);

// A counter. JSON has all counters; text has only those that exceed `expected`.
struct CounterRow {
  std::string_view key;
  std::optional<std::uint64_t> count;  // nullopt: not known
  std::string sentence{};              // for text; empty: text does not have the counter
  std::uint64_t expected = 0;
};
[[nodiscard]] Table counter_table(const std::vector<CounterRow>& rows);

}  // namespace trapline
