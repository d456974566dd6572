#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# What an ftrace instance that somebody else has set up holds: its file `trace` read in place, and its pages
# taken by `trapline record --from-instance`.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
session=$work/held.trapline

needs_tracefs
name=held-$$
instance=/sys/kernel/tracing/instances/$name
mkdir "$instance" || skip "needs instances of ftrace"
trap 'end_jobs; rmdir "$instance" 2>/dev/null || true; rm -rf -- "$work"' EXIT

set_up() {  # for the scheduling of this shell alone: the machine's other work is not in it
  echo $$ >"$instance/set_event_pid"
  echo mono >"$instance/trace_clock"
  echo 2048 >"$instance/buffer_size_kb"
  echo 1 >"$instance/events/sched/sched_switch/enable"
  echo 1 >"$instance/events/sched/sched_waking/enable"
}

settings() { head -n 50 "$instance"/{tracing_on,trace_clock,set_event,set_event_pid,buffer_size_kb,trace_options}; }

# Events of a while, some for each program that the shell waits for, and a marker; then it stands still.
fill() {
  echo 1 >"$instance/tracing_on"
  for _ in {1..50}; do sleep 0.005; done
  echo "somebody's own text" >"$instance/trace_marker"
  echo 0 >"$instance/tracing_on"
}

# CPU, time in microseconds and event of each line, in order of time.
of_trace() { sed -nE 's/^.* \[0*([0-9]+)\] [^ ]+ +([0-9]+\.[0-9]{6}): ([a-z_]+):.*/\1 \2 \3/p' "$1" | sort -s -k2n -k1n; }
of_session() {
  trace-cmd report -i "$1/trace.dat" 2>/dev/null |
    sed -nE 's/^.* \[0*([0-9]+)\] +([0-9]+\.[0-9]{6}): ([a-z_]+):.*/\1 \2 \3/p' |
    sed 's/ print$/ tracing_mark_write/' | sort -s -k2n -k1n
}

its_events_are_taken_and_its_settings_stay() {
  set_up
  fill
  settings >"$work/before"
  cat "$instance/trace" >"$work/trace"
  of_trace "$work/trace" >"$work/wanted"
  [ "$(wc -l <"$work/wanted")" -gt 50 ] || fail "only $(wc -l <"$work/wanted") events in the instance"
  run "$trapline" record --from-instance "$name" -o "$session"
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "out of the ftrace instance $name: they are no longer in it"
  expect_contains "$work/stderr" "(it is switched off)"
  expect_contains "$work/stderr" "next: trapline timeline $session"
  of_session "$session" >"$work/taken"
  cmp "$work/wanted" "$work/taken" || fail "other events than its file trace had"
  settings >"$work/after"
  cmp "$work/before" "$work/after" || fail "its settings changed"
  of_trace "$instance/trace" >"$work/left"
  [ ! -s "$work/left" ] || fail "$(wc -l <"$work/left") events are left in it"
  expect_equal "closed" True "$(python3 -c 'import json,sys; print(json.load(open(sys.argv[1]))["closed"])' "$session/session.json")"
  run "$trapline" timeline "$session"
  expect_equal "exit status of timeline" 0 "$status"
  expect_contains "$work/stdout" "somebody's own text"
  # A second time there is nothing, and no folder for it.
  run "$trapline" record --from-instance "$name" -o "$work/second"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "$instance: holds no events"
  [ ! -e "$work/second" ] || fail "a folder for nothing"
}

# The oldest were overwritten, so that each CPU begins at another time; and it records on meanwhile.
a_full_one_that_records_on_is_taken() {
  set_up
  echo 16 >"$instance/buffer_size_kb"
  echo 1 >"$instance/tracing_on"
  (while :; do sleep 0.001; done) &
  load=$!
  echo $load >"$instance/set_event_pid"
  wait_for "events that are overwritten" grep -q '^overrun: [1-9]' "$instance"/per_cpu/cpu*/stats
  run timeout 60 "$trapline" record --from-instance "$name" -o "$session"
  kill "$load"
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "(it records on)"
  expect_contains "$work/stderr" "older events had been overwritten in its buffers before"
  expect_equal "tracing_on" 1 "$(cat "$instance/tracing_on")"
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" "sched:sched_switch"
  trace-cmd report -i "$session/trace.dat" >/dev/null 2>&1 || fail "trace-cmd cannot read it"
}

events_that_are_off_by_now_have_their_names() {
  set_up
  fill
  echo 0 >"$instance/events/enable"
  run "$trapline" record --from-instance "$name" -o "$session"
  expect_equal "exit status" 0 "$status"
  run "$trapline" info "$session"
  expect_contains "$work/stdout" "sched:sched_waking"
}

what_cannot_be_taken_is_said() {
  run "$trapline" record --from-instance "no-$name" -o "$session"
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "there is no ftrace instance of that name; ls /sys/kernel/tracing/instances"
  run "$trapline" record --from-instance "" -o "$session"
  expect_equal "exit status" 2 "$status"
  run "$trapline" record --from-instance "$name" --sched -o "$session"
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "leave out --sched"
  run "$trapline" record --from-instance "$name" -o "$session" -- true
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "leave out COMMAND"
  "$trapline" record -o "$work/other" --no-kvm --sched --duration 30 2>"$work/recorder" &
  local recorder=$!
  wait_for "instance of the recorder" compgen -G "/sys/kernel/tracing/instances/trapline-$recorder-*" >"$work/theirs"
  local theirs
  theirs=$(basename -- "$(cat "$work/theirs")")
  run "$trapline" record --from-instance "$theirs" -o "$session"
  kill "$recorder"
  wait "$recorder" || true
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "a trapline that runs reads this instance"
  [ ! -e "$session" ] || fail "a folder for nothing"
}

reads_the_same_from_both() {
  "$trapline" timeline - <"$instance/trace" | tail -n +2 >"$work/piped"
  "$trapline" timeline "$instance/trace" | tail -n +2 >"$work/named"
  [ -s "$work/named" ] && cmp "$work/piped" "$work/named"
}

# Without a copy: it has no size, and reading it takes nothing away.
the_live_text_is_read_in_place() {
  set_up
  fill
  of_trace "$instance/trace" >"$work/wanted"
  run "$trapline" info "$instance/trace"
  expect_equal "exit status" 0 "$status"
  expect_equal "events" "$(wc -l <"$work/wanted")" \
    "$(sed -n 's/^  events *//p' "$work/stdout" | head -n 1 | tr -d ,)"
  expect_contains "$work/stdout" "times in units of 1000 ns"
  of_trace "$instance/trace" >"$work/still"
  cmp "$work/wanted" "$work/still" || fail "reading it changed it"
  # The kernel forgets names of threads between the two, where others are busy.
  wait_for "standard input that is read as the file is" reads_the_same_from_both
  run "$trapline" info "$instance/trace_pipe"
  expect_equal "exit status of trace_pipe" 2 "$status"
  expect_contains "$work/stderr" "has no end"
  expect_contains "$work/stderr" "--from-instance"
}

"$1"
