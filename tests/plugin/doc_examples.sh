#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# docs/plugin.md's examples print what it says.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"
command -v uftrace >/dev/null || skip "uftrace is missing"
qemu=$(fetched qemu10)
exec python3 "$(dirname -- "$0")/doc_examples.py" "$TRAPLINE_SOURCE_DIR/docs/plugin.md" \
  "$TRAPLINE_BINARY_DIR" "$qemu"
