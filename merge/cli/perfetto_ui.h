// Shows a recording in Perfetto's UI, for `trapline report --open=perfetto`.
#pragma once

#include <string>

#include "backend_ftrace/base/result.h"
#include "backend_ftrace/base/unique_fd.h"
#include "merge/pass/pass.h"

namespace trapline::cli {

// Listens at the port of this machine from which the UI may read. Call it before root's rights are
// given up: afterwards root can listen at no port. Errors: the port is taken.
[[nodiscard]] Result<UniqueFd> listen_for_perfetto();
// Serves a file once at the port that `listening` listens at, to pages of https://ui.perfetto.dev
// that know the file's address. Prints the UI's address and has the desktop open it. Removes the
// file at once, and returns when the UI has read it.
[[nodiscard]] Result<void> show_in_perfetto(const std::string& path, UniqueFd listening);
// Exports the selected part of a recording, and shows it in the UI. Returns the recording's status.
[[nodiscard]] Result<void> open_in_perfetto(const PassOptions& pass);

}  // namespace trapline::cli
