// What a page says of itself, and how it is put together from its data.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "backend_ftrace/base/result.h"
#include "merge/report/table.h"

namespace trapline {

struct PageOptions {
  static constexpr std::size_t kMostBytes = 2'000'000;

  std::vector<std::string> command;  // "report", FILE, …: the words that print this in a terminal
  std::string tool;                  // "trapline 0.1.0"
  // Tables of table_kinds() that the page has not without being asked, by option; --phase.
  std::map<std::string, std::string, std::less<>> tables;
  std::vector<std::string> phases;
};

// JSON that can stand in a script element: what would end one, or begin a comment in one, is
// written as an escape.
[[nodiscard]] std::string without_markup(const std::string& json);
// The page's data (docs/formats/page.md) of one recording, or of two and `comparison`, their
// differences.
[[nodiscard]] std::string page_json(std::span<const std::string> recordings,
                                    const Report* comparison = nullptr);
// The page with the data in it. An Error says what to install where the page was not built.
[[nodiscard]] Result<void> check_page();
void print_page(const std::string& json, std::ostream& out);

}  // namespace trapline
