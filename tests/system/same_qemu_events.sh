#!/usr/bin/env bash
# Runs one guest under two QEMUs built with ftrace, log and simple, and compares what each backend
# wrote: the same events in the same order with the same values. Guest time counts instructions
# (-icount), so the runs are the same; addresses of the host are numbered in order of appearance.
#
#   same_qemu_events.sh SOURCE_DIR BUILD_DIR QEMU QEMU TRACE_EVENTS_ALL FIRMWARE
#
# Needs root and tracefs. QEMU knows only the top-level trace_marker, so each runs in a mount
# namespace where an instance of its own lies over tracefs.
set -euo pipefail
build=$2 qemus=("$3" "$4") events_all=$5 firmware=$6
tracefs=/sys/kernel/tracing
work=$(mktemp -d)
instance=$tracefs/instances/trapline-same-$$
# shellcheck disable=SC2317 # called by the trap
finish() {
  rmdir "$instance" 2> /dev/null || true
  rm -rf -- "$work"
}
trap finish EXIT

# What the guest does to devices, and what the devices then do; nothing that depends on the host's
# time or threads.
patterns='memory_region_ops_read memory_region_ops_write hpet_* pit_* pic_* apic_* ioapic_* pci_cfg_*
  gsi_* x86_pic_* mc146818* fw_cfg_* kvm_run_exit_system_event runstate_set vm_state_notify object_class_* serial_* cpu_reset'

one_run() {  # one_run QEMU NAME: NAME.marker, NAME.log, NAME.records
  local qemu=$1 name=$2 status=0
  mkdir "$instance"
  echo 65536 > "$instance/buffer_size_kb"
  tr -s ' \n' '\n' <<< "$patterns" > "$work/events"
  # shellcheck disable=SC2016 # the inner shell's
  timeout 300 unshare --mount bash -c 'mount --bind "$1" "$2" && shift 2 && exec "$@"' - \
    "$instance" $tracefs "$qemu" -L "$firmware" -accel tcg,thread=single -icount shift=2,sleep=off \
    -seed 1 -rtc base=2026-01-01,clock=vm -display none -nodefaults -no-reboot -machine pc,hpet=on \
    -m 64 -kernel "$build/tests/guest/demo-guest.elf" -device isa-debugcon,iobase=0x402,chardev=c \
    -chardev "file,id=c,path=$work/console" -device isa-debug-exit,iobase=0x501 \
    -trace "events=$work/events" -trace "file=$work/$name.simple" -D "$work/$name.log" || status=$?
  [ $status -eq 1 ] || { echo "$qemu ended with $status, not with the guest's 1" >&2; exit 1; }
  sed -n 's/^.*: tracing_mark_write: //p' "$instance/trace" > "$work/$name.marker"
  rmdir "$instance"
  "$build/merge/trapline" print --format text --events "$events_all" "$work/$name.simple" |
    cut -d' ' -f3- > "$work/$name.records"
}

# Host addresses become host1, host2, ... in order of appearance. Trailing blanks of lines are the
# kernel's to keep.
number_addresses() {
  python3 - "$1" << 'END'
import re, sys
numbers = {}
number = lambda match: "host%d" % numbers.setdefault(match[0], len(numbers) + 1)
for line in open(sys.argv[1], "rb"):
    text = line.decode("latin-1").rstrip("\n").rstrip(" ")
    print(re.sub("0x(7f|5[56])[0-9a-f]{10}", number, text))
END
}

for i in 0 1; do
  one_run "${qemus[i]}" "$i"
  for kind in marker log records; do number_addresses "$work/$i.$kind" > "$work/$i.$kind.numbered"; done
done
failed=0
same() {  # same WHAT A B
  cmp -s -- "$2" "$3" && return
  echo "$1 differ:" >&2
  diff -- "$2" "$3" | sed -n 1,10p >&2 || true
  failed=1
}
for kind in marker log records; do
  same "the two QEMUs' $kind lines" "$work/0.$kind.numbered" "$work/1.$kind.numbered"
done
# Within a run: every backend has every event.
for i in 0 1; do
  same "marker and log of ${qemus[i]}" "$work/$i.marker.numbered" "$work/$i.log.numbered"
  same "log and simple file of ${qemus[i]}" "$work/$i.log.numbered" "$work/$i.records.numbered"
done
lines=$(wc -l < "$work/0.marker")
[ "$lines" -ge 500 ] || { echo "only $lines events: not worth comparing" >&2; failed=1; }
[ $failed -eq 0 ] && echo "$lines events, the same through ftrace, log and simple of both QEMUs:" \
  "$(cut -d' ' -f1 "$work/0.marker" | sort | uniq | wc -l) different ones"
exit $failed
