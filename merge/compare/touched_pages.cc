#include "merge/compare/touched_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "merge/report/units.h"

namespace trapline {

void TouchedPages::add(std::uint64_t address, std::uint64_t ns) {
  constexpr std::uint64_t kPage = 4096;
  if (!pages_) return;
  const auto [place, is_new] = places_.try_emplace(address / kPage, pages_->size());
  if (is_new && pages_->size() >= kMost) return forget();
  if (is_new) pages_->push_back({address / kPage * kPage, 0});
  (*pages_)[place->second].ns += ns;
}

std::optional<double> kendall_tau(const std::vector<std::size_t>& order) {
  if (order.size() < 2) return std::nullopt;
  // A Fenwick tree: counts how many of the numbers so far lie in ranges of numbers.
  std::vector<std::size_t> tree(*std::ranges::max_element(order) + 2);
  std::size_t seen = 0, descending = 0;  // numbers; pairs in descending order
  for (const std::size_t number : order) {
    std::size_t below = 0;
    for (std::size_t i = number; i != 0; i &= i - 1) below += tree[i];
    descending += seen++ - below;
    for (std::size_t i = number + 1; i < tree.size(); i += i & -i) ++tree[i];
  }
  const auto size = static_cast<double>(order.size());
  return 1 - 4 * static_cast<double>(descending) / (size * (size - 1));
}

Table page_table(const TouchedPages& before, const TouchedPages& after) {
  struct Row {
    std::string key;
    std::uint64_t pages = 0;
    std::optional<std::uint64_t> before_ns{}, after_ns{};
  };
  std::vector<Row> rows;
  std::optional<double> tau;
  const auto is_known = [](const TouchedPages& run) {
    return run.pages() != nullptr && (run.unknown() == 0 || !run.pages()->empty());
  };
  if (is_known(before) && is_known(after)) {
    Row both{"in both", 0, 0, 0}, first{"only before", 0, 0}, second{"only after", 0, {}, 0};
    std::unordered_map<std::uint64_t, const TouchedPages::Page*> in_after;
    for (const TouchedPages::Page& page : *after.pages()) in_after[page.address] = &page;
    std::vector<const TouchedPages::Page*> common;
    for (const TouchedPages::Page& page : *before.pages()) {
      const auto found = in_after.find(page.address);
      Row& row = found == in_after.end() ? first : both;
      ++row.pages;
      *row.before_ns += page.ns;
      if (found != in_after.end()) common.push_back(found->second);
    }
    // TouchedPages has its pages in the order of their first faults, so a page's index in
    // after.pages() is its place in that order.
    std::vector<std::size_t> order;
    for (const TouchedPages::Page* page : common) {
      *both.after_ns += page->ns;
      order.push_back(static_cast<std::size_t>(page - after.pages()->data()));
      in_after.erase(page->address);
    }
    for (const auto& [address, page] : in_after) {
      ++second.pages;
      *second.after_ns += page->ns;
    }
    tau = kendall_tau(order);
    rows = {std::move(both), std::move(first), std::move(second)};
  }
  TableOf<Row> table({.key = "pages"}, std::move(rows), &Row::key);
  table.facts = {{"tau", to_value(tau)},
                 {"unknown_before", before.unknown()},
                 {"unknown_after", after.unknown()}};
  table.add({"key"}, &Row::key);
  table.add({"pages", "pages"}, &Row::pages);
  table.add({"before_ns", "faults before", Unit::kDuration}, &Row::before_ns);
  table.add({"after_ns", "faults after", Unit::kDuration}, &Row::after_ns);
  if (table.rows != 0) table.titles = {"Pages with faults"};
  if (before.pages() == nullptr || after.pages() == nullptr)
    table.after = {{},
                   {.text = fmt::format("The pages are not compared: a run has faults of several "
                                        "VMs (choose one with --vm), or of more than {} pages.",
                                        grouped(TouchedPages::kMost))}};
  else if (before.unknown() != 0 || after.unknown() != 0)
    table.after = {{},
                   {.text = fmt::format("No event tells the address of {} faults before and {} "
                                        "after; their pages are in no row.",
                                        grouped(before.unknown()), grouped(after.unknown()))}};
  // Prints "nearly" before a tau that only rounding makes 1.000 or -1.000, since that alone would
  // say that the order is the same, or reversed.
  constexpr double kNearly = 0.9995;
  if (tau && table.after.empty()) table.after.emplace_back();
  if (tau)
    table.after.push_back(
        {.text =
             fmt::format("Order of the common pages' first faults: Kendall's tau is {}{:.3f} "
                         "(1: the same order, 0: unrelated, -1: reversed).",
                         std::abs(*tau) >= 1 || std::abs(*tau) < kNearly ? "" : "nearly ", *tau)});
  return table;
}

}  // namespace trapline
