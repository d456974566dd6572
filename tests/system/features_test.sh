#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# docs/features.md names tests that exist.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"

every_test_that_it_names_exists() {
  run python3 "$TRAPLINE_SOURCE_DIR/tests/system/features.py" "$TRAPLINE_SOURCE_DIR"
  cat "$work/stdout"
  expect_equal "exit status" 0 "$status"
}

a_test_that_does_not_exist_is_seen() {
  mkdir -p "$work/tree/docs"
  ln -s "$TRAPLINE_SOURCE_DIR/tests" "$work/tree/tests"
  # shellcheck disable=SC2016 # backticks of Markdown
  sed 's/`ftrace_none_test`/`ftrace_some_test`/; s/`guest_sources_test`/&: CaseThatIsGone/' \
    "$TRAPLINE_SOURCE_DIR/docs/features.md" >"$work/tree/docs/features.md"
  run python3 "$TRAPLINE_SOURCE_DIR/tests/system/features.py" "$work/tree"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stdout" "no test is called ftrace_some_test"
  expect_contains "$work/stdout" "no case is called CaseThatIsGone"
}

"$1"
