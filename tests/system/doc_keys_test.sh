#!/usr/bin/env bash
# The documents of formats have every key that the commands print.
set -euo pipefail
cd "$TRAPLINE_SOURCE_DIR"
exec python3 tests/system/doc_keys.py . "$TRAPLINE_BINARY_DIR/merge/trapline"
