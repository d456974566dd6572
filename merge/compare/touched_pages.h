// Compares which pages of a guest's memory two runs faulted on, and in which order. This shows how
// well a list of pages to prefetch that is made from one run serves the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "merge/report/table.h"

namespace trapline {

// The pages of 4 KiB of a VM, in the order of their first faults.
class TouchedPages {
 public:
  static constexpr std::size_t kMost = 1u << 20;

  struct Page {
    std::uint64_t address = 0, ns = 0;  // ns: of all its faults
  };
  // Adds a fault. Beyond kMost pages, the pages are not known.
  void add(std::uint64_t address, std::uint64_t ns);
  // Adds a fault whose address is not known.
  void add_unknown() { ++unknown_; }
  [[nodiscard]] std::uint64_t unknown() const { return unknown_; }
  void forget() { pages_.reset(); }
  // Returns nullptr if the pages are not known: of several VMs, or too many.
  [[nodiscard]] const std::vector<Page>* pages() const { return pages_ ? &*pages_ : nullptr; }

 private:
  std::optional<std::vector<Page>> pages_ = std::vector<Page>();
  std::unordered_map<std::uint64_t, std::size_t> places_;
  std::uint64_t unknown_ = 0;
};

// Returns Kendall's tau of a sequence of different numbers: 1 if the sequence is ascending, -1 if
// it is descending. Nullopt for fewer than two numbers. Takes memory for the largest number.
[[nodiscard]] std::optional<double> kendall_tau(const std::vector<std::size_t>& order);

// Returns the table "pages", with the pages that both runs faulted on, or one of them, and what
// their faults took. Without rows if the pages of a run are not known. With faults whose address is
// not known, "only before" and "only after" may hold pages that both runs faulted on.
[[nodiscard]] Table page_table(const TouchedPages& before, const TouchedPages& after);

}  // namespace trapline
