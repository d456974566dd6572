#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# What is on the disk stays on the disk: power cuts, kills, disks that stall or fail while trapline records.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
here=$(dirname -- "$0")

needs_tracefs
[ -e /dev/loop-control ] || skip "needs loop devices"

# Innermost first, then what lib.sh does.
mounted=()
clean_up() {
  local place
  for place in "${mounted[@]}"; do umount "$place" || true; done
  rm -rf -- "$work"
}
trap clean_up EXIT

disk() {  # disk IMAGE MIB FOLDER OPTION...: a new ext4, mounted
  truncate -s "${2}M" "$1"
  mkfs.ext4 -q "${@:4}" "$1"
  mkdir -p "$3"
  mount -o loop "$1" "$3" || skip "cannot mount a loop device"
  mounted=("$3" "${mounted[@]}")
}

# record FOLDER RATE SECONDS ARGUMENT...: a load of system calls, recorded by itself; `through` comes before trapline
through=()
record() {
  "$TRAPLINE_BINARY_DIR/tests/bench/record/bench_record_load" "$(($2 / 2))" "$3" >"$work/made" &
  local load=$!
  status=0
  "${through[@]}" "$trapline" record -o "$1" --no-kvm --events raw_syscalls --pid $load "${@:4}" \
    >"$work/stdout" 2>"$work/stderr" || status=$?
  kill $load 2>/dev/null || true # it goes on where the recording could not
  wait $load || true
  cat "$work/stderr"
}


events() { "$trapline" info "$1" | sed -n 's/^  events *//p' | head -n 1 | tr -d ,; }

python_test() {  # python_test SCRIPT ARGUMENT...
  local status=0
  python3 "$here/$1" "$TRAPLINE_BINARY_DIR" "${@:2}" || status=$?
  [ $status != 77 ] || skip "$1 cannot run here"
  [ $status = 0 ] || fail "$1"
}

a_power_cut_costs_the_last_second() {
  python_test power_cut.py --seconds 5 --rate 20000 --most 20 --between 8
}

a_killed_recorder_leaves_what_it_had() { python_test kills.py --kills 12; }

# What is copied when a recording ends (here as its files may not be long enough for one of all CPUs) is on the disk
# before the plan that says how much it is: a power cut between them must not leave files that are shorter.
what_is_copied_is_on_the_disk_before_the_plan() {
  command -v strace >/dev/null || skip "needs strace"
  through=(strace -f -y -o "$work/trace" -e "trace=splice,write,pwrite64,fsync,fdatasync,renameat" prlimit --fsize=33554432)
  record "$work/run" 2000 1
  expect_equal "exit status" 0 "$status"
  python3 - "$work/trace" <<'END'
import re
import sys
lines = open(sys.argv[1], errors="replace").read().splitlines()
plan = next(i for i, line in enumerate(lines) if "renameat(" in line and '"plan.json"' in line)
written, synced = {}, {}
for i, line in enumerate(lines[:plan]):
    call, file = re.search(r" (\w+)\(", line), re.findall(r"/raw/(cpu\d+)>", line)
    for name in file if call else []:
        (synced if call[1].endswith("sync") else written)[name] = i
print(f"written {written}, synced {synced}, the plan {plan}")
sys.exit(not written or any(synced.get(name, -1) < at for name, at in written.items()))
END
}

# A disk that stands still: its image is on another one, which is frozen. A reader of the buffers that
# waited for it would lose events: they hold half a second.
a_disk_that_stalls_loses_nothing() {
  local try losses
  disk "$work/outer" 400 "$work/a"
  disk "$work/a/inner" 200 "$work/b"
  # A machine that stands still itself loses events, and makes fewer: one recording of two may miss, and it is told.
  for try in 1 2; do
    rm -rf "$work/b/run"
    (wait_for "recording" test -e "$work/b/run/raw/start.json" && sleep 1.5 &&
      fsfreeze -f "$work/a" && sleep 3 && fsfreeze -u "$work/a") &
    record "$work/b/run" 100000 6 --buffer-size 1M
    wait
    expect_equal "exit status" 0 "$status"
    expect_equal "closed" True "$(json 's["closed"]' "$work/b/run")"
    losses=$(json '[l for l in s["losses"] if l["overwritten"] or l["dropped"]]' "$work/b/run")
    echo "try $try: losses $losses, $(events "$work/b/run") events of $(cat "$work/made")"
    # It was read all the while: the load began a little before the recorder.
    if [ "$losses" = "[]" ] && [ "$(events "$work/b/run")" -gt $(($(cat "$work/made") / 2)) ]; then
      echo "misses: $((try - 1)) of at most 1"
      return
    fi
  done
  fail "each lost events while its disk stood still"
}

# A disk that promised more than it has: writes succeed, and fail when they go to the disk. Linux's loop driver takes a
# write that found room for its first page alone for a whole one, and zeros would be on the disk that said otherwise: its
# requests are of one page here.
a_disk_that_fails_at_a_sync_is_a_loss_that_is_told() {
  mkdir "$work/thin"
  mount -t tmpfs -o size=100m none "$work/thin" || skip "cannot mount a tmpfs"
  mounted=("$work/thin")
  disk "$work/thin/disk" 300 "$work/b" -O ^has_journal
  local loop
  loop=$(findmnt --noheadings --output SOURCE "$work/b")
  echo 4 >"/sys/block/$(basename -- "$loop")/queue/max_sectors_kb"
  head -c 60M /dev/urandom >"$work/thin/filler"
  record "$work/b/run" 200000 60 # until the disk is full
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "could not be brought to the disk"
  grep -q '[1-9][0-9.]* MiB of events that were not known to be on the disk are left out' "$work/stderr" ||
    fail "the loss is not told"
  rm "$work/thin/filler"
  if [ "$(json 's["closed"]' "$work/b/run")" != True ]; then
    run "$trapline" record --finish "$work/b/run"
    expect_equal "exit status of --finish" 0 "$status"
  fi
  # All that is told to be there is on the disk, too. Before the finisher asked the disk first, a part of
  # these sessions (on a busy machine a third) had a tail that the page cache alone held.
  sync
  echo 3 >/proc/sys/vm/drop_caches
  run "$trapline" info "$work/b/run"
  expect_equal "exit status of info" 0 "$status"
  [ "$(events "$work/b/run")" -gt 100000 ] || fail "only $(events "$work/b/run") events"
}

"$1"
