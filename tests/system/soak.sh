#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR
# Does anything grow that should not? docs/testing.md, "Every night".
set -euo pipefail
scripts=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../../scripts
# shellcheck source=../../scripts/lib/common.sh
source "$scripts/lib/common.sh"

show_help() {
  cat <<'END'
usage: tests/system/soak.sh [--build FOLDER] [MINUTES]

For MINUTES (10), one cycle after the other: records a small guest for 2 s, reports it, exports it, draws its timeline, takes
a snapshot of a flight recorder and removes what was written. The flight recorder and `trapline top` run all the
time. Prints a line for each cycle: memory and open files of both, instances of ftrace, processes and KiB
on the disk. Exit status 1 where one of them grew from the middle third of the cycles, when all buffers are full, to
the last: memory by more than 2 MiB and 5 %, anything else at all. Needs root, tracefs and /dev/kvm.

  --build FOLDER   the build to test (build/release)
END
}

minutes=10 build=build/release
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) show_help; exit 0 ;;
    --build) [ $# -ge 2 ] || usage_error "--build needs a folder"; build=$2; shift 2 ;;
    *) minutes=$1; shift ;;
  esac
done
[[ $minutes =~ ^[0-9]+$ ]] || usage_error "'$minutes' is not a number of minutes"
cd "$TRAPLINE_ROOT"
build=$(readlink -f -- "$build")
trapline=$build/merge/trapline
guest_file=$build/tests/guest/demo-guest.elf
if ! [ -x "$trapline" ] || ! [ -e "$guest_file" ]; then die "$build has no trapline, or no guest: build it first"; fi
[ -w /dev/kvm ] || die "needs /dev/kvm"
[ "$(id -u)" -eq 0 ] || die "needs root"
instances=/sys/kernel/tracing/instances
[ -d "$instances" ] || die "needs tracefs at /sys/kernel/tracing"

qemu=$("$scripts/fetch" qemu10)/bin/qemu-system-x86_64
work=$(mktemp -d)
pids=()
stop() {
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait
  rm -rf -- "$work"
}
trap stop EXIT

"$trapline" record --flight 5s --spacing 0 -o "$work/flight" --no-kvm --sched --events raw_syscalls 2>"$work/flight.log" &
flight=$!
"$trapline" top --batch --interval 1s --prometheus "$work/top.prom" >/dev/null 2>"$work/top.log" &
top=$!
pids=("$flight" "$top")
for _ in $(seq 100); do [ -S "$work/flight/control" ] && [ -e "$work/top.prom" ] && break; sleep 0.1; done
[ -S "$work/flight/control" ] || die "the flight recorder did not start: $(cat "$work/flight.log")"
[ -e "$work/top.prom" ] || die "top did not start: $(cat "$work/top.log")"

memory() { awk '/^VmRSS:/ { print $2 }' "/proc/$1/status"; }
files() { find "/proc/$1/fd" -mindepth 1 -printf . | wc -c; }
sample() {  # flight's KiB and files, top's, instances, processes of Trapline, KiB on the disk
  echo "$(memory "$flight") $(files "$flight") $(memory "$top") $(files "$top")" \
    "$(find "$instances" -mindepth 1 -maxdepth 1 -name 'trapline*' -printf . | wc -c)" \
    "$(pgrep -c '^trapline' || true) $(du -sk -- "$work" | cut -f1)"
}

# A small guest that never ends: it reads devices, so there are exits to user space.
guest=("$qemu" -accel kvm -cpu "host,-arch-capabilities" -display none -nodefaults -machine "pc,hpet=on" -m 64
  -kernel "$guest_file" -device "isa-debugcon,iobase=0x402,chardev=c" -chardev "file,id=c,path=/dev/null")

cycle() {  # each step only after the one before it
  "$trapline" record --sched --duration 2 -o "$work/run" -- "${guest[@]}" &&
    "$trapline" report "$work/run" >"$work/report.txt" &&
    "$trapline" export --format perfetto -o "$work/run.pftrace" "$work/run" &&
    "$trapline" timeline "$work/run" >"$work/timeline.txt" &&
    snapshot=$("$trapline" snapshot "$work/flight") &&
    "$trapline" info "$snapshot" >"$work/info.txt" &&
    rm -r -- "$work/run" "$snapshot" "$work"/{run.pftrace,timeline.txt,report.txt,info.txt}
}

printf '%6s %12s %6s %12s %6s %10s %10s %9s\n' cycle flight/KiB files top/KiB files instances processes disk/KiB
end=$((SECONDS + minutes * 60)) count=0
until [ "$SECONDS" -ge "$end" ] && [ "$count" -ge 10 ]; do
  cycle >"$work/cycle.log" 2>&1 || { cat "$work/cycle.log" >&2; die "cycle $((count + 1)) failed"; }
  : >"$work/cycle.log"
  now=$(sample)
  count=$((count + 1))
  # shellcheck disable=SC2086 # words
  printf '%6s %12s %6s %12s %6s %10s %10s %9s\n' "$count" $now
  echo "$now" >>"$work/samples"
done

awk -v count="$count" '
  function grew(name, a, b, most) { if (b > a + most) { printf "soak: %s grew from %d to %d\n", name, a, b; bad = 1 } }
  NR > count / 3 && NR <= 2 * count / 3 { for (i = 1; i <= NF; i++) if ($i > early[i]) early[i] = $i }
  NR > 2 * count / 3 { for (i = 1; i <= NF; i++) if (!late[i] || $i < late[i]) late[i] = $i }
  END {
    split("memory of the flight recorder,open files of the flight recorder,memory of top,open files of top," \
          "instances,processes,the disk", name, ",")
    for (i = 1; i <= 7; i++) {
      slack = i == 1 || i == 3 ? (early[i] / 20 > 2048 ? early[i] / 20 : 2048) : i == 7 ? 64 : 0
      grew(name[i], early[i], late[i], slack)
    }
    exit bad
  }' "$work/samples"
