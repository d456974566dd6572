// Selects the exits that an ExitFilter lets through.
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

// Tests, in one pass, each exit of the selected vCPUs. An exit is selected if a report with --by
// would count it in a row with the filter's names. Halts form one row in every dimension but the
// reason, so only --reason selects them.
class ExitMatcher {
 public:
  // Returns the source that names the reason of an exit; the source must stay valid as long as
  // holds() is called.
  using SourceOf = std::function<const Source&(const ExitSpan&)>;
  ExitMatcher(const ExitFilter& filter, SourceOf source);

  [[nodiscard]] bool holds(const ExitSpan& exit, const Pipeline& pipeline);

  // Return the number and the cost of all exits tested, and the number of selected ones (held()).
  [[nodiscard]] std::uint64_t exits() const { return exits_; }
  [[nodiscard]] std::uint64_t cost_ns() const { return cost_ns_; }
  [[nodiscard]] std::uint64_t held() const { return held_; }
  // Returns the names of exits' reasons that the pattern of --reason fits.
  [[nodiscard]] const std::set<std::string>& reasons() const { return reasons_; }
  // Adds the counts and names that `other` found in another recording.
  void merge(const ExitMatcher& other);
  // Returns an Error (kUsage) if exits were tested and none was selected; it says which names
  // exist.
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
  std::set<std::string> reasons_;
  std::uint64_t exits_ = 0, cost_ns_ = 0, held_ = 0;
};

// The exits that a filter lets through, each as its thread and its start.
class ChosenExits {
 public:
  static constexpr std::size_t kMost = 8u << 20;

  void add(const ExitSpan& exit);
  [[nodiscard]] bool contains(ThreadId thread, Timestamp begin) const;
  // Returns whether kMost exits were added; further ones are not kept.
  [[nodiscard]] bool is_full() const { return count_ == kMost; }

 private:
  std::map<ThreadId, std::vector<Timestamp>> begins_;  // each thread's starts, ascending
  std::size_t count_ = 0;
};

}  // namespace trapline
