#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# Rules about the source that a grep or a linter can hold.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
cd "$TRAPLINE_SOURCE_DIR"

# The archive comes from the machine's own apt configuration: nowhere a mirror's host.
no_file_names_a_package_mirror() {
  local found
  found=$(grep -rnE '(deb|ftp[a-z.]*|security|snapshot|archive|cdn)[a-z0-9.-]*\.(debian|ubuntu)\.(org|com)' \
    --exclude-dir=build --exclude-dir=.git --include='*' . || true)
  expect_equal "package mirrors" "" "$found"
  # The machine-readable copyright file has to name its format's.
  found=$(grep -rnE 'https?://|ftp://' scripts .ci | grep -v '/copyright:1:Format: ' || true)
  expect_equal "addresses in scripts" "" "$found"
}

# To files and headings that exist, also from comments in the code.
links_of_documents_lead_somewhere() {
  python3 tests/system/links.py .
}

"$1"
