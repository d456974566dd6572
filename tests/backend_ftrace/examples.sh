#!/usr/bin/env bash
# The documented way, from nothing: install into a prefix, build the examples against the CMake
# package, a C program through pkg-config without any C++ library, and find their events in ftrace.
#
#   examples.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
tracefs=/sys/kernel/tracing
if [ "$(id -u)" != 0 ] || [ ! -w $tracefs/trace_marker ]; then
  echo "skipped: needs root and tracefs at $tracefs"
  [ "${TRAPLINE_REQUIRE_SYSTEM:-0}" = 1 ] && exit 1
  exit 77
fi
work=$(mktemp -d)
name=trapline-examples-$$
instance=$tracefs/instances/$name
server=
finish() {
  if [ -n "$server" ]; then kill "$server" 2> /dev/null || true; wait "$server" 2> /dev/null || true; fi
  rmdir "$instance" 2> /dev/null || true
  rm -rf "$work"
}
trap finish EXIT
mkdir "$instance"
cd "$work"  # where the simple backend writes without a name
export TRAPLINE_FTRACE_INSTANCE=$name

has() {  # has PATTERN: in the instance's trace, within 30 s: a server tells of a request after its answer
  for _ in $(seq 600); do
    if grep -qE "$1" "$instance/trace"; then return; fi
    sleep 0.05
  done
  echo "not in the trace: $1" >&2
  tail -20 "$instance/trace" >&2
  exit 1
}

listens() { grep -q " 00010000 .* $1\$" /proc/net/unix; }  # a socket has its name before it takes connections

cmake --install "$build/backend_ftrace" --prefix "$work/prefix" > "$work/log"
for example in three-lines device; do
  cmake -S "$source/docs/examples/$example" -B "$work/$example" -G Ninja \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" > "$work/log" ||
    { cat "$work/log"; exit 1; }
  cmake --build "$work/$example" > "$work/log" || { cat "$work/log"; exit 1; }
done

TRAPLINE_EVENTS='hello_*' TRAPLINE_LOG="$work/hello.log" "$work/three-lines/hello" one "t'wo"
has "hello_start argc=3$"
has "hello_word index=2 word='t'wo'$"
has "hello_end done$"
[ "$(wc -l < "$work/hello.log")" = 4 ]
TRAPLINE_EVENTS='hello_wrod' "$work/three-lines/hello" one 2> "$work/stderr"
grep -x "trapline: TRAPLINE_EVENTS: no event matches 'hello_wrod'; did you mean hello_word?" "$work/stderr" > /dev/null

TRAPLINE_EVENTS='device_*' TRAPLINE_LOG=/dev/null TRAPLINE_MONITOR="$work/monitor" \
  "$work/device/device" "$work/socket" "$work/disk" &
server=$!
for _ in $(seq 600); do
  if listens "$work/socket" && listens "$work/monitor"; then break; fi
  sleep 0.05
done
"$work/device/device" --client "$work/socket" 20
has "device_request client=[0-9]+ request=0x14 read offset=0x9000 length=4096$"
has "device_complete client=[0-9]+ request=0x14 status=0 ns=[0-9]+$"
"$build/merge/trapline" events --monitor "$work/monitor" 'device_request' off
"$build/merge/trapline" events --monitor "$work/monitor" | grep -x "device_request : state 0" > /dev/null
"$build/merge/trapline" events --monitor "$work/monitor" --trace-file status |
  grep -x "trace file \"trace-$server\" on, layout qemu, 0 events dropped" > /dev/null
"$build/merge/trapline" events --monitor "$work/monitor" --trace-file "$work/a trace" # a blank in the name
"$build/merge/trapline" events --monitor "$work/monitor" --trace-file status |
  grep -x "trace file \"$work/a trace\" on, layout qemu, 0 events dropped" > /dev/null
"$build/merge/trapline" events --monitor "$work/monitor" --trace-file set "$work/set trace"
"$build/merge/trapline" events --monitor "$work/monitor" --trace-file status |
  grep -x "trace file \"$work/set trace\" on, layout qemu, 0 events dropped" > /dev/null
for words in set "set a b" "flush now" flsuh; do
  # shellcheck disable=SC2086
  if "$build/merge/trapline" events --monitor "$work/monitor" --trace-file $words 2> "$work/refused"; then
    echo "--trace-file $words is not refused" >&2
    exit 1
  fi
  grep -q -- "--trace-file $words" "$work/refused" || grep -q "one word too many" "$work/refused"
done
: > "$instance/trace"
"$work/device/device" --client "$work/socket" 4
has "device_complete client=[0-9]+ request=0x4 "
if grep -q "device_request" "$instance/trace"; then
  echo "an event that was switched off is in the trace" >&2
  exit 1
fi

# In a recording they are in the report and on the timeline.
trace-cmd extract -B "$name" -o "$work/trace.dat" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
echo 1 > "$instance/tracing_on"  # which extract switched off
"$build/merge/trapline" report "$work/trace.dat" --by qemu-event > "$work/report"
grep -E "^device_complete +4 +-$" "$work/report" > /dev/null || { cat "$work/report"; exit 1; }
"$build/merge/trapline" timeline "$work/trace.dat" > "$work/timeline"
grep -E "device_complete client=[0-9]+ request=0x4 " "$work/timeline" > /dev/null ||
  { cat "$work/timeline"; exit 1; }

# A C program, pkg-config, and nothing of C++.
cat > "$work/plain.c" << 'END'
#include <stdio.h>
#include <trapline/ftrace.h>
int main(void) {
  char error[256];
  struct trapline_ftrace_options options = {"NAME", NULL};
  trapline_ftrace *marker = trapline_ftrace_open(&options, error, sizeof error);
  if (marker == NULL) return puts(error), 1;
  return trapline_ftrace_printf(marker, "plain C %d", 11) == 10 ? 0 : 1;
}
END
sed -i "s/NAME/$name/" "$work/plain.c"
export PKG_CONFIG_PATH
PKG_CONFIG_PATH=$(dirname "$(find "$work/prefix" -name trapline-ftrace.pc)")
# The .pc file finds its files from where it is, so the folder can be moved.
mv "$work/prefix" "$work/moved"
PKG_CONFIG_PATH=${PKG_CONFIG_PATH/$work\/prefix/$work\/moved}
libdir=$(pkg-config --variable=libdir trapline-ftrace)
# shellcheck disable=SC2046
cc -std=c11 -Wall -Wextra -Werror "$work/plain.c" $(pkg-config --cflags --libs trapline-ftrace) -o "$work/plain"
export LD_LIBRARY_PATH=$libdir
"$work/plain"
has "plain C 11$"
ldd "$work/plain" | grep "libtrapline_ftrace.so.0 => $work/moved/" > /dev/null
if ldd "$work/plain" | grep stdc; then
  echo "a C program needs the C++ library" >&2
  exit 1
fi
echo "examples: built and seen in ftrace"
