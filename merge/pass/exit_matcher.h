// The exits that an ExitFilter lets through.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "merge/analyze/pipeline.h"
#include "merge/pass/selection.h"
#include "merge/source/source.h"

namespace trapline {

// Of one pass: asked for each exit of the vCPUs that count. An exit counts where the row of --by
// with these names has it, so that halts, which are one row of --by anything but the reason, need
// a --reason.
class ExitMatcher {
 public:
  // `source` names the reason of an exit; it stays as long as exits come.
  using SourceOf = std::function<const Source&(const ExitSpan&)>;
  ExitMatcher(const ExitFilter& filter, SourceOf source);

  [[nodiscard]] bool holds(const ExitSpan& exit, const Pipeline& pipeline);

  // Of all exits that it was asked for, and of those that it held.
  [[nodiscard]] std::uint64_t exits() const { return exits_; }
  [[nodiscard]] std::uint64_t cost_ns() const { return cost_ns_; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  // What the passes over other recordings met counts as well.
  void merge(const ExitMatcher& other);
  // An Error (kUsage) where exits came and it held none: says which names there are.
  [[nodiscard]] Result<void> check() const;

 private:
  static constexpr std::size_t kMostKnown = 1u << 16, kMostNames = 4096;
  using Key = std::array<std::uint64_t, 2>;
  enum Kind : std::uint8_t { kReason, kDetail, kDevice, kFunction, kKinds };
  struct Wanted {
    std::string pattern;  // empty: any
    bool found = false;
    std::map<Key, bool> known;
    std::set<std::string> names;
  };
  [[nodiscard]] bool holds(Kind kind, const ExitSpan& exit, const Pipeline& pipeline);
  [[nodiscard]] std::string name_of(Kind kind, const Key& key, const ExitSpan& exit,
                                    const Pipeline& pipeline) const;

  ExitFilter filter_;
  SourceOf source_;
  std::array<Wanted, kKinds> wanted_;
  std::uint64_t exits_ = 0, cost_ns_ = 0, held_ = 0;
};

// When the exits began that a filter lets through.
class ChosenExits {
 public:
  static constexpr std::size_t kMost = 8u << 20;

  void add(const ExitSpan& exit);
  [[nodiscard]] bool contains(ThreadId thread, Timestamp begin) const;
  // Whether there were more than kMost: those are not known.
  [[nodiscard]] bool is_full() const { return count_ == kMost; }

 private:
  std::map<ThreadId, std::vector<Timestamp>> begins_;  // in order
  std::size_t count_ = 0;
};

}  // namespace trapline
