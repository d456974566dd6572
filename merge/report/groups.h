// Groups exits by any combination of dimensions. Keys are numbers; a key's text is made once per
// group, at the end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "merge/analyze/guest_stacks.h"
#include "merge/model/exit_span.h"
#include "merge/model/flat_index.h"
#include "merge/model/histogram.h"
#include "merge/pass/naming.h"
#include "merge/report/grouping.h"
#include "merge/report/table.h"

namespace trapline {

// The sums of exits, or of calls.
struct ExitSums {
  bool halts = false;                 // all of the exits are halts
  Histogram total;                    // durations of the exits that ended
  Parts parts{};                      // parts of the exits that ended
  std::uint64_t cut = 0, open = 0;    // exits that did not end
  std::uint64_t unended_cost_ns = 0;  // cost of exits that did not end, as far as recorded
  // For calls: the part of their guest time that devices may have used.
  std::uint64_t devices_at_most_ns = 0;
  std::uint64_t max_at_ns = 0;                   // when the longest exit began
  [[nodiscard]] std::uint64_t cost_ns() const {  // for exits, not for calls
    return trapline::cost_ns(parts) + unended_cost_ns;
  }
  [[nodiscard]] std::uint64_t count() const { return total.count() + cut + open; }

  void merge(const ExitSums& other);
  void add(const ExitSpan& exit);
  void add(const FunctionCall& call);
  // Returns the time of calls that is in none of the parts.
  [[nodiscard]] std::uint64_t guest_ns() const {
    std::uint64_t rest = total.total();
    for (const std::uint64_t part : parts) rest -= std::min(rest, part);
    return rest;
  }
};

struct ExitGroup : ExitSums {
  GroupKey key;
};
inline constexpr std::size_t kMostGroups = 4096;

// A group with its text.
struct GroupRow : ExitSums {
  std::string key{};
  // The device or detail that took most of the row's time, how much, and by how many exits; for
  // exits only.
  std::string largest{};
  std::uint64_t largest_ns = 0, largest_exits = 0;
  bool largest_at_least = false;
};

struct ReportData;
// Returns the columns of these rows in text, JSON, CSV and the page.
[[nodiscard]] TableOf<GroupRow> group_columns(std::vector<GroupRow> rows, const ReportData& report);
// Returns the table of --by.
[[nodiscard]] Table group_table(const ReportData& report);

// Finds what most exits of each row were about: a device or, if none is known, a detail ("port 0x71
// read"). Dimensions that are part of the row's key are left out.

class Subjects {
 public:
  static constexpr std::size_t kMost = 16'384;

  explicit Subjects(const std::vector<Dimension>& by);

  // Adds an exit of that group; halts have no subject, nor has the group kMostGroups, "[other]".
  void add(std::uint32_t group, const ExitSpan& exit);

  // Sets the subject with the most time in each row. Row `row_of_group[i]` contains group i.
  void fill(std::vector<GroupRow>& rows, const std::vector<std::uint32_t>& row_of_group,
            const Naming& names) const;

 private:
  struct Key {
    std::uint32_t group = 0;
    NameId device = kNoName;
    DetailKind kind{};
    std::uint64_t value = 0;
    Access access{};
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Sum {
    Key key;
    std::uint64_t ns = 0, exits = 0;
  };
  std::uint32_t place_of(Key key);

  bool devices_, details_;
  std::vector<Sum> sums_;
  FlatIndex index_;
  std::vector<std::uint32_t> last_;   // by group: the last subject, since it seldom changes
  std::set<std::uint32_t> overflow_;  // groups with exits that found no room
};

}  // namespace trapline
