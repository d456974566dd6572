#!/usr/bin/env bash
# The words that plainer ones replaced stay replaced.
set -euo pipefail
exec python3 "$TRAPLINE_SOURCE_DIR/tests/system/words.py" "$TRAPLINE_SOURCE_DIR"
