#include "merge/compare/touched_pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "merge/report/units.h"

namespace trapline {
namespace {

// Sorts order[from] to order[to - 1], and returns how many pairs were in descending order. `room`
// is as large as `order`.
std::uint64_t sort_pairs(std::vector<std::size_t>& order, std::vector<std::size_t>& room,
                         std::size_t from, std::size_t to) {
  if (to - from < 2) return 0;
  const std::size_t middle = from + (to - from) / 2;
  std::uint64_t descending =
      sort_pairs(order, room, from, middle) + sort_pairs(order, room, middle, to);
  std::size_t left = from, right = middle;
  for (std::size_t at = from; at < to; ++at) {
    const bool takes_left = right == to || (left < middle && order[left] < order[right]);
    if (!takes_left) descending += middle - left;
    room[at] = order[takes_left ? left++ : right++];
  }
  std::copy(room.begin() + static_cast<std::ptrdiff_t>(from),
            room.begin() + static_cast<std::ptrdiff_t>(to),
            order.begin() + static_cast<std::ptrdiff_t>(from));
  return descending;
}

}  // namespace

void TouchedPages::add(std::uint64_t address, std::uint64_t ns) {
  constexpr std::uint64_t kPage = 4096;
  if (!pages_) return;
  const auto [place, is_new] = places_.try_emplace(address / kPage, pages_->size());
  if (is_new && pages_->size() >= kMost) return forget();
  if (is_new) pages_->push_back({address / kPage * kPage, 0});
  (*pages_)[place->second].ns += ns;
}

std::optional<double> kendall_tau(std::vector<std::size_t> order) {
  if (order.size() < 2) return std::nullopt;
  std::vector<std::size_t> room(order.size());
  const auto size = static_cast<double>(order.size());
  const auto descending = static_cast<double>(sort_pairs(order, room, 0, order.size()));
  return 1 - 4 * descending / (size * (size - 1));
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
    tau = kendall_tau(std::move(order));
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
