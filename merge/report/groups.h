// Exits by any combination of dimensions. A key is numbers; its text is made once per group, at the
// end. At most kMost groups: what comes then is counted as one, "[other]".
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/report/report.h"

namespace trapline {

enum class Dimension : std::uint8_t {
  kReason,
  kDetail,
  kDevice,
  kQemuEvent,
  kFunction,
  kStack,
  kVcpu,
  kVm,
  kPreemptedBy,
  kBlockedOn,
  kCount  // of them
};
// "reason,device"; an Error names what is unknown and what there is.
[[nodiscard]] Result<std::vector<Dimension>> parse_dimensions(std::string_view text);

// What an exit is in each dimension; a detail takes two words.
struct GroupKey {
  static constexpr std::size_t kWords = static_cast<std::size_t>(Dimension::kCount) + 1;
  std::array<std::uint64_t, kWords> words{};
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

class Groups {
 public:
  static constexpr std::size_t kMost = 4096;

  explicit Groups(std::size_t words) : words_(words), slots_(256, kEmpty) {}

  void add(const GroupKey& key, const ExitSpan& span);
  [[nodiscard]] std::uint64_t folded() const { return folded_; }

  struct Group {
    GroupKey key;
    GroupRow row;  // without its text
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  // Of the exits that found no place; empty when all did.
  [[nodiscard]] const GroupRow& other() const { return other_; }

 private:
  static constexpr std::uint32_t kEmpty = ~std::uint32_t{0};
  [[nodiscard]] std::size_t slot_of(const GroupKey& key) const;
  void grow();
  static void count(GroupRow& row, const ExitSpan& span);

  std::size_t words_;  // of a key that are used
  std::vector<Group> groups_;
  std::vector<std::uint32_t> slots_;  // open addressing, a power of two, at most half full
  GroupRow other_;
  std::uint64_t folded_ = 0;
};

}  // namespace trapline
