#include "merge/cli/diff_page.h"

#include <array>
#include <utility>

#include "merge/cli/common.h"
#include "merge/compare/compare_tables.h"
#include "merge/render/page/page_data.h"

namespace trapline::cli {

Result<std::string> diff_page(const SideOptions& sides, const SelectionOptions& which,
                              const Comparison& comparison, const Progress& progress) {
  std::array<std::string, 2> recordings;
  const std::string* paths[] = {&sides.before.front(), &sides.after.front()};
  for (std::size_t i = 0; i < recordings.size(); ++i) {
    PassOptions pass;
    pass.input = sides.common;
    pass.input.paths = files_of(*paths[i]);
    pass.which = sides.which;
    auto run = run_page(pass, page_options(pass.input, which), progress);
    if (!run) return tl::unexpected(std::move(run).error());
    if (!run->status) return tl::unexpected(std::move(run->status).error());
    recordings[i] = std::move(run->recording);
  }
  const Report differences = make_report(comparison);
  return page_json(recordings, &differences);
}

}  // namespace trapline::cli
