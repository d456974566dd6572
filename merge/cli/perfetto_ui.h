// A recording in Perfetto's UI, of `trapline report --open=perfetto`.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/cli/selection.h"
#include "merge/pass/pass.h"

namespace trapline::cli {

// Listens where that UI may read from this machine. Before root's rights are given up: without them
// root listens nowhere. Errors: the port is taken.
[[nodiscard]] Result<UniqueFd> listen_for_perfetto();
// Serves a file once there, to pages of https://ui.perfetto.dev that know its address; prints the
// address of the UI and has the desktop open it. Removes the file at once, and returns when it was
// read.
[[nodiscard]] Result<void> show_in_perfetto(const std::string& path, UniqueFd listening);
// Exports what was selected of a recording, and shows it; returns the recording's own status.
[[nodiscard]] Result<void> open_in_perfetto(const PassOptions& pass, const SelectionOptions& which);

}  // namespace trapline::cli
