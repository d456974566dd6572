#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# hostile.sh [SECONDS] [LIMIT]: a guest that makes stacks, code and calls without end (tests/guest/plugin/hostile.c)
# costs QEMU at most 64 MiB of memory more than without the plugin, and twice its records in writes; what is left out
# is counted and told. LIMIT: of the records, as the plugin's option.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"
seconds=${1:-8} limit=${2:-2G}
qemu=$(fetched qemu10)/bin/qemu-system
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
running=
trap '[ -z "$running" ] || kill -KILL "$running"; rm -rf -- "$work"' EXIT

# measure FILE ARGUMENT...: runs QEMU; peak of its memory in KiB and the bytes that it wrote, in $memory and $written
measure() {
  local told=$1
  shift
  machine=()
  [ "$arch" = x86_64 ] || machine=(-M virt -cpu cortex-a57)
  "$qemu-$arch" -accel tcg,tb-size=64 -m 64 -display none -nodefaults -no-reboot "${machine[@]}" \
    -kernel "$TRAPLINE_BINARY_DIR/tests/guest/plugin/$arch-hostile-O1.elf" "$@" 2>"$told" &
  running=$!
  sleep "$seconds"
  memory=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$running/status")
  written=$(sed -n 's/^wchar: //p' "/proc/$running/io")
  kill -TERM "$running"
  wait "$running" || true
  running=
}

# follow_once: what the plugin costs with $arch and $contexts; prints why it is too much and returns 1
follow_once() {
  measure "$work/none"
  local without=$memory data=$work/$contexts
  rm -rf "$data"
  measure "$work/stderr" -plugin "$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so,out=$data,contexts=$contexts,limit=$limit"
  records=$(cat "$data"/*.dat | wc -c)
  printf '%s %s: %d s: %d KiB without, %d with the plugin: %d MiB more; wrote %d, records %d; %d tasks\n' "$arch" "$contexts" \
    "$seconds" "$without" "$memory" $(((memory - without) / 1024)) "$written" "$records" "$(find "$data" -name '*.dat' | wc -l)"
  cat "$work/stderr"
  [ $((memory - without)) -le 65536 ] || { echo "the plugin takes $(((memory - without) / 1024)) MiB"; return 1; }
  grep -Eq ' [1-9][0-9]* lost' "$work/stderr" || { echo "nothing was counted"; return 1; }
  [ "$written" -le $((2 * records)) ] || fail "$written bytes were written for records of $records"
  if [ "$contexts" = stack ]; then
    [ "$(find "$data" -name '*.dat' | wc -l)" -le 8200 ] || fail "there are more tasks than the plugin says"
  fi
  run "$trapline" info "$data"
  expect_contains "$work/stdout" "lost"
  rm -r "$data"
}

for case in x86_64/stack x86_64/vcpu aarch64/stack; do
  arch=${case%/*} contexts=${case#*/}
  # A machine that does something else makes the guest, or the one that it is held against, come less far: not thrice.
  tries=0
  until follow_once; do
    tries=$((tries + 1))
    [ $tries -lt 3 ] || fail "it costs too much or is not told in each of three runs"
    seconds=$((seconds * 2))
  done
done
