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
#include "merge/model/flat_index.h"
#include "merge/report/report.h"

namespace trapline {

enum class Dimension : std::uint8_t {
  kReason,
  kDetail,
  kDevice,
  kVmmEvent,
  kFunction,
  kStack,
  kVcpu,
  kVm,
  kCpu,
  kNested,
  kPreemptedBy,
  kBlockedOn,
  kCount  // of them
};
// "reason,device"; an Error names what is unknown and what there is: the dimensions, and `alone`,
// which the command takes in their place ("span").
[[nodiscard]] Result<std::vector<Dimension>> parse_dimensions(std::string_view text,
                                                              std::string_view alone = {});

// An Error names the one that only exits have.
[[nodiscard]] Result<void> check_dimensions_of_calls(const std::vector<Dimension>& dimensions);
// "reason, detail, ...": what parse_dimensions() takes.
[[nodiscard]] std::string dimension_names();

// What an exit is in each dimension; a detail takes two words.
struct GroupKey {
  static constexpr std::size_t kWords = static_cast<std::size_t>(Dimension::kCount) + 1;
  std::array<std::uint64_t, kWords> words{};
  bool halted = false;  // of halts, which are one row where the reason is not asked for
  friend bool operator==(const GroupKey&, const GroupKey&) = default;
};

class Groups {
 public:
  static constexpr std::size_t kMost = 4096;

  explicit Groups(std::size_t words) : words_(words), index_(256) {}

  static constexpr std::uint32_t kOther = kMost;
  // The group's place, kOther where there was no more room.
  std::uint32_t add(const GroupKey& key, const ExitSpan& span);
  void add(const GroupKey& key, const FunctionCall& call);
  [[nodiscard]] std::uint64_t folded() const { return folded_; }

  struct Group {
    GroupKey key;
    GroupRow row;  // without its text
  };
  [[nodiscard]] const std::vector<Group>& groups() const { return groups_; }
  // Of the exits that found no place; empty when all did.
  [[nodiscard]] const GroupRow& other() const { return other_; }

 private:
  [[nodiscard]] std::uint32_t hash(const GroupKey& key) const;
  [[nodiscard]] bool is_same(const GroupKey& a, const GroupKey& b) const;
  // The key's place, kOther where there is no more room.
  std::uint32_t place_of(const GroupKey& key);
  [[nodiscard]] GroupRow& row_at(std::uint32_t place) {
    return place == kOther ? other_ : groups_[place].row;
  }

  std::size_t words_;  // of a key that are used
  std::vector<Group> groups_;
  FlatIndex index_;
  std::uint32_t last_ = 0;  // found: exits of one kind follow each other
  GroupRow other_;
  std::uint64_t folded_ = 0;
};

}  // namespace trapline
