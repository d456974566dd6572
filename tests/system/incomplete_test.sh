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
  expect_contains "$work/stdout" "\"INCOMPLETE:\",\"$lacks\""
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

# Without sched_switch and kvm_vcpu_wakeup the way in and out of a halt, which is what it costs, is in its halted time.
what_a_whole_halt_costs_is_not_zero() {
  printf 'cpus=1\n' >"$work/trace.txt"
  for i in 1 2 3 4; do
    printf ' qemu-system-x86-101 [000] 6.79200%d: kvm_exit: reason HLT rip 0x10\n' "$i"
    printf ' qemu-system-x86-101 [000] 6.79200%d500: kvm_entry: vcpu 0\n' "$i"
  done >>"$work/trace.txt"
  local command words
  for command in "report --slower-than 0 --format json" "top --batch --reason HLT" "explain --reason HLT --format json" \
    "export --format jsonl -o -"; do
    read -ra words <<<"$command"
    run "$trapline" "${words[@]}" "$work/trace.txt"
    expect_equal "status of $command" 0 "$status"
    python3 - "$work/stdout" <<'END' || fail "$command: a whole halt's kernel time is told: $(cat "$work/stdout")"
import json
import sys


def halts(value):
    """The rows of halts."""
    if isinstance(value, list):
        for inner in value:
            yield from halts(inner)
    elif isinstance(value, dict):
        if value.get("total_ns") and value.get("halted_ns") == value["total_ns"]:
            yield value
        yield from halts(list(value.values()))


text = open(sys.argv[1], encoding="utf-8").read()
try:
    documents = [json.loads(text)]
except json.JSONDecodeError:
    documents = [json.loads(line) for line in text.splitlines()]
rows = list(halts(documents))
assert rows and all(row["kernel_ns"] is None for row in rows), rows
END
  done
  run "$trapline" export --format csv -o - "$work/trace.txt"
  expect_contains "$work/stdout" ',6792001000,500,,,,,500,'
  run "$trapline" top --batch --prometheus "$work/figures" "$work/trace.txt"
  expect_equal "samples of halts" 'part="halted"' \
    "$(grep '^trapline_exit_seconds_total' "$work/figures" | grep -o 'part="[a-z]*"')"
  run "$trapline" diff "$work/trace.txt" "$work/trace.txt" --format json
  tr -d ' \n' <"$work/stdout" >"$work/one-line"
  expect_contains "$work/one-line" '"kernel":{"unit":"ns","before":null,"after":null'
  expect_contains "$work/one-line" '"halted":{"unit":"ns","before":500.0,"after":500.0'
}

"$1"
