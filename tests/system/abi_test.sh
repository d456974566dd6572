#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The C API against the description of the last release's; and that a change would be seen.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
command -v abidiff >/dev/null || skip "abidiff is missing: apt-get install abigail-tools"
library=$TRAPLINE_BINARY_DIR/backend_ftrace/libtrapline_ftrace.so

the_api_of_the_release_is_there() {
  run "$scripts/dist" --abi --build "$TRAPLINE_BINARY_DIR"
  [ "$status" = 0 ] || { cat "$work/stdout"; fail "scripts/dist --abi"; }
}

a_function_that_is_gone_is_seen() {
  mkdir -p "$work/build/backend_ftrace"
  # The name as if it had been renamed; its length stays, so the file stays whole.
  sed 's/trapline_events_apply/trapline_events_appli/g' "$library" >"$work/build/backend_ftrace/libtrapline_ftrace.so"
  run "$scripts/dist" --abi --build "$work/build"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "relies on"
}

"$1"
