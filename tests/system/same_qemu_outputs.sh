#!/usr/bin/env bash
# Calls every event of two builds of QEMU, one with our generator, with edge values, each group in a
# program of its own that links the build's libqemuutil.a: QEMU's own marker, log and simpletrace
# code. The two must write the same, and the log what printf prints. Needs root, tracefs and, in both
# builds, libqemuutil.a only: a few minutes instead of QEMU's half hour.
#
#   same_qemu_outputs.sh SOURCE_DIR BUILD_DIR FOLDER FOLDER TRACE_EVENTS_ALL [GROUP...]
#
# FOLDER has source/ and build/, as scripts/qemu-with-ftrace makes them.
set -euo pipefail
source=$1 build=$2 folders=("$3" "$4") events_all=$5
shift 5
work=$(mktemp -d)
instance=/sys/kernel/tracing/instances/trapline-outputs-$$
# shellcheck disable=SC2317 # called by the trap
finish() {
  rmdir "$instance" 2> /dev/null || true
  rm -rf -- "$work"
}
trap finish EXIT

# The driver is for our stand-ins of QEMU's headers; a flush after each event, since QEMU's buffer
# drops what comes faster than its writer; an address that is the same in both programs.
driver() {  # driver GROUP TRACE_EVENTS
  "$build/tests/backend_ftrace/make_driver" "$1" 2 "$2" qemu |
    sed -e 's/UINTPTR_MAX, &pointers}/UINTPTR_MAX, (void *)0x5678}/' \
      -e 's/call_\([0-9]*\)(r);/call_\1(r); st_flush_trace_buffer();/' \
      -e 's/^#define trapline_events_set/#include "trace\/simple.h"\nvoid fake_switch_all(bool on);\n&/'
}

run_group() {  # run_group GROUP FOLDER N: writes N.marker, N.log, N.records, N.expected
  local group=$1 folder=$2 n=$3 status=0
  local -a flags
  read -ra flags <<< "$(pkg-config --cflags glib-2.0)"
  flags+=(-O0 -w -std=gnu11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 "-I$folder/build" "-I$folder/build/trace"
    "-I$folder/build/qapi" "-I$folder/source/include" "-I$folder/source"
    "-I$folder/source/host/include/x86_64" "-I$folder/source/host/include/generic")
  [ -e "$work/$n.o" ] || gcc "${flags[@]}" -c "$source/tests/system/qemu_outputs.c" -o "$work/$n.o"
  gcc "${flags[@]}" -c "$work/driver.c" -o "$work/driver.o"
  # Parts of the library that no event needs want QEMU's object model: left unresolved.
  # shellcheck disable=SC2046 # several options
  gcc -no-pie "$work/driver.o" "$work/$n.o" \
    "$folder/build/libqemuutil.a.p/meson-generated_.._trace_trace-$group.c.o" \
    "$folder/build/libqemuutil.a" $(pkg-config --libs glib-2.0 gmodule-2.0 gthread-2.0) -lm -pthread \
    -Wl,--unresolved-symbols=ignore-all -o "$work/program"
  mkdir "$instance"
  echo 16384 > "$instance/buffer_size_kb"
  # shellcheck disable=SC2016 # the inner shell's
  SIMPLE_FILE=$work/simple LOG_FILE=$work/$n.log unshare --mount bash -c \
    'mount --bind "$1" /sys/kernel/tracing && shift && exec "$@"' - "$instance" "$work/program" \
    "$work/$n.expected" "$work/expected-simple" "$work/syslog" > /dev/null || status=$?
  [ $status -eq 0 ] || { echo "$group of $folder ended with $status" >&2; exit 1; }
  sed -n 's/^.*: tracing_mark_write: //p' "$instance/trace" > "$work/$n.marker"
  rmdir "$instance"
  "$build/merge/trapline" print --format text --events "$events_all" "$work/simple" | cut -d' ' -f3- \
    > "$work/$n.records"
}

groups=0 lines=0
while read -r file; do
  group=$(dirname "${file#./}")
  group=${group//[^A-Za-z0-9]/_}
  [ "$group" != _ ] || group=root
  [ $# -eq 0 ] || [[ " $* " == *" $group "* ]] || continue
  driver "$group" "${folders[0]}/source/$file" > "$work/driver.c"
  for n in 0 1; do run_group "$group" "${folders[n]}" $n; done
  for kind in marker log records; do
    cmp -- "$work/0.$kind" "$work/1.$kind" || { diff "$work/0.$kind" "$work/1.$kind" | head >&2; exit 1; }
  done
  cmp -- "$work/1.log" "$work/1.expected"
  [ "$(wc -l < "$work/1.records")" -eq "$(wc -l < "$work/1.expected")" ]
  groups=$((groups + 1)) lines=$((lines + $(wc -l < "$work/1.expected")))
done < <(cd "${folders[0]}/source" && find . -name trace-events -not -path './.pc/*' -not -path './tests/*' \
  -exec grep -ql '^[a-z]' {} \; -print | sort)
[ $lines -gt 0 ] || { echo "no events were called" >&2; exit 1; }
echo "$lines calls of $groups groups' events wrote the same marker, log and simpletrace with both generators"
