// Exits by any combination of dimensions. A key is numbers; its text is made once per group, at the
// end. At most kMost groups: what comes then is counted as one, "[other]".
#pragma once

#include <cstdint>
#include <vector>

#include "merge/report/keyed_rows.h"
#include "merge/report/report.h"

namespace trapline {

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

}  // namespace trapline
