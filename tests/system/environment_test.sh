#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The user's defaults from the environment, and what is said of mistakes and of what was removed.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
data=$TRAPLINE_SOURCE_DIR/tests/data
unset "${!TRAPLINE_@}" NO_COLOR 2>/dev/null || true

an_option_comes_before_its_variable() {
  run "$trapline" doctor -v
  expect_contains "$work/stdout" "buffer: 8192 KiB"
  TRAPLINE_BUFFER_SIZE=2M run "$trapline" doctor -v
  expect_contains "$work/stdout" "buffer: 2048 KiB"
  TRAPLINE_BUFFER_SIZE=2M run "$trapline" doctor -v --buffer-size 4M
  expect_contains "$work/stdout" "buffer: 4096 KiB"
}

symbols_and_events_are_those_of_recordings_that_bring_none() {
  TRAPLINE_SYMBOLS=:$data/demo-guest.elf: run "$trapline" report "$data/svm-mono.dat" --by function
  expect_contains "$work/stdout" "rtc_read "
  # A session's own come first: these have another name.
  mkdir -p "$work/run/symbols"
  cp "$data/svm-mono.dat" "$work/run/trace.dat"
  printf '0000000000100000 T everything\n' >"$work/run/symbols/kallsyms"
  TRAPLINE_SYMBOLS=$data/demo-guest.elf run "$trapline" report "$work/run" --by function
  expect_contains "$work/stdout" "everything "
  if grep -q rtc_read "$work/stdout"; then fail "the session's own symbols were not used"; fi
  export TRAPLINE_TRACE_EVENTS=/no/such/file
  run "$trapline" report "$data/svm-mono.dat"
  expect_equal "status" 1 "$status"
  expect_contains "$work/stderr" "/no/such/file"
  run "$trapline" report "$data/svm-mono.dat" --trace-events <(printf 'none(void) "none"\n')
  expect_equal "status with --trace-events" 0 "$status"
}

colours_are_chosen() {
  local escape=$'\033'
  run "$trapline" timeline "$data/svm-mono.dat" --around max
  if grep -q "$escape" "$work/stdout"; then fail "colours in a file"; fi
  TRAPLINE_COLOR=always run "$trapline" timeline "$data/svm-mono.dat" --around max
  grep -q "$escape" "$work/stdout" || fail "no colours with TRAPLINE_COLOR=always"
  NO_COLOR=1 run "$trapline" timeline "$data/svm-mono.dat" --around max
  if grep -q "$escape" "$work/stdout"; then fail "colours with NO_COLOR"; fi
  NO_COLOR=1 TRAPLINE_COLOR=always run "$trapline" timeline "$data/svm-mono.dat" --around max
  grep -q "$escape" "$work/stdout" || fail "NO_COLOR comes before TRAPLINE_COLOR"
  NO_COLOR=1 run "$trapline" timeline "$data/svm-mono.dat" --around max --color always
  grep -q "$escape" "$work/stdout" || fail "no colours with --color always"
  TRAPLINE_COLOR=always run "$trapline" timeline "$data/svm-mono.dat" --around max --color never
  if grep -q "$escape" "$work/stdout"; then fail "colours with --color never"; fi
}

values_that_an_option_refuses_are_told() {
  local value wanted
  while IFS='|' read -r value wanted; do
    run env "$value" "$trapline" report "$data/svm-mono.dat"
    expect_equal "status with $value" 2 "$status"
    expect_contains "$work/stderr" "$wanted"
    run env "$value" "$trapline" report --help
    expect_equal "status of --help with $value" 0 "$status"
  done <<END
TRAPLINE_BUFFER_SIZE=3K|TRAPLINE_BUFFER_SIZE: --buffer-size: 3K is out of range; give 64K to 4G
TRAPLINE_COLOR=blue|TRAPLINE_COLOR: --color: unknown 'blue'; there are auto, always, never
END
}

"$1"
