#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# Man pages against --help.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
command -v groff >/dev/null || skip "groff is missing: apt-get install groff-base"
python3 "$TRAPLINE_SOURCE_DIR/tests/system/man_pages.py" "$TRAPLINE_SOURCE_DIR" \
  "$TRAPLINE_BINARY_DIR/merge/trapline" "$TRAPLINE_BINARY_DIR/backend_ftrace/trapline-tracetool" \
  "$TRAPLINE_BINARY_DIR/backend_ftrace/trapline-stap"
