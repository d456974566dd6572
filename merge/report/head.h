// What every report of recordings begins with: of what it is, and what was lost of it.
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

struct SourceRow {
  std::string path, kind, clock;
  std::optional<std::uint64_t> resolution_ns = std::nullopt;  // nothing: its clock's own unit
  std::uint64_t events = 0, lost = 0;
  SourceAlignment aligned;
};

[[nodiscard]] std::vector<SourceRow> source_rows(const Timeline& timeline);
[[nodiscard]] Table source_table(std::vector<SourceRow> rows);

// "command", "time_unit", "interval", "losses".
[[nodiscard]] Facts head_facts(std::string_view command, bool cycles, std::uint64_t begin_ns,
                               std::uint64_t end_ns, const LossCounts& losses);
// A report of the pass with its head and its sources.
[[nodiscard]] Report begin_report(std::string_view command, const Pass& pass);

// A counter: JSON has all, text those that are above what is expected.
struct CounterRow {
  std::string_view key;
  std::optional<std::uint64_t> count;  // nothing: not known
  std::string sentence{};              // of the text; empty: not there
  std::uint64_t expected = 0;
};
[[nodiscard]] Table counter_table(const std::vector<CounterRow>& rows);

}  // namespace trapline
