#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# What perf records here, read as perf reads it: in files of several threads, and as it comes through a pipe.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline

[ "$(id -u)" = 0 ] || skip "needs root"
command -v perf >/dev/null || skip "needs perf (package linux-perf)"
recorded=(-a -k mono -e sched:sched_switch -e sched:sched_waking)
perf record "${recorded[@]}" -o "$work/one" -- true >"$work/stdout" 2>"$work/stderr" ||
  skip "perf cannot record tracepoints here"

the_files_of_its_threads_are_one_recording() {
  # shellcheck disable=SC2016 # the shell in it expands them
  perf record "${recorded[@]}" --threads -o "$work/several" -- \
    sh -c 'for i in $(seq 100); do sleep 0.005; done' >"$work/stdout" 2>"$work/stderr" ||
    skip "this perf has no --threads"
  [ -s "$work/several/data.0" ] || fail "perf made no folder"
  [ -s "$work/several/data.1" ] || skip "one CPU alone: perf made one file"
  perf script -i "$work/several" --ns -F time,event 2>/dev/null |
    sed -E 's/^ *([0-9.]+): *([a-z_:]+): *$/\1 \2/' | sort >"$work/wanted"
  [ "$(wc -l <"$work/wanted")" -gt 50 ] || fail "only $(wc -l <"$work/wanted") events: $(head -n 3 "$work/wanted")"
  run "$trapline" info "$work/several"
  expect_contains "$work/stdout" "clock        mono"
  "$trapline" timeline "$work/several" | sed -nE 's/^([0-9]+\.[0-9]{9}).*(sched_switch|sched_waking).*/\1 sched:\2/p' |
    sort >"$work/ours"
  cmp "$work/wanted" "$work/ours" || fail "other events than perf script has"
  # One that is cut is read up to there, and the exit status says so.
  truncate -s -5 "$work/several/data.0"
  run "$trapline" info "$work/several"
  expect_equal "exit status" 3 "$status"
  expect_contains "$work/stderr" "damaged or cut off"
  rm "$work/several/data"
  run "$trapline" info "$work/several"
  expect_equal "exit status" 3 "$status"
}

a_pipe_is_read_as_the_file_of_it() {
  perf record "${recorded[@]}" -o - -- sleep 0.3 2>"$work/stderr" >"$work/pipe"
  "$trapline" info "$work/pipe" | tail -n +2 >"$work/named"
  "$trapline" info - <"$work/pipe" | tail -n +2 >"$work/redirected"
  # shellcheck disable=SC2002 # a pipe it shall be
  cat "$work/pipe" | "$trapline" info - | tail -n +2 >"$work/piped"
  "$trapline" info <(cat "$work/pipe") | tail -n +2 >"$work/substituted"
  expect_contains "$work/named" "perf.data from a pipe"
  for way in redirected piped substituted; do
    cmp "$work/named" "$work/$way" || fail "$way it is read otherwise"
  done
  perf script -i "$work/pipe" 2>/dev/null >"$work/script"
  run "$trapline" info - <"$work/script"
  expect_equal "exit status of text" 0 "$status"
  expect_equal "events" "$(wc -l <"$work/script")" "$(sed -n 's/^  events *//p' "$work/stdout" | head -n 1 | tr -d ,)"
  run "$trapline" report - </dev/null
  expect_equal "exit status of nothing" 3 "$status"
  expect_contains "$work/stderr" "nothing came"
}

"$1"
