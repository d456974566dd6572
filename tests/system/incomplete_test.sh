#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# Recordings that lack something of what happened: every command says so, none tells 0 for it.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
data=$TRAPLINE_SOURCE_DIR/tests/data

# A session whose recorder could not write all pages; no page says so.
lacking_session() {
  mkdir "$work/run"
  cp "$data/svm-mono.dat" "$work/run/trace.dat"
  printf '{"version": 1, "closed": true, "losses": [{"cpu": 0, "unwritten_pages": 7}]}\n' >"$work/run/session.json"
}

what_a_session_lacks_is_said_of_its_figures() {
  local lacks="7 pages of events could not be written"
  lacking_session
  run "$trapline" diff "$work/run" "$data/svm-mono.dat"
  expect_contains "$work/stdout" "note: $work/run: $lacks"
  run "$trapline" diff "$data/svm-mono.dat" "$work/run" --format json
  expect_contains "$work/stdout" "$work/run: $lacks"
  run "$trapline" timeline "$work/run" --around max
  expect_equal "status of timeline" 0 "$status"
  expect_contains "$work/stderr" "trapline: $lacks"
  run "$trapline" top --batch --interval 2s "$work/run"
  expect_equal "status of top" 0 "$status"
  expect_contains "$work/stderr" "trapline: $lacks"
  run "$trapline" report "$work/run" --format page-data
  expect_contains "$work/stdout" "\"missing\":[\"$lacks\"]"
}

"$1"
