#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# trapline top on this host and in a real terminal: what it leaves in tracefs, and its keys.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
command -v tmux >/dev/null || skip "tmux is missing: apt-get install tmux"
terminal=trapline-top-$$
trap 'tmux -L "$terminal" kill-server 2>/dev/null || true; end_jobs; rm -rf -- "$work"' EXIT
instances=/sys/kernel/tracing/instances
recording=$TRAPLINE_SOURCE_DIR/tests/data/box/linux-irq.dat
examples=$TRAPLINE_SOURCE_DIR/docs/examples/prometheus

shows() { tmux -L "$terminal" capture-pane -p | grep -qF -- "$1"; }
shows_events() { tmux -L "$terminal" capture-pane -p | grep -qE '[1-9][0-9,]* events/s'; }
press() { tmux -L "$terminal" send-keys "$@"; }
has_lines() { [ "$(wc -l <"$work/lines")" -ge "$1" ]; }
lacks() { ! shows "$1"; }
serves_events() {
  python3 -c 'import sys, urllib.request
text = urllib.request.urlopen(f"http://{sys.argv[1]}/metrics", timeout=5).read().decode()
sys.exit("\ntrapline_events_total 0\n" in text)' "$1" 2>/dev/null
}
ended() { ! tmux -L "$terminal" list-sessions >/dev/null 2>&1; }

# start WIDTH HEIGHT ARGUMENT...: in a terminal; its pid in $pid
start() {
  local width=$1 height=$2
  shift 2
  tmux -L "$terminal" -f /dev/null new-session -d -x "$width" -y "$height" "$trapline" top "$@"
  pid=$(tmux -L "$terminal" list-panes -F '#{pane_pid}')
}

batch() {  # in the background; its pid in $pid
  rm -f -- "$work/lines"
  "$trapline" top --batch >"$work/lines" 2>"$work/stderr" &
  pid=$!
  wait_for "a line is printed" test -s "$work/lines"
  has_instance "$pid" || fail "there is no instance of $pid"
}

nothing_is_left_after_a_signal() {
  needs_kvm_events
  for signal in TERM INT HUP; do
    batch
    kill "-$signal" "$pid"
    wait "$pid" || fail "it ended with $? after SIG$signal"
    has_no_instance "$pid" || fail "its instance is there after SIG$signal"
  done
}

the_next_start_cleans_up_after_a_kill() {
  needs_kvm_events
  batch
  local killed=$pid
  kill_with_guard "$killed"
  wait "$killed" || true
  has_instance "$killed" || fail "the kernel keeps an instance, so it should be there"
  "$trapline" top --batch --count 1 >"$work/lines" 2>"$work/stderr" || fail "$(cat "$work/stderr")"
  has_no_instance "$killed" || fail "the instance of the killed top is still there"
  grep -q 'removed the instance of a dead recorder' "$work/stderr" || fail "nothing was said of it"
}

# The kernel answers the slower of two that remove one instance with "no such device".
of_several_next_starts_one_cleans_up() {
  needs_kvm_events
  local start starts=()
  batch
  kill_with_guard "$pid"
  wait "$pid" || true
  for start in 1 2 3 4; do
    "$trapline" top --batch --count 1 >"$work/lines$start" 2>"$work/stderr$start" &
    starts+=("$!")
  done
  for start in "${starts[@]}"; do
    wait "$start" || fail "a start ended with $?: $(cat "$work"/stderr?)"
  done
  [ "$(cat "$work"/stderr? | grep -c 'removed the instance of a dead recorder')" = 1 ] ||
    fail "one start should have removed it: $(cat "$work"/stderr?)"
  [ "$(cat "$work"/stderr? | grep -c 'the instance of a dead recorder stays')" = 0 ] ||
    fail "it was removed, and a start says it stays: $(cat "$work"/stderr?)"
}

q_and_a_lost_terminal_leave_nothing() {
  needs_kvm_events
  start 80 24
  wait_for "figures" shows 'events/s'
  has_instance "$pid" || fail "there is no instance of $pid"
  press q
  wait_for "it ends" ended
  wait_for "its instance goes" has_no_instance "$pid"
  start 80 24
  wait_for "figures" shows 'events/s'
  tmux -L "$terminal" kill-server
  wait_for "its instance goes with its terminal" has_no_instance "$pid"
}

keys_and_sizes() {
  start 80 24 --interval 5s "$recording"
  wait_for "the first interval" shows 'exits/s'
  press '?'
  wait_for "help" shows 'culprits of waits, requests'
  press x
  wait_for "rows again" shows 'by reason, sorted by share'
  press s
  wait_for "another order" shows 'sorted by total'
  press b
  wait_for "other rows" shows 'by device'
  press / z z z Enter
  wait_for "a filter" shows '/zzz'
  press / BSpace BSpace BSpace Enter
  press Tab
  wait_for "culprits" shows 'culprits of waits'
  press Tab Tab Tab
  tmux -L "$terminal" resize-window -x 40 -y 10
  wait_for "40 columns show fewer figures" lacks 'bloc'
  [ "$(tmux -L "$terminal" capture-pane -p | wc -l)" -le 10 ] || fail "more than 10 lines"
  tmux -L "$terminal" resize-window -x 80 -y 24
  wait_for "80 columns show all of them" shows 'kern'
  press Space
  wait_for "a pause" shows 'PAUSED'
  press q
  wait_for "it ends" ended
}

a_pipe_is_told_what_to_use() {
  local status=0
  "$trapline" top "$recording" </dev/null >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 2 "$status"
  grep -q 'trapline top --batch' "$work/stderr" || fail "stderr is: $(cat "$work/stderr")"
  # In its first interval the vCPU has not been seen yet.
  run "$trapline" top "$TRAPLINE_SOURCE_DIR/tests/data/svm-mono.dat" --batch --vcpu 0
  expect_equal "exit status of a replay" 0 "$status"
  expect_equal "what it says" "" "$(cat "$work/stderr")"
}

a_full_disk_is_an_error_and_a_reader_that_has_gone_is_none() {
  local words status
  for words in "top $recording --batch" --version "report --help" "help exit-model"; do
    status=0
    # shellcheck disable=SC2086 # words of a command
    "$trapline" $words >/dev/full 2>"$work/stderr" || status=$?
    expect_equal "exit status of $words" 1 "$status"
    grep -q 'stdout: cannot write: No space left on device' "$work/stderr" ||
      fail "stderr of $words is: $(cat "$work/stderr")"
    # shellcheck disable=SC2086
    "$trapline" $words 2>"$work/stderr" | true || true
    expect_equal "stderr of $words without a reader" "" "$(cat "$work/stderr")"
  done
}

prometheus_has_what_the_report_counts() {
  "$trapline" top --prometheus "$work/figures" --batch "$recording" >/dev/null
  local exits
  exits=$(sed -n 's/^trapline_exits_total{.*} //p' "$work/figures" | paste -sd+ | bc)
  # Of those that ended: an interval's rows are of these.
  expect_equal "exits" "$("$trapline" report --format json "$recording" |
    python3 -c 'import json, sys
rows = json.load(sys.stdin)["tables"]["groups"]["rows"]
print(sum(row["count"] - row["cut"] - row["open"] for row in rows))')" "$exits"
  expect_equal "CPU time of the host, by VM and role" "$("$trapline" report --host-cpu --format json "$recording" |
    python3 -c 'import collections, json, sys
sums = collections.Counter()
for vm in json.load(sys.stdin)["tables"]["host_cpu"]["rows"]:
    for row in vm["threads"]["rows"]:
        if row["part"] is None:
            sums[vm["vm"], row["role"]] += row["ns"]
for (vm, role), ns in sorted(sums.items()):
    print(f"""vm="{vm}",role="{role}" {ns / 1e9:.9f}""")')" \
    "$(sed -n 's/^trapline_host_cpu_seconds_total{\(.*\)} /\1 /p' "$work/figures")"
  local faults=$TRAPLINE_SOURCE_DIR/tests/merge/planted/pages-zapped
  "$trapline" top --prometheus "$work/faults" --batch "$faults" >/dev/null
  expect_equal "page faults, by cause" "$("$trapline" report --faults --format json "$faults" | python3 -c 'import collections, json, sys
counts, times = collections.Counter(), collections.Counter()
for row in json.load(sys.stdin)["tables"]["faults"]["rows"]:
    counts[row["cause"]] += row["count"]
    times[row["cause"]] += row["total_ns"]
for cause in sorted(counts):
    print(f"""cause="{cause}" {counts[cause]} {times[cause] / 1e9:.9f}""")')" \
    "$(join <(sed -n 's/^trapline_guest_faults_total{vm=.*,\(cause=.*\)} /\1 /p' "$work/faults") \
      <(sed -n 's/^trapline_guest_fault_seconds_total{vm=.*,\(cause=.*\)} /\1 /p' "$work/faults"))"
  expect_equal "metrics without a type" "" "$(grep -v '^#' "$work/figures" | sed -E 's/[{ ].*//; s/_(bucket|sum|count)$//' | sort -u |
    while read -r name; do grep -q "^# TYPE $name " "$work/figures" || echo "$name"; done)"
  [ "$(find "$work" -name 'figures*' | wc -l)" = 1 ] || fail "something is left beside the file"
  ln -s /dev/null "$work/device"
  for place in "$work/device" /dev/stdout "$work"; do
    run "$trapline" top --prometheus "$place" --batch "$recording"
    expect_equal "exit status for $place" 2 "$status"
    expect_contains "$work/stderr" "name a file"
  done
  [ -c /dev/null ] || fail "the device was replaced"
  [ -L "$work/device" ] || fail "the link was replaced"
}

# One label a dimension; a histogram's last bucket is its count; no other path, method or large request. 1 MB of header
# and 1,000 connections that ask nothing, never read or never end their header take 16 MiB at most.
metrics_are_served_and_nothing_else() {
  "$trapline" top --prometheus "$work/figures" --batch "$recording" >/dev/null
  grep -qE '^trapline_exits_total\{vm="[^"]+",vcpu="[^"]+",reason="[^"]+"\} [0-9]+$' "$work/figures" ||
    fail "exits have other labels"
  expect_equal "exits in the histograms" \
    "$(sed -n 's/^trapline_exits_total{.*} //p' "$work/figures" | paste -sd+ | bc)" \
    "$(sed -n 's/^trapline_exit_duration_seconds_bucket{.*le="+Inf"} //p' "$work/figures" | paste -sd+ | bc)"
  run "$trapline" top --batch --listen 300.1.1.1:80 "$recording"
  expect_equal "exit status of no address" 2 "$status"
  needs_kvm_events
  "$trapline" top --batch --listen 127.0.0.1:19464 >/dev/null 2>"$work/stderr" &
  background=$!
  python3 - $background <<'END' || fail "the server: $(cat "$work/stderr")"
import pathlib, re, socket, sys, time, urllib.error, urllib.request

def status(path="metrics", method="GET", headers={}):
    request = urllib.request.Request("http://127.0.0.1:19464/" + path, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""

def of_process():
    return pathlib.Path(f"/proc/{sys.argv[1]}/status").read_text()

code = None
while code is None:
    try:
        code, text = status()
    except OSError:
        assert "State:\tZ" not in of_process(), "it has ended"
        time.sleep(0.1)
assert code == 200 and "trapline_events_total " in text, (code, text)
assert status("other")[0] == 404 and status(method="POST")[0] == 405
assert status(headers={"X": "a" * 60_000})[0] == 431

def most_resident():
    return int(re.search(r"VmHWM:\s+(\d+) kB", of_process())[1])

def ask(request):
    """A connection that asked and does not read; None: it was refused."""
    connection = socket.create_connection(("127.0.0.1", 19464))
    try:
        connection.sendall(request)
    except OSError:
        return None
    return connection

before = most_resident()
flood = ask(b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 1_000_000 + b"\r\n\r\n")
waiting = [ask(request) for request in [b"", b"GET /metrics HTTP/1.1\r\nHost: slow\r\n\r\n" * 20,
                                        b"GET /metrics HTTP/1.1\r\nX: " + b"a" * 15_000] * 334]
assert status()[0] == 200
grown = most_resident() - before
print(f"{before} KiB, {grown} more")
assert grown <= 16 << 10, grown
END
  run "$trapline" top --batch --listen 127.0.0.1:19464
  expect_equal "exit status of a port that is taken" 1 "$status"
  kill "$background"
  wait "$background" || true
}

a_prometheus_answers_the_dashboard_and_the_alerts() {
  command -v prometheus >/dev/null || skip "prometheus is missing: apt-get install prometheus"
  promtool check rules "$examples/alerts.yml" || fail "promtool"
  local two_vms=$TRAPLINE_SOURCE_DIR/tests/data/box/two-vms.dat exits
  exits=$("$trapline" export --rows exits --format jsonl -o - "$two_vms" | wc -l)
  python3 "$(dirname -- "$0")/prometheus.py" "$examples" "$work" 127.0.0.1:19465 "$exits" \
    tmux -L "$terminal" -f /dev/null new-session -d -x 80 -y 24 "$trapline" top --listen 127.0.0.1:19465 "$two_vms" ||
    fail "prometheus: $(tail -n 5 "$work/prometheus.log"); the screen: $(tmux -L "$terminal" capture-pane -p)"
}

its_unit_is_confined_and_it_serves_so() {
  command -v systemd-analyze >/dev/null || skip "needs systemd-analyze"
  local unit=$work/trapline-top.service exposure
  sed "s|/usr/bin/trapline|$trapline|; s/:9464$/:19467/" "$examples/trapline-top.service" >"$unit"
  run systemd-analyze verify --man=no "$unit"
  expect_equal "what systemd-analyze says of it" "" "$(grep -F "$unit" "$work/stderr" || true)"
  exposure=$(systemd-analyze security --offline=true --no-pager "$unit" |
    sed -n 's/.*exposure level for .*: \([0-9]*\)\.\([0-9]*\) .*/\1\2/p')
  [ "${exposure:-99}" -le 30 ] || fail "exposure ${exposure:0:1}.${exposure:1}"
  needs_kvm_events
  # shellcheck disable=SC2046 # words of a command
  unshare -m python3 "$(dirname -- "$0")/confined.py" "$unit" "" $(sed -n 's/^ExecStart=//p' "$unit") \
    >/dev/null 2>"$work/stderr" &
  background=$!
  wait_for "it serves" serves_events 127.0.0.1:19467
  # CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE
  expect_equal "capabilities" 0000000000080004 "$(sed -n 's/^CapEff:\t//p' "/proc/$background/status")"
  expect_equal "seccomp" 2 "$(sed -n 's/^Seccomp:\t//p' "/proc/$background/status")"
  kill "$background"
  wait "$background" || fail "it ended with $?: $(cat "$work/stderr")"
  has_no_instance "$background" || fail "its instance is there"
}

an_open_session_is_read_as_it_grows_and_to_its_end() {
  needs_kvm_events
  # shellcheck disable=SC2016 # the command expands it
  "$trapline" record -o "$work/run" --sched -- sh -c 'until [ -e "$0" ]; do sleep 0.1; done' "$work/enough" \
    2>"$work/recorder" &
  local recorder=$! reader
  wait_for "the session begins" test -s "$work/run/raw/start.json"
  "$trapline" top --batch "$work/run" >"$work/lines" 2>"$work/stderr" &
  reader=$!
  wait_for "it is read as it grows" has_lines 3
  touch "$work/enough"
  wait "$reader" || fail "$(cat "$work/stderr")"
  wait "$recorder" || fail "$(cat "$work/recorder")"
  grep -q 'the recording has ended' "$work/stderr" || fail "stderr is: $(cat "$work/stderr")"
  expect_equal "events" "$("$trapline" info "$work/run" | sed -n 's/^  events *//p' | head -n 1 | tr -d ,)" \
    "$(python3 -c 'import json, sys; print(sum(json.loads(line)["head"]["events"] for line in sys.stdin))' <"$work/lines")"
}

# In the box, where kvm_exit fires: what it prints while a session is recorded is what the session's report says; on its
# own it sees the guest's exits as well.
on_a_kvm_host_it_gives_what_its_report_gives() {  # … VENDOR
  demo_guest_for_box
  cat >>"$work/inside" <<'END'
./trapline top --batch --interval 1s >"$OUT/own" 2>"$OUT/own.err" &
own=$!
./trapline record -o "$OUT/run" --sched -- ./vm &
recorder=$!
until [ -s "$OUT/run/raw/start.json" ]; do usleep 100000; done
./trapline top --batch --interval 1s --by reason,device "$OUT/run" >"$OUT/lines"
wait $recorder
kill -INT $own
wait $own || true
demo_guest_finished "$OUT/guest.txt"
END
  run "$TRAPLINE_SOURCE_DIR/scripts/kvm-box" --vendor "$1" --out "$work/out" "${box_files[@]}" "$work/inside"
  cat "$work/out/output.txt"
  expect_equal "exit status of the box" 0 "$status"
  python3 "$TRAPLINE_SOURCE_DIR/tests/merge/live/top_against_report.py" "$trapline" "$work/out/run" \
    --lines "$work/out/lines"
  local seen
  seen=$(python3 -c 'import json, sys
print(sum(row["count"] for line in sys.stdin for row in json.loads(line)["tables"]["groups"]["rows"]))' <"$work/out/own")
  [ "$seen" -gt 1000 ] || fail "on its own it saw $seen exits: $(cat "$work/out/own.err")"
}
on_an_amd_host_it_gives_what_its_report_gives() { on_a_kvm_host_it_gives_what_its_report_gives amd; }
on_an_intel_host_it_gives_what_its_report_gives() { on_a_kvm_host_it_gives_what_its_report_gives intel; }

what_is_saved_is_a_session() {
  needs_kvm_events
  (cd "$work" && start 80 24)
  # There is something to save.
  wait_for "events" shows_events
  press w
  wait_for "it is saved" shows 'saved the last'
  press q
  wait_for "it ends" ended
  local saved
  saved=$(find "$work" -name 'top-*.trapline' | head -n 1)
  [ -n "$saved" ] || fail "there is no session"
  trace-cmd report "$saved/trace.dat" >"$work/stdout" 2>/dev/null || fail "trace-cmd cannot read it"
  "$trapline" info "$saved" >"$work/info" || fail "trapline info cannot read it"
  grep -q '^  events' "$work/info" || fail "it has no events"
}

bench_says_what_is_wrong() {
  local status=0
  "$trapline" bench -o "$work/bench" -- true 2>"$work/stderr" || status=$?
  expect_equal "exit status without settings" 2 "$status"
  status=0
  "$trapline" bench -o "$work/bench" --a x --b x -- true 2>"$work/stderr" || status=$?
  expect_equal "exit status of equal settings" 2 "$status"
  expect_contains "$work/stderr" 'are the same'
  [ ! -e "$work/bench" ] || fail "a folder of nothing was left"
}

# A guest without KVM, so that it runs anywhere: its functions are compared.
bench_records_and_compares() {
  needs_kvm_events
  needs_plugin
  local qemu status=0
  qemu=$(fetched qemu10)/bin/qemu-system-x86_64
  "$trapline" bench -o "$work/bench" --guest --top 0 --no-kvm --functions=uftrace -n 2 --warm-up 1 --seed 7 --ok-status 1 \
    --fail-if 'rate(compute) > +1000%' --single-run --format json --a '-m 64' --b '-m 96' -- \
    "$qemu" -accel tcg -display none -nodefaults -no-reboot -machine pc,hpet=on \
    -kernel "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf" -device isa-debugcon,iobase=0x402,chardev=console \
    -chardev "file,id=console,path=$work/console" -device isa-debug-exit,iobase=0x501 \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status" 0 "$status"
  compgen -G "$instances/trapline-*-$$" >/dev/null && fail "an instance was left"
  python3 - "$work" <<'END' || fail "$(tail -n 5 "$work/stderr"); $(head -c 2000 "$work/stdout")"
import json, os, sys
work = sys.argv[1]
comparison = json.load(open(f"{work}/stdout"))
assert comparison["head"]["rows_of"] == "calls", comparison
tables = comparison["tables"]
assert [len(tables[side]["rows"]) for side in ("before", "after")] == [2, 2], tables["before"]
counts = {row["key"]: (row["before_count"], row["after_count"]) for row in tables["changes"]["rows"]}
assert counts["rtc_read"] == (800, 800) and counts["compute"] == (800, 800), counts
plan = json.load(open(f"{work}/bench/bench.json"))
assert plan["seed"] == 7 and "-m" in plan["a"] and "64" in plan["a"] and "96" in plan["b"], plan
names = [run["session"] for run in plan["order"]]
assert sorted(names) == sorted(["warm-up-a-01", "warm-up-b-01", "a-01", "a-02", "b-01", "b-02"]), names
assert [run["warm_up"] for run in plan["order"]] == [True, True] + [False] * 4, plan
began = []
for number, run in enumerate(plan["order"], 1):
    place = json.load(open(f"{work}/bench/{run['session']}/bench.json"))
    assert (place["side"], place["number"], place["of"], place["seed"]) == (run["side"], number, 6, 7), place
    began.append(os.stat(f"{work}/bench/{run['session']}/bench.json").st_mtime_ns)
assert began == sorted(began), "the sessions were made in another order"
END
  # The folder is both sides, without the warm-up.
  "$trapline" diff "$work/bench" --guest --top 0 --format json >"$work/again"
  cmp "$work/stdout" "$work/again" || fail "diff of the folder is another comparison"
}

says_once_why_no_exit_comes() {
  needs_kvm_events
  local why='^trapline: no VM exit for two intervals: .+; trapline doctor checks this host$'
  "$trapline" top --batch --count 3 >"$work/lines" 2>"$work/stderr"
  # The guest of a test beside it has exits.
  if ! grep -qE '"exits":[1-9]' "$work/lines"; then
    [ "$(grep -cE "$why" "$work/stderr")" = 1 ] || fail "of --batch: $(cat "$work/stderr")"
  fi
  # Without events there is no frame either.
  "$trapline" top --prometheus "$work/metrics" --no-sched >"$work/lines" 2>"$work/stderr" </dev/null &
  pid=$!
  wait_for "word of it, or an exit" says_or_has "$why"
  sleep 2 # two more intervals, in which it is not said again
  kill "$pid"
  wait "$pid" || fail "it ended with $?: $(cat "$work/stderr")"
  if [ ! -e "$work/metrics" ]; then
    [ "$(grep -cE "$why" "$work/stderr")" = 1 ] || fail "of --prometheus: $(cat "$work/stderr")"
  fi
}
says_or_has() { grep -qE "$1" "$work/stderr" || [ -e "$work/metrics" ]; }

# Status 4 is for a condition that is met; of too few runs only when that is asked for.
diff_fails_a_build() {
  local status=0 planted=$TRAPLINE_SOURCE_DIR/tests/merge/planted
  local sides=("$TRAPLINE_SOURCE_DIR/tests/data/svm-linux-2vcpu.dat" "$recording")
  "$trapline" diff "${sides[@]}" --fail-if 'mean(interrupt) > +10%' >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status of single runs" 2 "$status"
  grep -q -- --single-run "$work/stderr" || fail "$(cat "$work/stderr")"
  status=0
  "$trapline" diff "${sides[@]}" --fail-if 'mean(interrupt) > +10%' --single-run >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status of a condition that single runs meet" 4 "$status"
  grep -w proven "$work/stdout" "$work/stderr" | grep -vq 'No change is proven' && fail "a single run is called proven: $(cat "$work/stdout")"
  sides=(--before "$planted"/{hog,lock,vm}.dat --after "$planted"/{disk,halt,storm}.dat)
  # The rate fell by 99 %, in an interval that three such runs leave wide.
  for limit in +99999999:4 -50:0; do
    status=0
    "$trapline" diff "${sides[@]}" --fail-if "rate(io) < ${limit%:*}%" >"$work/stdout" 2>"$work/stderr" || status=$?
    expect_equal "exit status, three runs of each side, limit $limit" "${limit#*:}" "$status"
  done
  status=0
  "$trapline" diff --before "$planted"/{hog,lock,hog}.dat --after "$recording" >"$work/stdout" 2>"$work/stderr" || status=$?
  expect_equal "exit status of a run given twice" 2 "$status"
}

"$1"
