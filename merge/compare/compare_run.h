// A comparison, from what the user named to plain data.
#pragma once

#include <string>
#include <vector>

#include "merge/compare/compare.h"
#include "merge/pass/pass.h"
#include "merge/report/dimensions.h"

namespace trapline {

// "host.dat,uftrace.data,sync.txt": several files are one recording, unless a file has that name.
[[nodiscard]] std::vector<std::string> files_of(const std::string& recording);

struct SideOptions {
  std::vector<std::string> before, after;  // a recording each: a path, or several with commas
  InputOptions common;                     // without paths
  Selection which;                         // of each recording
  std::vector<Dimension> by = {Dimension::kReason};
  bool flame = false;  // stacks as well: Comparison::flame
};
[[nodiscard]] Result<Comparison> run_compare(const SideOptions& sides,
                                             const CompareOptions& options,
                                             const Progress& progress);

}  // namespace trapline
