#!/usr/bin/env bash
# The examples in the documents print what trapline prints.
set -euo pipefail
cd "$TRAPLINE_SOURCE_DIR"
exec python3 tests/system/doc_examples.py "$TRAPLINE_BINARY_DIR/merge/trapline" README.md docs/*.md \
  docs/*/*.md
