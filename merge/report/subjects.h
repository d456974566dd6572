// What the exits of each row were about more than others: a device, or where none is known, a
// detail ("port 0x71 read"). What the rows' own keys say is not said again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "merge/model/exit_span.h"
#include "merge/model/flat_index.h"
#include "merge/pass/naming.h"
#include "merge/report/groups.h"

namespace trapline {

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
