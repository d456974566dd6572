#!/usr/bin/env bash
# docs/qemu.md against a real QEMU 10: a stock build's log goes into trace_marker, events are listed
# and switched through QMP, and what arrives is parsed back by the installed trace-events-all.
#
#   qemu_events.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
tracefs=/sys/kernel/tracing
skip() {
  echo "skipped: $1"
  [ "${TRAPLINE_REQUIRE_SYSTEM:-0}" = 1 ] && exit 1
  exit 77
}
if [ "$(id -u)" != 0 ] || [ ! -w $tracefs/trace_marker ]; then skip "needs root and tracefs"; fi
qemu10=${TRAPLINE_QEMU10:-}
if [ -z "$qemu10" ] && [ -x "$source/scripts/fetch" ]; then qemu10=$("$source/scripts/fetch" qemu10); fi
qemu=$qemu10/bin/qemu-system-x86_64
[ -x "$qemu" ] || skip "needs QEMU 10 (scripts/fetch qemu10)"

work=$(mktemp -d)
instance=$tracefs/instances/trapline-qemu-$$
pid=
finish() {
  if [ -n "$pid" ]; then kill "$pid" 2> /dev/null || true; wait "$pid" 2> /dev/null || true; fi
  rmdir "$instance" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
mkdir "$instance"

"$qemu" -accel tcg -m 16 -display none -nodefaults -S -machine pc \
  -qmp unix:"$work/qmp",server=on,wait=off -D "$instance/trace_marker" 2> /dev/null &
pid=$!
for _ in $(seq 600); do  # a socket has its name before it takes connections
  if grep -q " 00010000 .* $work/qmp\$" /proc/net/unix; then break; fi
  sleep 0.05
done
trapline=$build/merge/trapline
[ "$("$trapline" events --qmp "$work/qmp" handle_qmp_command)" = "handle_qmp_command : state 0" ]
"$trapline" events --qmp "$work/qmp" 'handle_qmp_*' on
"$trapline" events --qmp "$work/qmp" | grep -x "handle_qmp_command : state 1" > /dev/null
if "$trapline" events --qmp "$work/qmp" handle_qmp_comand on 2> "$work/error"; then exit 1; fi
grep -q "did you mean handle_qmp_command?" "$work/error"
"$trapline" events --qmp "$work/qmp" 'handle_qmp_*' off
grep -E 'tracing_mark_write: handle_qmp_command mon 0x[0-9a-f]+ req: ' "$instance/trace" |
  grep "trace-event-get-state" > /dev/null || { tail "$instance/trace"; exit 1; }
echo "QEMU's events were switched through QMP and arrived in ftrace"
