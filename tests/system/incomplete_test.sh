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

# Nothing ends an exit: how many there were, and how long they took, is not known.
figures_without_kvm_entry_are_not_zero() {
  local said="kvm_entry was not recorded"
  for i in 1 2 3 4; do
    printf ' qemu-system-x86-101 [000] 6.79200%d: kvm_exit: reason HLT rip 0x10\n' "$i"
  done >"$work/trace.txt"
  run "$trapline" timeline "$work/trace.txt" --around max
  expect_contains "$work/stderr" "$said"
  run "$trapline" top --batch "$work/trace.txt"
  expect_equal "status of top" 0 "$status"
  expect_contains "$work/stdout" '"exits":null'
  expect_contains "$work/stdout" '"guest_ns":null'
  expect_contains "$work/stderr" "$said"
  run "$trapline" top --batch --prometheus "$work/figures" "$work/trace.txt"
  expect_equal "status of top --prometheus" 0 "$status"
  expect_contains "$work/figures" '# HELP trapline_vcpu_exits_total'
  expect_equal "counts of exits" "" "$(grep '^trapline_[a-z_]*exits_total' "$work/figures" || true)"
}

"$1"
