// Exits by any combination of dimensions. A key is numbers; its text is made once per group, at the
// end. At most kMost groups: what comes then is counted as one, "[other]".
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "merge/analyze/guest_stacks.h"
#include "merge/model/exit_span.h"
#include "merge/model/flat_index.h"
#include "merge/model/histogram.h"
#include "merge/pass/naming.h"
#include "merge/report/keyed_rows.h"
#include "merge/report/table.h"

namespace trapline {

struct GroupRow {
  std::string key;
  bool halts = false;                    // all of its exits are halts
  Histogram total;                       // of those that ended
  Parts parts{};                         // the same
  std::uint64_t cut = 0, open = 0;       // exits that did not end
  std::uint64_t unended_cost_ns = 0;     // what they cost as far as they were recorded
  std::uint64_t devices_at_most_ns = 0;  // of calls: what of their guest's time may be devices'
  std::uint64_t max_at_ns = 0;           // when the longest began
  // What most of its time was about, a device or a detail, and how much; of exits only.
  std::string largest;
  std::uint64_t largest_ns = 0;
  bool largest_at_least = false;
  [[nodiscard]] std::uint64_t cost_ns() const {  // of exits
    return trapline::cost_ns(parts) + unended_cost_ns;
  }
  [[nodiscard]] std::uint64_t count() const { return total.count() + cut + open; }

  void merge(const GroupRow& other);
  void add(const ExitSpan& exit);
  // Of calls: what the parts leave.
  [[nodiscard]] std::uint64_t guest_ns() const {
    std::uint64_t rest = total.total();
    for (const std::uint64_t part : parts) rest -= std::min(rest, part);
    return rest;
  }
};

class Groups {
 public:
  static constexpr std::size_t kMost = 4096;
  static constexpr std::uint32_t kOther = kMost;

  explicit Groups(std::size_t words) : groups_(words, kMost) {}

  // The group's place, kOther where there was no more room.
  std::uint32_t add(const GroupKey& key, const ExitSpan& span);
  void add(const GroupKey& key, const FunctionCall& call);
  [[nodiscard]] std::uint64_t folded() const { return folded_; }

  struct Group {
    GroupKey key;
    GroupRow row;  // without its text
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_.rows(); }
  // Of the exits that found no place; empty when all did.
  [[nodiscard]] const GroupRow& other() const { return other_; }

 private:
  GroupRow& row_at(std::uint32_t place);

  KeyedRows<Group> groups_;
  GroupRow other_;
  std::uint64_t folded_ = 0;
};

struct ReportData;
// The columns of rows that text, JSON, CSV and the page have.
[[nodiscard]] TableOf<GroupRow> group_columns(std::shared_ptr<const std::vector<GroupRow>> rows,
                                              const ReportData& report);
// The table of --by.
[[nodiscard]] Table group_table(const ReportData& report);

// What the exits of each row were about more than others: a device, or where none is known, a
// detail ("port 0x71 read"). What the rows' own keys say is not said again.

class Subjects {
 public:
  static constexpr std::size_t kMost = 16'384;

  explicit Subjects(const std::vector<Dimension>& by);

  // An exit of that group, Groups::kOther excepted; halts are about nothing.
  void add(std::uint32_t group, const ExitSpan& exit);

  struct Subject {
    std::string text;  // empty: no exit of the row was about anything
    std::uint64_t ns = 0;
    bool at_least = false;  // some of its exits found no place here
  };
  // The one with the most time, of each row.
  [[nodiscard]] std::vector<Subject> of_rows(const std::vector<std::uint32_t>& row_of_group,
                                             std::size_t rows, const Naming& names) const;

 private:
  struct Sum {
    std::uint32_t group = 0;
    NameId device = kNoName;
    KvmDetail detail{};
    std::uint64_t ns = 0;
  };
  [[nodiscard]] static bool is_same(const Sum& a, const Sum& b);
  Sum* sum_of(const Sum& subject);
  void add_other(std::uint32_t group, const ExitSpan& exit, bool by_device);

  bool devices_, details_;
  std::vector<Sum> sums_;
  FlatIndex index_;
  std::vector<std::uint32_t> last_;  // by group: what its exits are about seldom changes
  std::vector<bool> overflow_;       // by group
};

}  // namespace trapline
