#!/usr/bin/env bash
# The limits in docs/formats are those of the code.
set -euo pipefail
exec python3 "$TRAPLINE_SOURCE_DIR/tests/system/format_limits.py" "$TRAPLINE_SOURCE_DIR"
