#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# trapline record --kernel-samples with a real kernel: perf reads what it writes, and nothing is missing.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
session=$work/run.trapline

[ "$(id -u)" = 0 ] || skip "needs root"
mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null || skip "needs tracefs"
command -v perf >/dev/null || skip "needs perf (package linux-perf)"
perf record -q -e cpu-clock:k -o "$work/try" -- true >"$work/stdout" 2>"$work/stderr" || skip "perf cannot sample here"

# Two threads that are in the kernel nearly all of the time: until there is the file ENOUGH where it is named, else for
# a second and a half, and until each had a CPU for half a second, however busy the machine is.
busy='import os, threading, time
enough, end = os.environ.get("ENOUGH"), time.monotonic() + 1.5
def goes_on():
    return not os.path.exists(enough) if enough else time.monotonic() < end or time.thread_time() < 0.5
def work():
    fd = os.open("/dev/zero", os.O_RDONLY)
    while goes_on(): os.read(fd, 1 << 20)
other = threading.Thread(target=work); other.start(); work(); other.join()'

record() {
  run "$trapline" record -o "$session" --no-kvm --events sched:sched_switch "$@" -- python3 -c "$busy"
}

record_until_enough() {  # record_until_enough ARGUMENT... ; its pid in $recorder, that of the threads in $load
  ENOUGH=$work/enough "$trapline" record -o "$session" --no-kvm --events sched:sched_switch "$@" -- \
    python3 -c "$busy" >"$work/stdout" 2>"$work/stderr" &
  recorder=$!
  wait_for "load" pgrep -P "$recorder" -x python3
  load=$(pgrep -P "$recorder" -x python3)
}

# has_run THREAD SECONDS: it had a CPU for so long.
has_run() { [ "$(awk '{ print int($14 + $15) }' "/proc/$1/task/$1/stat")" -ge $(($2 * $(getconf CLK_TCK))) ]; }

perf_reads_the_samples_that_we_read() {
  record --kernel-samples 1000
  expect_equal "exit status" 0 "$status"
  local told
  told=$(sed -nE 's/.*: ([0-9]+) samples of the kernel.*/\1/p' "$work/stderr")
  [ "${told:-0}" -gt 50 ] || fail "only ${told:-no} samples in 1.5 s: $(cat "$work/stderr")"
  perf script -i "$session/perf.data" --ns -F tid,time,ip,sym >"$work/script" 2>"$work/stderr" ||
    fail "perf script does not read it: $(cat "$work/stderr")"
  expect_equal "samples of perf script" "$told" "$(grep -cE '^ *[0-9]+ +[0-9]+\.[0-9]{9}:' "$work/script")"
  grep -qE '(read_zero|iter_zero|clear_user)' "$work/script" || fail "no sample in the work: $(head "$work/script")"
  perf report -i "$session/perf.data" --stdio >"$work/report" 2>&1 || fail "perf report does not read it"
  expect_contains "$work/report" "python3"
  run "$trapline" info "$session/perf.data"
  expect_equal "exit status of info" 0 "$status"
  expect_contains "$work/stdout" "clock        mono"
  expect_equal "samples that we read" "$told" "$(awk '$1 == "sample" { gsub(",", ""); print $2 }' "$work/stdout")"
  run "$trapline" timeline "$session"
  expect_contains "$work/stdout" "of the kernel"
}

# Of the same clock: by sched_switch each sample's thread runs on its CPU then.
each_sample_lies_in_a_run_of_its_thread() {
  record --kernel-samples 1000
  expect_equal "exit status" 0 "$status"
  perf script -i "$session/perf.data" --ns -F tid,cpu,time 2>/dev/null >"$work/samples"
  trace-cmd report -t "$session/trace.dat" 2>/dev/null | grep ' sched_switch:' >"$work/switches"
  python3 - "$work/samples" "$work/switches" <<'END' || fail "samples lie elsewhere"
import bisect, collections, re, sys
ns = lambda seconds: int(seconds.replace(".", ""))
runs = collections.defaultdict(list)
for line in open(sys.argv[2], errors="replace"):
    found = re.search(r"\[(\d+)\].*?(\d+\.\d{9}):.*==> (.*):(\d+) \[", line)
    # Some of the recorder's own switches are left out: who runs after it is not always known.
    runs[int(found[1])].append((ns(found[2]), None if found[3] == "trapline" else int(found[4])))
right = wrong = 0
for line in open(sys.argv[1]):
    found = re.match(r"\s*(\d+)\s+\[(\d+)\]\s+(\d+\.\d{9}):", line)
    if not found:
        continue
    place = bisect.bisect(runs[int(found[2])], ns(found[3]), key=lambda run: run[0]) - 1
    if place >= 0 and runs[int(found[2])][place][1]:
        same = runs[int(found[2])][place][1] == int(found[1])
        right, wrong = right + same, wrong + (not same)
print(f"{right} samples in runs of their threads, {wrong} elsewhere")
sys.exit(right < 50 or wrong > right / 20)
END
}

a_clock_that_perf_lacks_is_refused_before_anything_is_made() {
  record --kernel-samples 100 --clock local
  expect_equal "exit status" 2 "$status"
  expect_contains "$work/stderr" "perf has no clock 'local'"
  [ ! -e "$session" ] || fail "a session was made"
  record --kernel-samples 0
  expect_equal "exit status of 0" 2 "$status"
}

samples_that_find_no_room_are_counted() {
  local recorder load told lost
  record_until_enough --kernel-samples 2000
  # A stopped recorder reads no buffer; one holds a thread's samples of about three seconds. What was lost stands
  # before the next sample that found room.
  wait_for "work" has_run "$load" 1
  kill -STOP "$recorder"
  wait_for "more samples than there is room for" has_run "$load" 6
  kill -CONT "$recorder"
  wait_for "samples after those" has_run "$load" 8
  touch "$work/enough"
  wait "$recorder" || fail "it failed: $(cat "$work/stderr")"
  lost=$(perf report -D -i "$session/perf.data" 2>/dev/null | sed -nE 's/.*PERF_RECORD_LOST.*lost:? *([0-9]+).*/\1/p' |
    awk '{ sum += $1 } END { print sum + 0 }')
  told=$(sed -nE 's/.*warning: ([0-9]+) samples were lost.*/\1/p' "$work/stderr")
  expect_equal "lost samples" "$lost" "${told:-0}"
  [ "$lost" -gt 0 ] || skip "the kernel takes fewer samples: no buffer was full"
}

a_thread_has_its_name_from_the_time_when_it_is_sampled() {
  record --kernel-samples 1000
  # "CPU TIME OFFSET [SIZE]: PERF_RECORD_COMM: NAME:PID/TID", and "…: PERF_RECORD_SAMPLE(…): PID/TID: ADDRESS …"
  perf report -D -i "$session/perf.data" 2>/dev/null |
    sed -nE -e 's,^[0-9]+ ([0-9]+) .*PERF_RECORD_COMM.*:[0-9]+/([0-9]+)$,\2 comm \1,p' \
      -e 's,^[0-9]+ ([0-9]+) .*PERF_RECORD_SAMPLE[^:]*: [0-9]+/([0-9]+):.*,\2 sample \1,p' |
    sort -s -n -k1,1 -k3,3 >"$work/times"
  expect_contains "$work/times" " sample "
  awk '$3 == 0 || ($1 != thread && $2 != "comm") { exit 1 } { thread = $1 }' "$work/times" ||
    fail "a thread has samples before its name: $(head "$work/times")"
}

series() { "$trapline" timeline "$session" 2>/dev/null | grep -c 'trapline: sync records, series' || true; }
has_series() { [ "$(series)" -ge "$1" ]; }

# Their events are no reason why tracing cannot be switched off.
more_threads_than_descriptors_are_counted() {
  local recorder seen sleepers='import os, sys, threading, time
ended = threading.Event()
for _ in range(400): threading.Thread(target=ended.wait).start()
open(sys.argv[1] + "/started", "w").close()
while not os.path.exists(sys.argv[1] + "/enough"): time.sleep(0.05)
ended.set()'
  (
    ulimit -n 400
    exec setpriv --inh-caps=-sys_resource --bounding-set=-sys_resource "$trapline" record -o "$session" --no-kvm \
      --events sched:sched_switch --kernel-samples 100 -- python3 -c "$sleepers" "$work"
  ) >"$work/stdout" 2>"$work/stderr" &
  recorder=$!
  wait_for "all threads" test -e "$work/started"
  # The recorder looks at them after it has written each.
  seen=$(series)
  wait_for "sync records" has_series $((seen + 2))
  touch "$work/enough"
  wait "$recorder" || fail "it failed: $(cat "$work/stderr")"
  expect_contains "$work/stderr" "threads lack samples"
  expect_contains "$work/stderr" "no descriptor for its event"
  ! grep "Too many open files" "$work/stderr" || fail "others found no descriptor"
}

a_file_at_the_limit_of_its_size_kills_no_recorder() {
  local recorder load status=0
  record_until_enough --kernel-samples 1000
  prlimit --pid "$recorder" --fsize=100000
  wait_for "end of the recording" grep -q "File too large" "$work/stderr"
  touch "$work/enough"
  wait "$recorder" || status=$?
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "File too large"
}

"$1"
