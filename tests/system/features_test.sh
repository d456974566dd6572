#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The features of docs/features.md have tests that exist.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"

every_feature_has_a_test_that_exists() {
  run python3 "$TRAPLINE_SOURCE_DIR/tests/system/features.py" "$TRAPLINE_SOURCE_DIR"
  cat "$work/stdout"
  expect_equal "exit status" 0 "$status"
}

a_test_that_does_not_exist_is_seen() {
  mkdir -p "$work/tree/tests"
  ln -s "$TRAPLINE_SOURCE_DIR/docs" "$work/tree/docs"
  cp -r "$TRAPLINE_SOURCE_DIR"/tests/{backend_ftrace,merge,plugin,support,system,CMakeLists.txt} "$work/tree/tests"
  sed -i 's/ftrace_none_test/ftrace_some_test/; s/guest_sources_test/& CaseThatIsGone/; /^frame pointers/d' \
    "$work/tree/tests/system/features.txt"
  run python3 "$TRAPLINE_SOURCE_DIR/tests/system/features.py" "$work/tree"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stdout" "no test is called ftrace_some_test"
  expect_contains "$work/stdout" "no test is called CaseThatIsGone"
  expect_contains "$work/stdout" "no test, and no reason for it"
}

"$1"
