// A comparison, from what the user named to plain data.
#pragma once

#include <string>
#include <vector>

#include "merge/compare/compare.h"
#include "merge/pass/pass.h"
#include "merge/report/groups.h"

namespace trapline {

// Reads one recording. An Error is that of open_input, of a recording that ends early, or says that
// it holds nothing of what the rows are made of.
[[nodiscard]] Result<Recorded> read_for_comparison(const InputOptions& input,
                                                   const std::vector<Dimension>& by,
                                                   CompareRows rows, bool flame,
                                                   const Progress& progress);

// "host.dat,uftrace.data,sync.txt": several files are one recording, unless a file has that name.
[[nodiscard]] std::vector<std::string> files_of(const std::string& recording);

struct SideOptions {
  std::vector<std::string> before, after;  // a recording each: a path, or several with commas
  InputOptions common;                     // without paths
  std::vector<Dimension> by = {Dimension::kReason};
  bool flame = false;  // stacks as well: Comparison::flame
};
[[nodiscard]] Result<Comparison> run_compare(const SideOptions& sides,
                                             const CompareOptions& options,
                                             const Progress& progress);

}  // namespace trapline
