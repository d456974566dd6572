// Rewrites the command-line errors that CLI11 finds in the form of our other errors: what is wrong,
// then what to do. For trapline-tracetool and trapline-stap; merge/cli has its own, which knows the
// commands.
#pragma once

#include <string>
#include <string_view>

namespace trapline {

// `said` is CLI11's text; `first` is the first word of the command line, empty if there is none.
[[nodiscard]] std::string usage_text(std::string_view program, std::string_view first,
                                     std::string_view said);

}  // namespace trapline
