#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2016,SC2054
# trapline record with a real kernel, a real QEMU and trace-cmd: what it records, and its faults.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
instances=/sys/kernel/tracing/instances
session=$work/run.trapline
here=$(dirname -- "$0")

needs_kvm_events

# Only instances of recorders that this test started count: others may be at work.
nothing_left() {
  expect_equal "left in tracefs" "" "$(instance_of "$1" || true)"
}

start_recorder() {  # start_recorder ARGUMENT... ; its pid in $recorder
  "$trapline" record -o "$session" "$@" >"$work/stdout" 2>"$work/stderr" &
  recorder=$!
}

end_recorder() {  # its exit status in $status
  status=0
  wait "$recorder" || status=$?
}

# on_the_disk TEXT [COUNT]: the session, which is still recorded, has as many lines with it.
on_the_disk() { [ "$("$trapline" timeline "$session" | grep -cF -- "$1")" -ge "${2:-1}" ]; }
qemus_exits_on_the_disk() { [ "$("$trapline" info "$session" | grep -c kvm_userspace_exit)" -ge 1 ]; }
series_on_the_disk() { on_the_disk 'trapline: sync records, series' "$1"; }

# Before a QEMU handles SIGTERM, the signal kills it.
its_qemu_handles_sigterm() {
  local caught
  caught=$(sed -n 's/^SigCgt:\t//p' "/proc/$(pgrep -P "$recorder" "qemu|ld-linux")/status")
  [ -n "$caught" ] && ((0x$caught >> 14 & 1))
}

# stop_recorder_once WHAT COMMAND...: with its QEMU, in good order.
stop_recorder_once() {
  wait_for "$@"
  wait_for "handler of SIGTERM in QEMU" its_qemu_handles_sigterm
  kill -TERM "$recorder"
  end_recorder
}

demo_qemu() {  # demo_qemu ACCEL...: the command of the small guest, in ${qemu_command[@]}
  qemu_command=("$(fetched qemu10)/bin/qemu-system-x86_64" "$@" -display none -nodefaults -no-reboot
    -machine pc,hpet=on -m 64 -kernel "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf"
    -device isa-debugcon,iobase=0x402,chardev=c -chardev "file,id=c,path=$work/console"
    -device isa-debug-exit,iobase=0x501)
}

# What trace-cmd prints, without the names of threads.
printed() { trace-cmd report -N -t "$1" 2>/dev/null | sed -E -e 1d -e 's/^ *.*-([0-9]+) +\[/\1 [/'; }

# The same pages below a header that trace-cmd makes of this machine must read the same, line by line.
agrees_with_restore() {
  python3 "$here/split_trace_dat.py" "$session/trace.dat" "$work/pages"
  (cd "$work" && trace-cmd restore -c -o head.dat && trace-cmd restore -i head.dat -o theirs.dat \
    pages.cpu*) >"$work/restore" 2>&1
  printed "$session/trace.dat" >"$work/ours"
  printed "$work/theirs.dat" >"$work/theirs"
  [ -s "$work/ours" ] || fail "trace-cmd report prints nothing of $session/trace.dat"
  cmp "$work/ours" "$work/theirs" || fail "trace-cmd restore reads the pages otherwise"
  # And our own reader finds as many events as trace-cmd prints lines.
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  local events
  events=$(sed -n 's/^  events *//p' "$work/stdout" | head -n 1 | tr -d ,)
  expect_equal "events" "$(grep -vc 'EVENTS DROPPED\]$' "$work/ours")" "$events"
}

records_a_qemu_under_kvm_and_agrees_with_trace_cmd() {
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  demo_qemu -accel kvm -cpu host,-arch-capabilities
  start_recorder --sched -- "${qemu_command[@]}"
  wait_for "exit of QEMU's" qemus_exits_on_the_disk
  stop_recorder_once "fourth series of sync records" series_on_the_disk 4
  cat "$work/stderr"
  nothing_left "$recorder"
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "-D $instances/trapline-$recorder-"
  expect_contains "$work/stderr" "next: trapline report $session"
  expect_equal "closed" True "$(json 's["closed"]')"
  expect_equal "clock" mono "$(json 's["clocks"]["trace.dat"]')"
  expect_equal "vCPU thread" True "$(json 'any(t["name"].startswith("CPU 0") for t in s["threads"])')"
  expect_equal "sync" True "$(json 'len(s["sync"]) >= 4')"
  expect_equal "stamps" True "$(json 'all(e["before"]["mono"] <= e["stamp_ns"] <= e["after"]["mono"] for e in s["sync"])')"
  agrees_with_restore
  local kind
  for kind in kvm_userspace_exit sys_enter_ioctl sched_switch memory_region_ops_write \
    "trapline: sync 1" task_newtask; do
    expect_contains "$work/ours" "$kind"
  done
  # The filter holds: no ioctl but KVM_RUN.
  if grep sys_enter_ioctl "$work/ours" | grep -vi 'cmd: 0x0*ae80\|ae80'; then fail "other ioctls"; fi
  run "$trapline" report "$session" --format json
  expect_equal "exit status of report" 0 "$status"
  expect_contains "$work/stdout" '"user_end": "ioctl"'
  # Each series of sync records is a line of the timeline.
  run "$trapline" timeline "$session"
  expect_equal "series" "$(grep -c 'trapline: sync 1 [0-9]* 0 ' "$work/ours")" \
    "$(grep -c 'trapline: sync records, series' "$work/stdout")"
  if grep 'mono_raw=' "$work/stdout"; then fail "readings on the timeline"; fi
}

# The command after "next:" works on the session that was recorded.
the_suggestion_works() {  # the_suggestion_works COMMAND
  local next
  next=$(sed -n 's/^trapline: next: trapline //p' "$work/stderr")
  expect_equal "suggestion" "$1 $session" "$next"
  # shellcheck disable=SC2086 # words of a command
  run "$trapline" $next
  expect_equal "exit status of $next" 0 "$status"
}

records_guest_functions_of_a_tcg_qemu() {
  needs_plugin
  demo_qemu -accel tcg
  start_recorder --functions -- "${qemu_command[@]}"
  end_recorder
  cat "$work/stderr"
  nothing_left "$recorder"
  expect_equal "exit status is the guest's" 1 "$status"
  # The guest runs for a fraction of a second: its threads are seen all the same.
  expect_equal "vCPU thread" True "$(json 'any(t["name"].startswith("CPU 0") for t in s["threads"])')"
  the_suggestion_works report
  # The calls are on the thread that ran the vCPU, so its scheduling and QEMU's events are theirs.
  run "$trapline" report "$session" --format json
  local tid
  tid=$(json '[t["tid"] for t in s["threads"] if t["name"].startswith("CPU 0")][0]')
  python3 - "$work/stdout" "$tid" <<'END' || fail "the report by function: $(head -c 2000 "$work/stdout")"
import json, sys
tables = json.load(open(sys.argv[1]))["tables"]
assert tables["groups"]["of"] == "calls" and tables["groups"]["by"] == "function", tables["groups"]
assert [v["tid"] for v in tables["vcpus"]["rows"]] == [int(sys.argv[2])], tables["vcpus"]
functions = {row["name"]: row for row in tables["guest_functions"]["rows"]}
assert functions["rtc_read"]["calls"] == 400 and functions["compute"]["calls"] == 400
assert functions["rtc_read"]["qemu_events"] == 800, functions["rtc_read"]
assert functions["compute"]["qemu_events"] == 0, functions["compute"]
END
  agrees_with_restore
  uftrace report -d "$session/uftrace.data" >"$work/functions" 2>"$work/stderr"
  expect_contains "$work/functions" main
  [ -s "$session/symbols/demo-guest.elf" ] || fail "no symbols in the session"
}

# --functions=both: each call once, and the markers tell what the directory does, event by event.
records_guest_functions_in_the_recording_too() {
  needs_plugin
  demo_qemu -accel tcg -name guest=demo
  start_recorder --functions=both -- "${qemu_command[@]}"
  end_recorder
  cat "$work/stderr"
  nothing_left "$recorder"
  expect_equal "functions" both "$(json 's["functions"]')"
  expect_equal "name of the virtual machine" "['demo']" "$(json '[vm["name"] for vm in s["vms"]]')"
  for part in "" /uftrace.data; do
    run "$trapline" timeline "$session$part"
    expect_equal "exit status of timeline" 0 "$status"
    grep -oE '(call|return from) .*' "$work/stdout" >"$work/calls$(basename "$part")"
  done
  [ -s "$work/calls" ] || fail "there are no calls"
  cmp "$work/calls" "$work/callsuftrace.data" || fail "the markers tell other calls"
  # A plugin that the command names itself is left alone; it finds the recording's marker.
  local plugin=$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so
  plugin+=,symbols=$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf,include=compute,output=ftrace
  start_recorder -- "${qemu_command[@]}" -plugin "$plugin"
  end_recorder
  cat "$work/stderr"
  run "$trapline" timeline "$session"
  expect_contains "$work/stdout" "call compute()"
  [ ! -e "$session/uftrace.data" ] || fail "output=ftrace has written a directory"
}

# What KernelShark's own library reads is what trace-cmd prints, event by event, and as many holes.
agrees_with_kernelshark() {  # agrees_with_kernelshark PROGRAM
  "$1" "$session/trace.dat" >"$work/kernelshark" || fail "KernelShark does not read it"
  trace-cmd report -N -t "$session/trace.dat" >"$work/text" 2>/dev/null
  expect_equal "holes" "$(grep -c 'EVENTS DROPPED\]$' "$work/text")" "$(head -n 1 "$work/kernelshark")"
  sed 1d "$work/kernelshark" >"$work/theirs"
  sed -nE 's/^ *.*-([0-9]+) +\[0*([0-9]+)\] +([0-9]+)\.([0-9]+): ([^:]+):.*/\3\4 \2 \1 \5/p' \
    "$work/text" >"$work/ours"
  [ -s "$work/ours" ] || fail "there are no events"
  cmp "$work/ours" "$work/theirs" || fail "KernelShark reads other events"
}

kernelshark_reads_what_it_writes() {
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  local root library reader=$work/kshark_events
  root=$(fetched kernelshark)/root
  library=$(dirname "$(find "$root" -name libkshark.so)")
  # shellcheck disable=SC2046 # words
  cc -o "$reader" "$here/kshark_events.c" -I"$root/usr/include/kernelshark" -I"$root/usr/include" \
    $(pkg-config --cflags libtracecmd libtracefs libtraceevent) -L"$library" -lkshark \
    -Wl,-rpath,"$library"
  demo_qemu -accel kvm -cpu host,-arch-capabilities
  start_recorder --sched -- "${qemu_command[@]}"
  stop_recorder_once "exit of QEMU's" qemus_exits_on_the_disk
  expect_equal "exit status" 0 "$status"
  agrees_with_kernelshark "$reader"
  rm -r "$session"
  start_recorder --snapshot-on 'exit > 20us' --around 2ms -- "${qemu_command[@]}"
  stop_recorder_once "hits with something between them" has_windows
  cat "$work/stderr"
  expect_equal "hits" True "$(json 's["snapshot"]["hits"] >= 1')"
  agrees_with_kernelshark "$reader"
  expect_equal "holes" True "$(json "$(head -n 1 "$work/kernelshark") >= 1")"
}

# Once a second the facts of a --snapshot-on that has more hits are written.
has_windows() { grep -qE '"windows": ([2-9]|[1-9][0-9])' "$session/session.json"; }

passes_signals_and_the_exit_status_on() {
  start_recorder -- sh -c 'trap "exit 7" TERM; touch "$0"; while :; do sleep 0.05; done' "$work/up"
  wait_for command test -e "$work/up"
  kill -TERM "$recorder"
  end_recorder
  expect_equal "exit status" 7 "$status"
  expect_equal "ended by" signal "$(json 's["ended_by"]')"
  nothing_left "$recorder"
  start_recorder -- sh -c 'kill -KILL $$'
  end_recorder
  expect_equal "exit status of a killed command" 137 "$status"
  expect_equal "closed" True "$(json 's["closed"]')"
  nothing_left "$recorder"
  start_recorder --duration 1 -- sleep 60
  end_recorder
  expect_equal "exit status at the end of the duration" 143 "$status"
  expect_equal "ended by" duration "$(json 's["ended_by"]')"
}

ignoring() {  # ignoring SIGNAL COMMAND...
  exec python3 -c 'import os, signal, sys
signal.signal(getattr(signal, sys.argv[1]), signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])' "$@"
}

what_the_caller_ignores_neither_ends_nor_hangs_a_recording() {
  run timeout -k 5 60 bash -c "$(declare -f ignoring); "'ignoring "$@"' bash SIGCHLD \
    "$trapline" record -o "$session" -- sh -c 'exit 7'
  expect_equal "exit status with SIGCHLD ignored" 7 "$status"
  # As nohup does.
  (ignoring SIGHUP "$trapline" record -o "$session" -- sh -c \
    'grep SigIgn: /proc/self/status; touch "$0"; exec sleep 60' "$work/up") \
    >"$work/stdout" 2>"$work/stderr" &
  recorder=$!
  wait_for command test -e "$work/up"
  kill -HUP "$recorder"
  sleep 0.5 # in which nothing is to happen
  kill -0 "$recorder" || fail "SIGHUP ended it: $(cat "$work/stderr")"
  kill -TERM "$recorder"
  end_recorder
  grep -q '[13579bdf]$' "$work/stdout" || fail "the command does not ignore SIGHUP: $(cat "$work/stdout")"
  nothing_left "$recorder"
}

closed_descriptors_are_no_files_of_the_recording() {
  status=0
  "$trapline" record -o "$session" -- sh -c 'echo from the com""mand >&2; true' <&- >&- 2>&- || status=$?
  expect_equal "exit status" 0 "$status"
  expect_equal "files with messages" "" "$(grep -rlaE 'from the command|recorded .* MiB in' "$session" || true)"
}

a_start_that_fails_keeps_the_earlier_sessions() {
  local which
  for which in a b; do
    run "$trapline" record -o "$session" -- true
    expect_equal "exit status" 0 "$status"
    echo "$which" >"$session/which"
  done
  expect_contains "$work/stderr" "this recording is ${session##*/}.new while it lasts; then the earlier $session becomes ${session##*/}.old"
  printf '#!/nonexistent\n' >"$work/command"
  chmod +x "$work/command"
  run "$trapline" record -o "$session" -- "$work/command"
  expect_equal "exit status of a command that cannot run" 127 "$status"
  expect_equal "sessions" "b a" "$(cat "$session/which" "$session.old/which" | xargs)"
  run "$trapline" record -o "$session" -- true
  expect_equal "sessions" "$session $session.old" "$(echo "$session"*)"
  expect_equal "the earlier one" b "$(cat "$session.old/which")"
}

runs_the_command_as_a_user_with_the_marker() {
  start_recorder --user nobody -- bash -c 'id -un; echo from nobody >&"$TRAPLINE_FTRACE_FD"
    echo anew >"/proc/self/fd/$TRAPLINE_FTRACE_FD"'
  end_recorder
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stdout" nobody
  trace-cmd report "$session/trace.dat" >"$work/text" 2>/dev/null
  expect_contains "$work/text" "tracing_mark_write: from nobody"
  expect_contains "$work/text" "tracing_mark_write: anew"
  nothing_left "$recorder"
}

# Stands for a QEMU built with the ftrace backend, which no package has: it switches the top-level
# buffer on and writes into its marker, and its binary says so. $2: what -d help lists.
ftrace_qemu() {
  chmod 711 "$work"
  printf '%s\n' '#!/bin/bash' "case \$1 in --version) echo version 1 ;; -d) echo $2 ;;" '*)' \
    'echo 1 >/sys/kernel/tracing/tracing_on && echo "from $*" >/sys/kernel/tracing/trace_marker' \
    'echo "top level: $(cat /sys/kernel/tracing/tracing_on)" ;; esac' >"$1"
  chmod 755 "$1"
}

gives_a_qemu_with_the_ftrace_backend_the_instances_marker() {
  local qemu=$work/qemu-system-ftrace user
  ftrace_qemu "$qemu" cpu
  for user in "" nobody; do
    start_recorder ${user:+--user "$user"} --qemu-events 'virtio_*' -- "$qemu" -name vm
    end_recorder
    cat "$work/stderr"
    expect_equal "exit status" 0 "$status"
    expect_equal "top-level tracing_on is out of reach" "top level: " "$(cat "$work/stdout")"
    trace-cmd report "$session/trace.dat" >"$work/text" 2>/dev/null
    expect_contains "$work/text" \
      "tracing_mark_write: from -name vm,debug-threads=on -trace virtio_*"
    if grep -q -e ' -D ' "$work/stderr"; then fail "-D was added"; fi
    nothing_left "$recorder"
  done
}

records_a_qemu_with_both_backends_once() {
  local qemu=$work/qemu-system-both
  ftrace_qemu "$qemu" trace:PATTERN
  start_recorder --qemu-events 'virtio_*' -- "$qemu" -name vm
  end_recorder
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "-D $instances/trapline-$recorder-"
  expect_equal "top-level tracing_on is out of reach" "top level: " "$(cat "$work/stdout")"
  trace-cmd report "$session/trace.dat" >"$work/text" 2>/dev/null
  if grep -q "from -name" "$work/text"; then fail "its events come by both ways"; fi
  nothing_left "$recorder"
}

records_a_running_process() {
  # It runs when it is told to, so that it has no turn before the recording or after it.
  mkfifo "$work/turns"
  bash -c 'while read -r; do for ((i = 0; i < 2000; i++)); do :; done; done' <"$work/turns" &
  local target=$! turn
  exec 9>"$work/turns"
  wait_for "its read" grep -q '^State:.S' "/proc/$target/status"
  start_recorder --pid "$target" --events sched:sched_switch
  wait_for "its begin" grep -q "recording process $target" "$work/stderr"
  wait_for "the recording" records "$recorder"
  for ((turn = 0; turn < 20; turn++)); do
    echo >&9
    sleep 0.01
  done
  wait_for "its switches" on_the_disk sched_switch 20
  kill -TERM "$recorder"
  end_recorder
  kill "$target"
  expect_equal "exit status" 0 "$status"
  trace-cmd report "$session/trace.dat" 2>/dev/null >"$work/text"
  expect_contains "$work/text" "$target"
  nothing_left "$recorder"
  # schedstat before and after: as many turns as the recording has ends of turns, for with set_event_pid the kernel leaves
  # out some switches from its idle thread, which begin a turn. Their time, but for what it counts from a wake-up on.
  python3 - "$work/text" "$session/session.json" "$target" <<'END' || fail "schedstat of $target in session.json"
import json, re, sys
target = int(sys.argv[3])
[thread] = [t for t in json.load(open(sys.argv[2]))["threads"] if t["tid"] == target]
(before, after), (turns_before, turns_after) = thread["ran_ns"], thread["turns"]
ran, turns, unseen, since = 0, 0, 0, None
for line in open(sys.argv[1], encoding="utf-8"):
    switch = re.search(r" (\d+)\.(\d+): sched_switch:.*?:(\d+) \[\d+\].*==> .*?:(\d+) \[", line)
    if not switch:
        continue
    at = int(switch[1]) * 10**9 + int(switch[2].ljust(9, "0"))
    if int(switch[3]) == target:
        turns += 1
        if since is None:
            unseen += 1
        else:
            ran, since = ran + at - since, None
    if int(switch[4]) == target:
        since = at
by_switches = f"{turns} turns, {unseen} without their begin, and {ran} ns by switches"
print(f"{turns_after - turns_before} turns and {after - before} ns by schedstat, {by_switches}")
assert turns - unseen >= 10 and turns_after - turns_before == turns, "turns"
assert ran < after - before + 100_000 * turns, "time"
assert unseen or ran > after - before - 100_000 * turns, "time"
END
}

# It is not told of the instance. Its writes succeed before, during and after the recording.
running_qemu() {  # running_qemu ARGUMENT...: a firmware that finds nothing to boot, again and again; its pid in $qemu, QMP at $work/qmp
  uuid=$(cat /proc/sys/kernel/random/uuid)  # tests run side by side
  setpriv --pdeathsig KILL "$(fetched qemu10)/bin/qemu-system-x86_64" -accel tcg -display none -nodefaults -m 64 "$@" \
    -boot reboot-timeout=100 -qmp "unix:$work/qmp,server=on,wait=off" \
    -name guest=web01,debug-threads=on -uuid "$uuid" &
  qemu=$!
  # With the mark of one that listens.
  wait_for "QEMU's socket" grep -q "^[^ ]* [^ ]* [^ ]* 00010000 .* $work/qmp$" /proc/net/unix
}

recorded_through() {  # recorded_through OPTION...: until the recording has events of the QEMU that runs
  start_recorder "$@" --no-kvm
  wait_for "QEMU's events" on_the_disk memory_region_ops_ 50
  kill -TERM "$recorder"
  end_recorder
  its_events_were_recorded
}

its_events_were_recorded() {
  expect_equal "exit status" 0 "$status"
  nothing_left "$recorder"
  if grep -q warning "$work/stderr"; then fail "a warning: $(cat "$work/stderr")"; fi
  expect_equal "pid" "$qemu" "$(json 's["pid"]')"
  [ "$("$trapline" timeline "$session" | grep -c memory_region_ops_)" -gt 20 ] || fail "QEMU's events are missing"
  # As before: no event is on, and QEMU holds nothing of the recorder's.
  expect_equal "events that are on" 0 "$("$trapline" events --qmp "$work/qmp" 'memory_region_*' | grep -c 'state 1' || true)"
  if find "/proc/$qemu/fd" -lname '*trace_marker' | grep .; then fail "QEMU holds the marker"; fi
}

a_qemu_that_runs_is_recorded_through_its_monitor() {
  local user
  for user in root nobody; do
    rm -rf "$work/qmp" "$session"
    if [ $user = root ]; then running_qemu; else running_qemu -run-with user=nobody; fi
    recorded_through --qmp "$work/qmp"
    kill "$qemu"
    wait "$qemu" || true
  done
  # The human monitor alone would do.
  rm -rf "$work/qmp" "$session"
  running_qemu -monitor "unix:$work/human,server=on,wait=off"
  recorded_through --qmp "$work/human"
  run "$trapline" events --qmp "$work/human" 'memory_region_*'
  expect_equal "exit status of QMP on the human monitor" 1 "$status"
  expect_contains "$work/stderr" "takes no QMP"
  kill "$qemu"
  wait "$qemu" || true
}

# What holds the monitor is here a script in virsh's place, as libvirt's is.
a_domain_of_libvirt_is_recorded_through_virsh() {
  running_qemu
  mkdir "$work/bin"
  cat >"$work/bin/virsh" <<'END'
#!/usr/bin/env python3
import array, json, os, socket, sys
words = [word for word in sys.argv[1:] if not word.startswith(("--quiet", "--connect"))]
values = dict(word[2:].split("=", 1) for word in words[1:])
if values["domain"] != "web01":
    sys.exit(f"error: failed to get domain '{values['domain']}'")
if words[0] == "domuuid":
    print(os.environ["UUID"] + "\n")
else:
    with socket.socket(socket.AF_UNIX) as monitor:
        monitor.connect(os.environ["QMP"])
        lines = monitor.makefile()
        lines.readline()
        monitor.sendall(b'{"execute": "qmp_capabilities"}\n')
        lines.readline()
        files = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [int(values["pass-fds"])]))] if "pass-fds" in values else []
        monitor.sendmsg([values["cmd"].encode() + b"\n"], files)
        answer = lines.readline()
        while not {"return", "error"} & set(json.loads(answer)):
            answer = lines.readline()
        print(answer)
END
  chmod +x "$work/bin/virsh"
  export PATH=$work/bin:$PATH QMP=$work/qmp UUID=$uuid
  recorded_through --domain web01
  run "$trapline" record -o "$work/none" --domain web02 --duration 1s
  expect_equal "status of an unknown domain" 1 "$status"
  expect_contains "$work/stderr" "--domain web02: virsh: failed to get domain 'web02'"
  # A process that only looks like it.
  local other
  python3 -c 'import time; time.sleep(300)' -uuid "$uuid" &
  other=$!
  wait_for "the other process" grep -q "$uuid" "/proc/$other/cmdline"
  run "$trapline" record -o "$work/none" --domain web01 --duration 1s
  kill "$other"
  expect_equal "status where two processes have its UUID" 1 "$status"
  expect_contains "$work/stderr" "2 processes of this host run a QEMU with its UUID"
  run "$trapline" record -o "$work/none" --domain web01 -- true
  expect_equal "status with a command" 2 "$status"
}

a_program_that_writes_into_the_top_level_marker_is_recorded() {
  local marker=/sys/kernel/tracing/trace_marker target
  [ -e /sys/kernel/tracing/options/copy_trace_marker ] || skip "needs a kernel with copy_trace_marker (6.16)"
  python3 -u - "$marker" >"$work/writes" <<'END' &
import os, signal, sys, time
marker, failed, ended = os.open(sys.argv[1], os.O_WRONLY), 0, []
signal.signal(signal.SIGTERM, lambda *_: ended.append(True))
print("begins")
while not ended:
    try:
        os.write(marker, b"memory_region_ops_read of-the-test\n")
    except OSError:
        failed += 1
    time.sleep(0.001)
print(failed)
END
  target=$!
  wait_for "the writer" grep -q begins "$work/writes"
  start_recorder --pid "$target" --no-kvm
  wait_for "its markers" on_the_disk of-the-test 10
  kill -TERM "$recorder"
  end_recorder
  kill "$target"
  wait "$target"
  expect_equal "exit status" 0 "$status"
  trace-cmd report "$session/trace.dat" 2>/dev/null | grep -c of-the-test >"$work/seen" || true
  [ "$(cat "$work/seen")" -gt 5 ] || fail "$(cat "$work/seen") of its markers are in the recording"
  expect_equal "writes that failed" 0 "$(tail -n 1 "$work/writes")"
  nothing_left "$recorder"
}

nobody_learns_that_the_module_is_missing_where_rights_are() {
  [ "$(id -u)" = 0 ] || skip "needs root, to be somebody else"
  run setpriv --reuid 65534 --regid 65534 --clear-groups "$trapline" record -o "$session" --duration 1s
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "run as root"
  if grep -E "no KVM|modprobe" "$work/stderr"; then fail "the module is said to be missing"; fi
}

a_killed_recorder_leaves_a_readable_session_and_the_next_start_cleans_up() {
  local dead first
  start_recorder --no-kvm --events sched:sched_switch
  wait_for "second series of sync records on the disk" series_on_the_disk 2
  # An open session is read too, and is its owner's alone.
  run "$trapline" timeline "$session"
  expect_equal "exit status of timeline while it records" 0 "$status"
  expect_contains "$work/stdout" sched_switch
  expect_equal "the folder's mode" 700 "$(stat -c %a "$session")"
  expect_equal "files that others may read" "" "$(find "$session" -type f -perm /077)"
  kill_with_guard "$recorder"
  end_recorder
  dead=$recorder
  has_instance "$dead" || fail "nothing to clean up"
  mv "$session" "$work/cut.trapline"
  start_recorder -- true
  end_recorder
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "removed the instance of a dead recorder: trapline-$dead-"
  nothing_left "$dead"
  run "$trapline" info "$work/cut.trapline"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" sched_switch
  # Reading it has changed nothing; finishing it is a command of its own, after which it tells the same.
  [ -e "$work/cut.trapline/raw/trace.dat" ] || fail "info has finished the session"
  [ ! -e "$work/cut.trapline/trace.dat" ] || fail "info has written trace.dat"
  grep -v '^[0-9]' "$work/stdout" >"$work/open"
  run "$trapline" record --finish "$work/cut.trapline" --sched
  expect_equal "exit status of --finish with an option of a recording" 2 "$status"
  run "$trapline" record --finish "$work/cut.trapline"
  expect_equal "exit status of record --finish" 0 "$status"
  [ ! -e "$work/cut.trapline/raw" ] || fail "the session was not finished"
  run "$trapline" info "$work/cut.trapline"
  grep -v '^[0-9]' "$work/stdout" | diff "$work/open" - || fail "the finished session tells other things"
  trace-cmd report "$work/cut.trapline/trace.dat" 2>/dev/null >"$work/text"
  # Whatever was there a second before the kill is there: at least two series of sync records.
  first=$(grep -c 'trapline: sync 1 [0-9]* 0 ' "$work/text")
  [ "$first" -ge 2 ] || fail "only $first sync series"
  session=$work/cut.trapline
  expect_equal "closed" False "$(json 's["closed"]')"
}

is_gone() { ! grep -qs '^State:.[^Z]' "/proc/$1/status"; }
# has_statistic PID NAME: one that is not 0 for one CPU of its instance.
has_statistic() { grep -qs "^$2: [1-9]" "$(instance_of "$1")"/per_cpu/cpu*/stats; }
has_events() { has_statistic "$1" "read events"; }
has_overwritten() { has_statistic "$1" overrun; }
does_not_record() { ! records "$1"; }
is_small() { grep -qsE '^([0-9]|[1-5][0-9]|6[0-4])( |$)' "$(instance_of "$1")/buffer_size_kb"; }

# In a process group of its own, so that the group can be sent what a terminal sends.
killed() {  # killed SIGNAL COMMAND...; with what it was asked, no instance of it is left
  local signal=$1 process guard begun took
  shift
  setsid "$@" >"$work/stdout" 2>"$work/stderr" &
  process=$!
  wait_for "$*: its instance" records "$process"
  # It holds nothing but its pipe, is in a session of its own, and deaf.
  wait_for "$*: its guard" has_guard "$process"
  guard=$(guard_of "$process")
  expect_equal "folder of the guard" / "$(readlink "/proc/$guard/cwd")"
  expect_equal "session of the guard" "$guard" "$(awk '{ print $6 }' "/proc/$guard/stat")"
  kill -TERM "$guard"
  begun=$(date +%s%N)
  if [ "$signal" = INT ]; then kill -INT -- "-$process"; else kill "-$signal" "$process"; fi
  wait "$process" || true
  wait_for "end of the instance of $* after SIG$signal" has_no_instance "$process"
  took=$((($(date +%s%N) - begun) / 1000000))
  if [ "$signal" != INT ] && [ "$took" -lt "$soonest" ]; then soonest=$took; fi
  wait_for "end of the guard" is_gone "$guard"
  rm -rf -- "$session"
}

no_instance_outlives_what_made_it() {
  local signal process soonest=60000
  command -v strace >/dev/null || skip "needs strace"
  for signal in KILL SEGV INT; do
    killed "$signal" "$trapline" record -o "$session" --no-kvm --sched --duration 60
  done
  killed KILL "$trapline" record --flight 2s -o "$session" --no-kvm --sched
  killed KILL "$trapline" top --batch
  # A machine that is busy makes some of them wait.
  [ "$soonest" -lt 1000 ] || fail "no instance went within a second of its recorder's death"
  # One that is killed while the kernel makes its instance, which records from its first moment.
  setsid strace -o "$work/trace" -e trace=mkdir -e inject=mkdir:delay_exit=3000000 \
    "$trapline" record -o "$session" --no-kvm --sched --duration 60 2>"$work/stderr" &
  process=$!
  wait_for "recorder" pgrep -P "$process" -x trapline
  recorder=$(pgrep -P "$process" -x trapline)
  wait_for "instance in the making" records "$recorder"
  kill -KILL "$recorder"
  wait "$process" || true
  wait_for "end of the instance in the making" has_no_instance "$recorder"
  # One that the user named, too.
  "$trapline" record -o "$session" --instance "mine-$$" --no-kvm --sched --duration 60 2>"$work/stderr" &
  recorder=$!
  wait_for "instance" grep -qs 1 "$instances/mine-$$/tracing_on"
  kill -KILL "$recorder"
  end_recorder
  wait_for "end of the instance" test ! -e "$instances/mine-$$"
  # A command that holds the marker keeps the instance, which records nothing more.
  rm -rf -- "$session"
  start_recorder --no-kvm --sched -- sleep 60
  wait_for "$recorder's instance" records "$recorder"
  wait_for "command" pgrep -P "$recorder" -x sleep
  command=$(pgrep -P "$recorder" -x sleep)
  kill -KILL "$recorder"
  end_recorder
  wait_for "end of its recording" does_not_record "$recorder"
  wait_for "end of its large buffers" is_small "$recorder"
  sleep 2  # longer than the quick tries
  kill "$command"
  wait_for "end of the instance that the command held" has_no_instance "$recorder"
}

a_low_limit_of_open_files_is_raised_and_the_command_has_it_back() {
  # Each CPU needs three files, and 1,024 is the usual limit: what 1,024 CPUs need of that.
  local limit
  limit=$(($(getconf _NPROCESSORS_CONF) * 3 + 8))
  status=0
  (ulimit -Sn "$limit" && exec "$trapline" record -o "$session" --no-kvm --sched -- sh -c 'ulimit -Sn') \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 0 "$status"
  expect_equal "limit of the command" "$limit" "$(cat "$work/stdout")"
  [ "$limit" -lt 64 ] || skip "so many CPUs that 64 files are enough"
  # Where it cannot be raised, the user is told.
  status=0
  (ulimit -Sn "$limit" && ulimit -Hn "$limit" &&
    exec setpriv --bounding-set=-sys_resource "$trapline" record -o "$session.2" --no-kvm --sched -- true) \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "raise the limit of open files: ulimit -n"
}

a_qemu_that_is_killed_ends_the_recording() {
  demo_qemu -accel tcg
  start_recorder -- "${qemu_command[@]}" -S
  wait_for "QEMU's vCPU" its_qemu_handles_sigterm
  kill -KILL "$(pgrep -P "$recorder" "qemu|ld-linux")"
  end_recorder
  expect_equal "exit status" 137 "$status"
  expect_equal "closed" True "$(json 's["closed"]')"
  nothing_left "$recorder"
}

small_disk() {  # small_disk MIB: of the session
  mkdir "$work/small"
  mount -t tmpfs -o "size=$1m" none "$work/small" || skip "cannot mount a tmpfs"
  session=$work/small/run.trapline
}

# The recorder stands while the kernel gets more (8 MB) than the disk and a pipe have room for.
a_full_disk_stops_the_recording_and_not_the_command() {
  needs_calls
  small_disk 10
  start_recorder --no-kvm --events "syscalls:$event" -- sh -c \
    'kill -STOP $PPID; "$1" --own-calls 220000; kill -CONT $PPID
     for i in $(seq 2000); do if grep -q "No space" "$0"; then break; fi; sleep 0.1; done
     echo the command ended' "$work/stderr" "$TRAPLINE_BINARY_DIR/tests/system/fault"
  end_recorder
  cat "$work/stderr"
  local text rest=0
  text=$("$trapline" info "$session" 2>&1) || rest=$?
  cp -r "$session" "$work/copy"
  umount "$work/small"
  session=$work/copy
  expect_contains "$work/stdout" "the command ended"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "No space left on device"
  expect_equal "exit status of info ($text)" 0 "$rest"
  [[ $text == *"$event"* ]] || fail "info lacks the events: $text"
  [[ $text == *"events were left in the kernel"*"the recording was cut short: "* ]] ||
    fail "info does not tell that it lacks its end: $text"
  expect_contains "$work/stderr" "events left in the kernel"
  expect_equal "closed" True "$(json 's["closed"]')"
  nothing_left "$recorder"
}

# What would go at the end goes first where the disk has no room for it and a new one.
a_small_disk_has_room_for_the_next_recording() {
  local turn states="" old
  small_disk 30
  for turn in a b c; do
    run "$trapline" record -o "$session" -- sh -c '[ -e "$0.new" ] && set -- "$0.new" "$1" || set -- "$0" "$1"
      echo "$2" >"$1/which"
      exec dd if=/dev/zero of="$1/padding" bs=1M count=10' "$session" "$turn"
    cat "$work/stderr"
    states+=" $status"
  done
  old=$(cat "$session.old/which")
  umount "$work/small"
  expect_equal "exit statuses" " 0 0 0" "$states"
  expect_equal "the earlier one" b "$old"
  expect_contains "$work/stderr" "removed run.trapline.old now and not at the end: 1"
}

a_limit_of_file_sizes_is_named() {
  needs_calls
  status=0
  (ulimit -f 4096 && exec "$trapline" record -o "$session" --no-kvm --events "syscalls:$event" -- \
    "$TRAPLINE_BINARY_DIR/tests/system/fault" --own-calls "$((150000 * $(getconf _NPROCESSORS_CONF)))") \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  cat "$work/stderr"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "File too large; raise the limit of file sizes, now 4M: ulimit -f unlimited"
  # A signal would end it without a word.
  status=0
  (ulimit -f 4096 && exec "$trapline" record --finish "$session") >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status of --finish" 1 "$status"
  expect_contains "$work/stderr" "raise the limit of file sizes, now 4M"
  run "$trapline" record --finish "$session"
  expect_equal "exit status of --finish without a limit" 0 "$status"
}

# What the snapshot had in memory when the disk was full is counted.
a_full_disk_costs_a_snapshot_what_it_says() {
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  needs_calls
  small_disk 20
  demo_qemu -accel kvm -cpu host,-arch-capabilities
  start_recorder --events "syscalls:$event" --snapshot-on 'exit > 20us' -- timeout 200 sh -c \
    'fault=$1; shift; "$@" & until grep -q "No space" "$0"; do "$fault" --own-calls 10000; done; kill $!; wait' \
    "$work/stderr" "$TRAPLINE_BINARY_DIR/tests/system/fault" "${qemu_command[@]}"
  end_recorder
  cat "$work/stderr"
  cp -r "$session" "$work/copy"
  umount "$work/small"
  session=$work/copy
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "No space left on device"
  expect_contains "$work/stderr" "events around them were in memory and could not be written"
  expect_equal "events counted" True "$(json 's["snapshot"]["unwritten_events"] > 0')"
  expect_equal "pages counted" True "$(json 'sum(l["unwritten_pages"] for l in s["losses"]) > 0')"
  expect_equal "closed" True "$(json 's["closed"]')"
  trace-cmd report -N "$session/trace.dat" >"$work/text" 2>/dev/null
  expect_equal "kept" "$(json 's["snapshot"]["kept_events"]')" "$(grep -c '\] ' "$work/text")"
  nothing_left "$recorder"
}

the_instance_cannot_be_taken_away_while_it_records() {
  start_recorder
  wait_for pages test -e "$session/raw/start.json"
  has_instance "$recorder" || fail "it has no instance"
  if rmdir "$instances/trapline-$recorder-"* 2>/dev/null; then fail "the kernel let it go"; fi
  kill -TERM "$recorder"
  end_recorder
  expect_equal "exit status" 0 "$status"
  nothing_left "$recorder"
}

a_session_that_is_removed_ends_its_recording() {
  start_recorder --no-kvm --sched --duration 60
  wait_for_recording "$recorder" "$session"
  rm -rf "$session" || rm -rf "$session"
  end_recorder
  cat "$work/stderr"
  expect_equal "exit status" 1 "$status"
  expect_equal "what it says of it" 1 "$(grep -c "$session: was removed while trapline recorded into it" "$work/stderr")"
  if grep -q -e "--finish" -e "lost nothing" "$work/stderr"; then fail "it goes on"; fi
  [ ! -e "$session" ] || fail "the session is there again"
  nothing_left "$recorder"
  # The command goes on.
  start_recorder --no-kvm --sched -- sh -c 'until [ -e "$0" ]; do sleep 0.05; done; echo done' "$work/told"
  wait_for_recording "$recorder" "$session"
  rm -rf "$session" || rm -rf "$session"
  wait_for "word of it" grep -q "the command goes on" "$work/stderr"
  touch "$work/told"
  end_recorder
  expect_contains "$work/stderr" "recording has stopped; the command goes on"
  expect_contains "$work/stdout" "done"
  expect_equal "exit status" 1 "$status"
  nothing_left "$recorder"
}

# What trace-cmd counts as dropped, of all CPUs; nothing where it says "dropped" without a number.
dropped_by_trace_cmd() {
  trace-cmd report "$session/trace.dat" 2>/dev/null | sed -n 's/^CPU:\([0-9]*\) \[\(.*\)EVENTS DROPPED\]$/\1 \2/p' |
    awk 'NF < 2 { unknown = 1 } { sum[$1] += $2 }
      END { if (!unknown) for (cpu in sum) print cpu, sum[cpu] }' | sort
}

says_that_somebody_meddled_with_the_instance() {
  local instance
  start_recorder
  # Where it cannot write its first sync records it does not start.
  wait_for "sync records" series_on_the_disk 1
  instance=$(instance_of "$recorder")
  echo local >"$instance/trace_clock"  # this empties the buffers
  echo "by another clock" >"$instance/trace_marker"
  echo 0 >"$instance/tracing_on"
  kill -TERM "$recorder"
  end_recorder
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "another process changed this instance: it wrote $instance/tracing_on"
  expect_contains "$work/stderr" "another process changed this instance: it wrote $instance/trace_clock"
  if grep -q "lost nothing" "$work/stderr"; then fail "it lost nothing"; fi
  run "$trapline" info "$session"
  expect_contains "$work/stdout" "it wrote $instance/tracing_on"
  if grep -q "lost *nothing" "$work/stdout"; then fail "info says that it lost nothing"; fi
  expect_equal "warnings" 2 "$(json 'len(s["warnings"])')"
  nothing_left "$recorder"
}

the_last_line_names_where_a_renamed_session_is() {
  local next
  start_recorder --no-kvm --sched
  wait_for "sync records" series_on_the_disk 2
  mkdir "$work/elsewhere"
  mv "$session" "$work/elsewhere/moved"
  kill -TERM "$recorder"
  end_recorder
  expect_equal "exit status" 0 "$status"
  next=$(sed -n 's/^trapline: next: //p' "$work/stderr")
  expect_equal "next" "trapline timeline $work/elsewhere/moved" "$next"
  run "$trapline" info "$work/elsewhere/moved"
  expect_equal "exit status of info" 0 "$status"
  nothing_left "$recorder"
}

# What is taken back before anybody looks: no setting tells of it, and no count of the kernel's. A recorder for each action.
what_another_process_takes_back_at_once_is_a_loss() {
  local instance action one
  local -a recorders
  local -a actions=('echo 0 >events/enable; set_events' 'echo >trace' ': >trace' 'echo 0 >tracing_on; echo 1 >tracing_on'
    'echo "common_pid == 1" >events/sched/sched_switch/filter; echo 0 >events/sched/sched_switch/filter'
    'echo 0 >events/sched/sched_switch/enable; echo 1 >events/sched/sched_switch/enable'
    'echo >per_cpu/cpu0/trace' 'echo 64 >buffer_size_kb; echo "$size" >buffer_size_kb')
  of() { session=$work/$1.trapline recorder=${recorders[$1]}; }
  for one in "${!actions[@]}"; do
    "$trapline" record -o "$work/$one.trapline" --no-kvm --sched >/dev/null 2>"$work/$one.stderr" &
    recorders+=($!)
  done
  for one in "${!actions[@]}"; do
    of "$one"
    wait_for "sync records" series_on_the_disk 2
    instance=$(instance_of "$recorder")
    # shellcheck disable=SC2034,SC2317 # the action is a text
    (
      cd "$instance"
      size=$(cat buffer_size_kb) events=$(cat set_event)
      set_events() { for each in $events; do echo "$each" >>set_event; done; }
      eval "${actions[one]}"
    )
  done
  for one in "${!actions[@]}"; do
    of "$one"
    echo "${actions[one]}"
    wait_for "sync records after it" series_on_the_disk 5
    kill -TERM "$recorder"
    end_recorder
    mv "$work/$one.stderr" "$work/stderr"
    expect_equal "exit status" 0 "$status"
    expect_contains "$work/stderr" "another process changed this instance: it wrote $instances/trapline-$recorder-"
    if grep -q "lost nothing" "$work/stderr"; then fail "it lost nothing"; fi
    expect_equal "changes" 1 "$(json 'len(s["changes"])')"
    expect_equal "that it ends" False "$(json 's["changes"][0].get("goes_on", False)')"
    expect_equal "at most three looks" True "$(json '0 < s["changes"][0]["to_ns"] - s["changes"][0]["from_ns"] < 3.5e9')"
    # Nothing in it is taken for all that happened, and what is around it is.
    run "$trapline" info "$session"
    expect_contains "$work/stdout" "of the instance: the events of"
    if grep -q "lost *nothing" "$work/stdout"; then fail "info says that it lost nothing"; fi
    nothing_left "$recorder"
  done
  # A kernel without inotify: the counts tell that the buffer was emptied, and no more than counts is promised.
  command -v strace >/dev/null || skip "needs strace"
  for action in 'echo >"$0"-$PPID-*/trace' :; do
    rm -rf "$session"
    run strace -f -o "$work/trace" -e trace=inotify_init1 -e inject=inotify_init1:error=EMFILE "$trapline" record \
      -o "$session" --no-kvm --sched -- bash -c "sleep 2.5; $action; sleep 2.5" "$instances/trapline"
    expect_equal "exit status" 0 "$status"
    if [ "$action" = : ]; then
      expect_contains "$work/stderr" "lost nothing that was counted"
    else
      expect_contains "$work/stderr" "another process changed this instance: it wrote $instances/"
    fi
  done
  rm -rf "$session"
  start_recorder --no-kvm --sched --duration 3
  end_recorder
  grep -q "lost nothing$" "$work/stderr" || fail "it lost something: $(cat "$work/stderr")"
  expect_equal "changes" 0 "$(json 'len(s.get("changes", []))')"
}

# A process that makes calls when it is told to, and nothing else that is recorded.
start_load() {  # its pid in $load
  needs_calls
  mkfifo "$work/calls" "$work/made"
  bash -c 'while read -r calls; do "$0" --own-calls "$calls"; echo; done' "$TRAPLINE_BINARY_DIR/tests/system/fault" \
    <"$work/calls" >"$work/made" &
  load=$!
  exec 8>"$work/calls" 9<"$work/made"
}
load_calls() { echo "$1" >&8 && read -r -u 9; }
has_calls() { [ "$(calls_in "$session")" = "$1" ]; }
theirs_are() { [ "$(grep -c sched_getparam "$work/theirs")" = "$1" ]; }

# The recorder does not count what others read during a read of its own: it has to stand in poll().
stopped_between_reads() {
  kill -STOP "$recorder"
  grep -q '^State:.T' "/proc/$recorder/status" && grep -q '^7 ' "/proc/$recorder/syscall" && return
  kill -CONT "$recorder"
  false
}

events_that_another_process_reads_are_a_loss() {
  local instance reader
  start_load
  start_recorder --no-kvm --pid "$load" --events "syscalls:$event"
  wait_for_recording "$recorder" "$session"
  load_calls 1000
  wait_for "calls on the disk" has_calls 1000
  instance=$(instance_of "$recorder")
  cat "$instance/trace" >/dev/null  # takes nothing away
  # What is made while the recorder stands still is read by the other one alone.
  wait_for "recorder that is stopped between two reads" stopped_between_reads
  cat "$instance/trace_pipe" >"$work/theirs" &
  reader=$!
  load_calls 20000
  wait_for "all of them" theirs_are 20000
  kill "$reader"
  wait "$reader" || true
  kill -CONT "$recorder"
  load_calls 3000
  kill -TERM "$recorder"
  end_recorder
  expect_equal "exit status" 0 "$status"
  if grep -q "lost nothing" "$work/stderr"; then fail "it lost nothing"; fi
  expect_contains "$work/stderr" "events read by another process"
  expect_equal "events taken away" "$(wc -l <"$work/theirs")" "$(json 'sum(l.get("read_by_others", 0) for l in s["losses"])')"
  run "$trapline" info "$session"
  expect_contains "$work/stdout" "events were read by another process"
  expect_equal "calls that are left" 4000 "$(calls_in "$session")"
  rm -rf "$session"
  start_recorder --no-kvm --pid "$load" --events "syscalls:$event"
  wait_for_recording "$recorder" "$session"
  load_calls 20000
  kill -TERM "$recorder"
  end_recorder
  expect_equal "calls that nobody takes" 20000 "$(calls_in "$session")"
  expect_equal "taken by nobody" 0 "$(json 'sum(l.get("read_by_others", 0) for l in s["losses"])')"
  nothing_left "$recorder"
}

losses_that_are_reported_are_those_that_trace_cmd_finds_in_the_file() {
  local try theirs ours
  start_load
  for try in 1 2 3; do
    rm -rf "$session"
    start_recorder --no-kvm --pid "$load" --events "syscalls:$event" --buffer-size 64K
    wait_for_recording "$recorder" "$session"
    # Nobody reads more than the buffers of all CPUs hold: the kernel overwrites what it has.
    kill -STOP "$recorder"
    load_calls $((4000 * $(getconf _NPROCESSORS_CONF)))
    kill -CONT "$recorder"
    kill -TERM "$recorder"
    end_recorder
    expect_equal "exit status" 0 "$status"
    nothing_left "$recorder"
    ours=$(json '"\n".join("%d %d" % (l["cpu"], l["overwritten"] + l["dropped"])
      for l in s["losses"] if l["overwritten"] + l["dropped"])')
    [ -n "$ours" ] || fail "nothing was lost"
    # A page that is full to the last bytes has no room for the number: these calls leave 12, but 4 after a pause.
    theirs=$(dropped_by_trace_cmd)
    echo "try $try: lost ${ours//$'\n'/, }"
    [ -n "$theirs" ] || continue
    expect_equal "lost by CPU" "$theirs" "$ours"
    local cpu lost
    while read -r cpu lost; do
      expect_contains "$work/stderr" "lost on CPU $cpu: $lost events overwritten, 0 dropped from a full buffer"
    done <<<"$ours"
    expect_contains "$work/stderr" "--buffer-size 256K"
    run "$trapline" info "$session"
    expect_contains "$work/stdout" "$(awk '{ sum += $2 } END { print sum }' <<<"$ours" |
      sed -E ':a; s/([0-9])([0-9]{3})($|,)/\1,\2\3/; ta') events in"
    return
  done
  fail "trace-cmd never had all numbers"
}

# kvm_exit does not fire everywhere: without it an exit is the time in user space.
a_snapshot_keeps_what_is_around_the_slow_exits() {
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  demo_qemu -accel kvm -cpu host,-arch-capabilities
  start_recorder --snapshot-on 'exit > 20us' --around 2ms -- "${qemu_command[@]}"
  stop_recorder_once "hits with something between them" has_windows
  cat "$work/stderr"
  nothing_left "$recorder"
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "of 'exit > 20us' in"
  expect_contains "$work/stderr" "next: trapline timeline $session --around max"
  expect_equal "hits" True "$(json 's["snapshot"]["hits"] >= 1')"
  expect_equal "left out" True "$(json 's["snapshot"]["left_out_events"] >= 1')"
  # The recorder knows when the kernel stamped its sync records, though most are left out.
  expect_equal "stamps" True "$(json 'all(e["before"]["mono"] <= e["stamp_ns"] <= e["after"]["mono"] for e in s["sync"])')"
  agrees_with_restore
  expect_equal "kept" "$(json 's["snapshot"]["kept_events"]')" \
    "$(grep -vc 'EVENTS DROPPED\]$' "$work/ours")"
  expect_contains "$work/ours" "EVENTS DROPPED]"
  local at
  at=$(json '"%d.%09d" % divmod(s["snapshot"]["longest"]["at_ns"], 10**9)')
  grep -qE "$at: kvm_(userspace_)?exit:" "$work/ours" || fail "no exit at $at"
  run "$trapline" report "$session" --slower-than 20us
  expect_equal "exit status of report" 0 "$status"
  # What it left out on purpose is told, and is no loss.
  if [ "$(json 's["snapshot"]["windows"] > 1 and not any(l["overwritten"] + l["dropped"] for l in s["losses"])')" = True ]; then
    expect_contains "$work/stdout" "LEFT OUT: "
    expect_contains "$work/stdout" " of the CPUs' time, which --snapshot-on did not keep"
    run "$trapline" report "$session" --strict
    expect_equal "exit status of report --strict" 0 "$status"
    if grep "were lost" "$work/stderr"; then fail "what was left out counts as lost"; fi
    run "$trapline" info "$session"
    expect_contains "$work/stdout" "  left out     "
    expect_contains "$work/stdout" "  lost         nothing"
  fi
  run "$trapline" timeline "$session" --around max
  expect_equal "exit status of timeline" 0 "$status"
}

a_snapshot_without_a_hit_keeps_nothing() {
  start_recorder --snapshot-on 'exit > 10s' --sched -- sleep 1.2
  end_recorder
  expect_equal "exit status" 0 "$status"
  expect_contains "$work/stderr" "no hit of 'exit > 10s' in"
  expect_equal "kept" 0 "$(json 's["snapshot"]["kept_events"]')"
  expect_equal "closed" True "$(json 's["closed"]')"
  nothing_left "$recorder"
}

a_killed_recorder_leaves_the_hits_that_it_had_kept() {
  [ -w /dev/kvm ] || skip "needs /dev/kvm"
  demo_qemu -accel kvm -cpu host,-arch-capabilities
  sh -c 'until [ -e "$0" ]; do sleep 0.02; done; exec "$@"' "$session/raw/start.json" "${qemu_command[@]}" &
  local target=$!
  start_recorder --snapshot-on 'exit > 20us' --around 2ms --pid "$target"
  wait_for "hit" grep -q '"hits": [1-9]' "$session/session.json"
  wait_for "exits around it on the disk" qemus_exits_on_the_disk
  kill -KILL "$recorder"
  end_recorder
  kill "$target" || true
  expect_equal "closed" False "$(json 's["closed"]')"
  expect_equal "hits" True "$(json 's["snapshot"]["hits"] >= 1')"
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" kvm_userspace_exit
  local dead=$recorder
  start_recorder -- true
  end_recorder
  wait_for "end of its instance" has_no_instance "$dead"  # its guard may be at it
}

# In the box, where kvm_exit fires: the recorder at work on a KVM host.
# A CPU is taken away and comes back while a guest runs and programs count their own calls on both CPUs: every one is
# in the recording, or told as lost.
a_cpu_that_goes_and_comes_back_loses_nothing_silently() {
  for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
  command_for_box
  box_files+=(--file "$TRAPLINE_BINARY_DIR/tests/system/fault")
  printf '#!/bin/sh\nset -e\n%s\n' "$unpack" >"$work/inside"
  cat >>"$work/inside" <<'END'
cat >load <<'LOAD'
#!/bin/sh
set -e
cpu1=/sys/devices/system/cpu/cpu1/online
qemu-system-x86_64 -accel kvm -cpu host,-arch-capabilities -display none -nodefaults -boot reboot-timeout=100 &
guest=$!
tries=200
until ls -d /sys/kernel/debug/kvm/$guest-*/vcpu0 >/dev/null 2>&1 || [ $((tries -= 1)) = 0 ]; do usleep 100000; done
for round in 1 2 3; do
  ./fault --calls 20000 &
  calls=$!
  taskset 2 ./fault --calls 20000 &
  until grep -q fault /proc/$!/comm; do usleep 10000; done # it is on that CPU
  echo 0 >$cpu1
  cat /sys/devices/system/cpu/online
  ./fault --calls 10000
  wait $calls
  wait $!
  echo 1 >$cpu1
  taskset 2 ./fault --calls 10000
done
kill $guest
LOAD
chmod +x load
# Buffers for all calls: nobody has to read them in time.
./trapline record -o "$OUT/run" --sched --buffer-size 64M --events syscalls:sys_enter_sched_rr_get_interval -- ./load
END
  chmod +x "$work/inside"
  run "$scripts/kvm-box" --cpus 2 --out "$work/out" --still 120 --timeout 3600 "${box_files[@]}" "$work/inside"
  cat "$work/out/output.txt"
  expect_equal "exit status of the box" 0 "$status"
  # It was away.
  expect_equal "rounds on one CPU" 3 "$(grep -cx 0 "$work/out/output.txt")"
  session=$work/out/run
  expect_equal "closed" True "$(json 's["closed"]')"
  expect_equal "losses" "[]" "$(json '[l for l in s["losses"] if l["overwritten"] or l["dropped"] or l["unwritten_pages"]]')"
  run "$trapline" info "$session"
  expect_equal "exit status of info" 0 "$status"
  expect_equal "calls" 180,000 "$(sed -n 's/^ *syscalls:sys_enter_sched_rr_get_interval  *//p' "$work/stdout")"
  trace-cmd report -N "$session/trace.dat" 2>/dev/null | grep -c sched_rr_get_interval: >"$work/text"
  expect_equal "calls by trace-cmd" 180000 "$(cat "$work/text")"
  run "$trapline" report "$session" --strict
  cat "$work/stdout"
  expect_equal "exit status of report" 0 "$status"
}

for_box() {  # for_box LIST
  demo_guest_for_box
  cat >>"$work/inside" <<'END'
# Without KVM's modules the doctor names a command, which loads them again.
mkdir -p "/lib/modules/$(uname -r)"
for module in /modules/*.ko; do cp "$module" "/lib/modules/$(uname -r)/${module#*-}"; done
depmod
rmmod kvm_amd kvm
./trapline doctor >before.txt || [ $? = 1 ]
grep -E '^missing  (/dev/kvm|kvm events): ' before.txt
command=$(sed -n '/^missing  kvm events/,/^[a-z]/s/^ *command:  *//p' before.txt)
echo "the doctor's command: $command"
$command
./trapline doctor -v >after.txt || [ $? = 1 ]
grep -E '^ok  *(/dev/kvm|kvm events): ' after.txt
./trapline record -o "$OUT/run" --sched --snapshot-on "exit(io) > 1ms" \
  --around 20ms -- ./vm
demo_guest_finished "$OUT/guest.txt"
END
  add_to_box "$1" snapshot 400 "$work/inside" "${box_files[@]}"
}

a_snapshot_on_a_kvm_host_is_what_the_oracle_finds() {
  from_box snapshot
  expect_contains "$out/output.txt" "the doctor's command: modprobe kvm_amd"
  expect_equal "checks that its command mended" 2 "$(grep -c '^ok ' "$out/output.txt")"
  session=$out/run
  expect_equal "hits" True "$(json 's["snapshot"]["hits"] >= 1')"
  expect_equal "reasons" True "$(json 'all(h["reason"] == "io" and h["ns"] > 10**6 for h in s["snapshot"]["first_hits"])')"
  expect_equal "left out" True "$(json 's["snapshot"]["left_out_events"] >= 1')"
  trace-cmd report -N "$session/trace.dat" >"$work/text" 2>/dev/null
  expect_equal "kept" "$(json 's["snapshot"]["kept_events"]')" "$(grep -c '\] ' "$work/text")"
  expect_contains "$work/text" "EVENTS DROPPED]"
  # One CPU: the exits of the cut recording, computed once more from trace-cmd's text.
  python3 "$here/../merge/oracles.py" --oracle report --left-out "$trapline" "$session/trace.dat" || {
    # Rare: who looks into it needs the recording, which the next run of the box replaces.
    rm -rf "$TRAPLINE_BINARY_DIR/differs"
    cp -r "$session" "$TRAPLINE_BINARY_DIR/differs"
    fail "the oracle differs; the session is in $TRAPLINE_BINARY_DIR/differs"
  }
  run "$trapline" report "$session" --slower-than 1ms --format json
  expect_equal "exit status of report" 0 "$status"
}

says_what_it_records_and_that_no_exit_came() {
  start_recorder -- sleep 0.2
  end_recorder
  expect_equal "exit status" 0 "$status"
  mv "$work/stderr" "$work/said"
  grep -qE "^trapline: recording this host(, [0-9]+ VMs?,)? into $session; ends with sleep, or by Ctrl-C\$" \
    "$work/said" || fail "it says at its start: $(cat "$work/said")"
  # The guest of a test beside it may be in the recording.
  run "$trapline" info "$session"
  local none='no VM exit came: .+; trapline doctor checks this host$'
  if grep -qw kvm_userspace_exit "$work/stdout"; then none='no kvm_exit came, only exits to user space: '; fi
  if grep -qw kvm_exit "$work/stdout"; then
    if grep "exit came" "$work/said"; then fail "exits came"; fi
  else
    grep -qE "^trapline: $none" "$work/said" || fail "it does not say that none came: $(cat "$work/said")"
  fi
}

says_what_is_wrong() {
  run "$trapline" record -o "$session" -- /nonexistent/qemu-system-x86_64
  expect_equal "exit status without QEMU" 127 "$status"
  expect_contains "$work/stderr" "/nonexistent/qemu-system-x86_64: cannot be run: No such file"
  run "$trapline" record -o "$session" -- no-such-program
  expect_equal "exit status of a name that is not in PATH" 127 "$status"
  touch "$work/plain"
  run "$trapline" record -o "$session" -- "$work/plain"
  expect_equal "exit status of a file that is no program" 126 "$status"
  TRAPLINE_ERRORS=json run "$trapline" record -o "$session" -- "$work"
  expect_equal "exit status of a folder" 126 "$status"
  expect_contains "$work/stderr" '"kind":"runtime","status":126'
  run "$trapline" record -o "$session" --events kvm:kvm_userspace_exits -- true
  expect_equal "exit status with a wrong event" 2 "$status"
  expect_contains "$work/stderr" "did you mean kvm_userspace_exit?"
  run "$trapline" record -o "$session" --pid --duration 1s
  expect_equal "exit status without a pid" 2 "$status"
  expect_contains "$work/stderr" "--pid has no value: --duration follows it"
  run "$trapline" record -o "$session" --user "" -- touch "$work/made"
  expect_equal "exit status with an empty user" 2 "$status"
  expect_contains "$work/stderr" "--user: the value is empty; give one, or leave the option out"
  [ ! -e "$work/made" ] || fail "the command ran as root"
  run "$trapline" record -o "$session" --pid qemu
  expect_equal "exit status with a name for a pid" 2 "$status"
  expect_contains "$work/stderr" "--pid: 'qemu' is not a number"
  run "$trapline" record -o "$session" --clock sundial -- true
  expect_equal "exit status with a wrong clock" 2 "$status"
  expect_contains "$work/stderr" "this kernel has no such clock; it has: local"
  run setpriv --reuid=nobody --regid=nogroup --clear-groups "$trapline" record -o /tmp/none -- true
  expect_equal "exit status without permission" 1 "$status"
  expect_contains "$work/stderr" "root"
  run unshare -m sh -c 'umount /sys/kernel/debug/tracing; umount /sys/kernel/debug
    umount /sys/kernel/tracing; exec "$@"' sh "$trapline" record -o "$session" -- true
  expect_equal "exit status without tracefs" 1 "$status"
  expect_contains "$work/stderr" "mount -t tracefs nodev /sys/kernel/tracing"
  echo "MemAvailable: 1000 kB" >"$work/meminfo"
  run unshare -m sh -c 'mount --bind "$0" /proc/meminfo && exec "$@"' "$work/meminfo" \
    "$trapline" record -o "$session" --buffer-size 4G -- true
  expect_equal "exit status with buffers of more than the memory" 2 "$status"
  expect_contains "$work/stderr" "1000K of memory are available; give"
  run "$trapline" record -o "$session" --snapshot-on 'exit < 5us' -- true
  expect_equal "exit status with a wrong expression" 2 "$status"
  expect_contains "$work/stderr" "column 6: '>' is expected"
  run "$trapline" record -o "$session" --snapshot-on 'exit(IO_INSTRUCTIONS) > 5us' -- true
  expect_equal "exit status with a wrong reason" 2 "$status"
  expect_contains "$work/stderr" "did you mean IO_INSTRUCTION?"
  run "$trapline" record -o "$session" --no-kvm --snapshot-on 'exit > 5us' -- true
  expect_equal "exit status with a snapshot of nothing" 2 "$status"
  expect_contains "$work/stderr" "leave out --no-kvm"
  run "$trapline" record -o "$session" --clock x86-tsc --snapshot-on 'exit > 5us' -- true
  expect_equal "exit status with a clock of cycles" 2 "$status"
  expect_contains "$work/stderr" "does not count nanoseconds"
  mkdir "$work/other" && touch "$work/other/file"
  run "$trapline" record -o "$work/other" -- true
  expect_equal "exit status with another folder" 2 "$status"
  [ -e "$work/other/file" ] || fail "it was touched"
  [ ! -e "$session" ] || fail "a session of nothing was left"
}

"$@"
