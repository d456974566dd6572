#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# trapline record --flight and trapline snapshot with a real kernel; and sessions that are read while
# they grow.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
flight=$work/flight
examples=$TRAPLINE_SOURCE_DIR/docs/examples/flight

start_flight() {  # start_flight ARGUMENT... ; its pid in $recorder
  "$trapline" record --flight 60s -o "$flight" --no-kvm --sched "$@" 2>"$work/stderr" &
  recorder=$!
  wait_for "flight recorder" test -S "$flight/control"
  wait_for "start" grep -q "writes nothing until asked" "$work/stderr"
}

end_flight() {
  kill -TERM "$recorder"
  status=0
  wait "$recorder" || status=$?
  expect_equal "exit status of the recorder" 0 "$status"
  expect_equal "left in tracefs" "" "$(instance_of "$recorder" || true)"
  [ ! -e "$flight/control" ] || fail "the socket is left"
}

snapshots() { find "$flight" -mindepth 1 -maxdepth 1 -type d | sort; }

writes_nothing_until_asked_and_then_a_session_with_its_reason() {
  needs_tracefs
  start_flight --spacing 1h
  expect_contains "$work/stderr" "in at most 64 MiB"
  sleep 1.5 # in which nothing is to happen
  expect_equal "files before" "control lock" "$(cd "$flight" && echo *)"
  "$trapline" snapshot "$flight" --why 'the "disk" stood still' >"$work/path"
  local session
  session=$(cat "$work/path")
  expect_equal "snapshots" "$session" "$(snapshots)"
  expect_equal "why" 'the "disk" stood still' "$(json 's["flight"]["why"]')"
  expect_equal "asked by" command "$(json 's["flight"]["asked_by"]')"
  expect_equal "closed" True "$(json 's["closed"]')"
  expect_equal "mode" 700 "$(stat -c %a "$session")"
  # trace-cmd reads it, and as many events as trapline; the first second is in it.
  trace-cmd report -N -t "$session/trace.dat" 2>/dev/null | grep -v 'EVENTS DROPPED\]$' >"$work/events"
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" 'asked by command: the "disk" stood still'
  expect_equal "events" "$(($(wc -l <"$work/events") - 1))" \
    "$(sed -n 's/^  events *//p' "$work/stdout" | head -n 1 | tr -d ,)"
  expect_contains "$work/events" sched_switch
  expect_equal "two seconds" True "$(json '1e9 < s["flight"]["to_ns"] - s["flight"]["from_ns"] < 60e9')"
  # One in an hour.
  run "$trapline" snapshot "$flight"
  expect_equal "exit status of the second" 1 "$status"
  expect_contains "$work/stderr" "at most one in 3600 s (--spacing)"
  expect_equal "snapshots" "$session" "$(snapshots)"
  end_flight
  run "$trapline" snapshot "$flight"
  expect_equal "exit status without a recorder" 1 "$status"
  expect_contains "$work/stderr" "no flight recorder is at work there"
}

# One that is read or finished just now stays, and what is whole stays.
a_half_snapshot_goes_with_the_next_start() {
  needs_tracefs
  start_flight --spacing 0s
  local whole
  whole=$("$trapline" snapshot "$flight")
  end_flight
  cp -r "$whole" "$flight/20200101T000000Z"
  mkdir "$flight/20200101T000000Z/raw" "$flight/20200101T000001Z" "$flight/20200101T000001Z/raw" \
    "$flight/20200101T000002Z" "$flight/20200101T000002Z/raw"
  echo '{"closed": false}' | tee "$flight/20200101T000001Z/session.json" >"$flight/20200101T000002Z/session.json"
  exec 7<"$flight/20200101T000002Z/raw"
  flock 7
  start_flight
  exec 7<&-
  expect_contains "$work/stderr" "removed the half snapshot of a recorder that was killed: 20200101T000001Z"
  expect_equal "snapshots" "$flight/20200101T000000Z $flight/20200101T000002Z $whole" "$(snapshots | xargs)"
  [ ! -e "$flight/20200101T000000Z/raw" ] || fail "what is left over of a whole one stays"
  end_flight
}

# Also where the buffers hold more than is read at once, and the newest events are the last of a long row.
holds_all_that_was_made_before_it_was_asked() {
  needs_calls
  start_flight --spacing 0s --pid $$ --events "syscalls:$event"
  for made in 20000 40000 60000 80000 100000; do
    make_calls 20000
    expect_equal "calls" "$made" "$(calls_in "$("$trapline" snapshot "$flight")")"
  done
  end_flight
}

# 150,000 calls take 5.4 MB in the ring: it never gets full, and eleven snapshots have no room in the budget.
holds_what_came_after_a_snapshot_too_and_keeps_to_its_budget() {
  needs_calls
  start_flight --spacing 0s --ring-size 16M --disk-budget 64M --pid $$ --events "syscalls:$event"
  local first second i
  make_calls 150000
  first=$("$trapline" snapshot "$flight")
  expect_equal "calls" 150000 "$(calls_in "$first")"
  make_calls 1000
  kill -USR1 "$recorder"
  wait_for "snapshot of SIGUSR1" grep -q "SIGUSR1 of process" "$work/stderr"
  second=$(snapshots | tail -n 1)
  expect_equal "asked by" signal "$(json 's["flight"]["asked_by"]' "$second")"
  # What is written stays in memory: the second begins where the first did.
  expect_equal "begin" "$(json 's["flight"]["from_ns"]' "$first")" "$(json 's["flight"]["from_ns"]' "$second")"
  expect_equal "shortened" False "$(json 's["flight"]["shortened"]' "$second")"
  expect_equal "calls" 151000 "$(calls_in "$second")"
  # Until the oldest has to go.
  for ((i = 2; i < 12; ++i)); do
    "$trapline" snapshot "$flight" >/dev/null
    [ -e "$first" ] || break
  done
  [ ! -e "$first" ] || fail "the oldest snapshot is still there"
  expect_contains "$work/stderr" "removed the oldest snapshot: $(basename "$first")"
  [ "$(du -sk --exclude lock "$flight" | cut -f1)" -le 65536 ] || fail "more than the budget: $(du -sk "$flight")"
  end_flight
}

an_exit_that_took_long_takes_a_snapshot() {
  needs_tracefs
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  local session
  "$trapline" record --flight 60s -o "$flight" --snapshot-on 'exit > 1us' --around 100ms \
    2>"$work/stderr" &
  recorder=$!
  wait_for "start" grep -q "writes nothing until asked" "$work/stderr"
  "$(fetched qemu10)/bin/qemu-system-x86_64" -accel kvm -cpu host,-arch-capabilities -display none -nodefaults -no-reboot \
    -machine pc,hpet=on -m 64 -kernel "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf" \
    -device isa-debugcon,iobase=0x402,chardev=c -chardev "file,id=c,path=$work/console" \
    -device isa-debug-exit,iobase=0x501 &
  local guest=$!
  wait_for "snapshot" grep -q "trapline: snapshot: " "$work/stderr"
  session=$(snapshots)
  kill "$guest" 2>/dev/null || true
  wait "$guest" || true
  expect_equal "asked by" expression "$(json 's["flight"]["asked_by"]')"
  expect_contains "$work/stderr" "(exit > 1us: "
  run "$trapline" report "$session" --slower-than 1us
  expect_equal "exit status of report" 0 "$status"
  end_flight
}

says_what_is_wrong_with_its_options() {
  run "$trapline" record --flight 60s -- true
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "--flight records the whole host"
  run "$trapline" record --flight 60s --disk-budget 100M
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "give at least 128"
  run "$trapline" record --ring-size 5M
  expect_equal "exit status" 2 "$status"
  local by
  for by in "--domain vm1" "--qmp $work/qmp"; do
    # shellcheck disable=SC2086 # an option and its value
    run "$trapline" record --flight 60s $by
    expect_equal "exit status with $by" 2 "$status"
    expect_contains "$work/stderr" "--flight holds no events of QEMU, which --domain and --qmp switch on; give the PID"
  done
  mkdir "$work/other"
  touch "$work/other/file"
  needs_tracefs
  run "$trapline" record --flight 60s --no-kvm --sched -o "$work/other"
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "is not a flight recorder's folder"
}

systemd_takes_the_units() {
  command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
  local unit
  mkdir "$work/units"
  for unit in "$examples"/trapline-*; do
    sed "s|/usr/bin/trapline|$trapline|" "$unit" >"$work/units/$(basename "$unit")"
  done
  (cd "$work/units" && SYSTEMD_UNIT_PATH=$work/units: systemd-analyze verify --man=no trapline-*) \
    >"$work/stdout" 2>&1 || fail "systemd-analyze: $(cat "$work/stdout")"
  if grep "$work/units" "$work/stdout"; then fail "systemd-analyze complains of the units"; fi
  # And the command lines in them are ones that trapline takes.
  local words
  for unit in "$work"/units/*.service; do
    words=$(sed -n "s|^ExecStart=$trapline ||p" "$unit")
    eval "run \"\$trapline\" $words --help"
    expect_equal "exit status of $words --help" 0 "$status"
  done
}

the_units_are_confined_and_the_recorder_works_so() {
  command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
  local unit exposure
  for unit in flight snapshot; do
    exposure=$(systemd-analyze security --offline=true --no-pager "$examples/trapline-$unit.service" |
      sed -n 's/.*exposure level for .*: \([0-9]*\)\.\([0-9]*\) .*/\1\2/p')
    [ "${exposure:-99}" -le 25 ] || fail "trapline-$unit.service: exposure ${exposure:0:1}.${exposure:1}"
  done
  needs_tracefs
  # The same capabilities, system calls and file systems: a snapshot has what it has without.
  mkdir "$work/state"
  flight=$work/state/flight
  unshare -m python3 "$(dirname -- "$0")/confined.py" "$examples/trapline-flight.service" "$work/state" \
    "$trapline" record --flight 60s -o "$flight" --sched --snapshot-on 'exit > 10s' 2>"$work/stderr" &
  recorder=$!
  wait_for "start" grep -q "writes nothing until asked" "$work/stderr"
  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE, CAP_SYSLOG
  expect_equal "capabilities" 0000000400080004 "$(sed -n 's/^CapEff:\t//p' "/proc/$recorder/status")"
  expect_equal "seccomp" 2 "$(sed -n 's/^Seccomp:\t//p' "/proc/$recorder/status")"
  local session
  wait_for "guard" has_guard "$recorder"
  session=$(unshare -m python3 "$(dirname -- "$0")/confined.py" "$examples/trapline-snapshot.service" "" \
    "$trapline" snapshot "$flight" --why confined)
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" sched_switch
  run strings -n 8 "$session/trace.dat"
  expect_contains "$work/stdout" " t tracing_mark_write"
  kill -KILL "$recorder"
  wait "$recorder" || true
  wait_for "end of its instance" has_no_instance "$recorder"
}

a_session_is_read_while_it_grows() {
  needs_calls
  local session=$work/grows made
  "$trapline" record --follow -o "$session" --no-kvm --sched --pid $$ --events "syscalls:$event" 2>"$work/stderr" &
  recorder=$!
  wait_for_recording "$recorder" "$session"
  for made in 2000 4000 6000; do
    make_calls 2000
    wait_for "all calls" reads_calls "$made"
    expect_contains "$work/info" sched_switch
    run "$trapline" timeline "$session"
    expect_equal "exit status of timeline after $made calls" 0 "$status"
    expect_contains "$work/stdout" sched_switch
  done
  kill -TERM "$recorder"
  wait "$recorder"
  expect_equal "calls in the closed session" 6000 "$(calls_in "$session")"
}
reads_calls() {
  "$trapline" info "$session" >"$work/info" 2>"$work/stderr" &&
    [ "$(sed -n "s/^ *syscalls:$event  *//p" "$work/info" | tr -d ,)" = "$1" ]
}

"$1"
