#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=../system/lib.sh
# Programs under qemu-user with the plugin: every call of each thread, handler and forked process is counted, by
# uftrace and by us, with the names of the program's functions and of its libraries'.
set -euo pipefail
source "$(dirname -- "$0")/../system/lib.sh"
qemu=$(fetched qemu10-user)/bin
plugin=$TRAPLINE_BINARY_DIR/plugin/libtrapline_plugin.so
source_file=$TRAPLINE_SOURCE_DIR/tests/plugin/user_program.c

expect_calls() {  # expect_calls DIRECTORY COUNT FUNCTION
  expect_equal "calls of $3 in $1" "$2" "$(uftrace report -d "$1" -f call -s func | awk -v name="$3" '$2 == name { print $1 }')"
}

check() {  # check NAME QEMU PROGRAM
  local data=$work/$1.data
  run "$2" -plugin "$plugin,out=$data" "$3"
  expect_equal "$1: exit status" 0 "$status"
  expect_contains "$work/stdout" "10200, 0"
  expect_contains "$work/stderr" ", 0 lost;"
  expect_calls "$data" 232 leaf
  expect_calls "$data" 110 twice
  expect_calls "$data" 5 handle
  expect_calls "$data" 1 run_child
  expect_calls "$data" 1 main
  # Three tasks: the program, its thread, its child.
  expect_equal "$1: tasks" 3 "$(grep -c ^TASK "$data/task.txt")"
  expect_equal "$1: files" 3 "$(find "$data" -name '*.dat' | wc -l)"
  run "$TRAPLINE_BINARY_DIR/merge/trapline" report "$data" --format json
  expect_equal "$1: report" 0 "$status"
  expect_equal "$1: leaf in the report" 232 "$(python3 -c '
import json, sys
print(next(row["count"] for row in json.load(open(sys.argv[1]))["tables"]["groups"]["rows"] if row["key"] == "leaf"))' "$work/stdout")"
}

gcc -O2 -o "$work/dynamic" "$source_file" -pthread
gcc -O2 -static -o "$work/static" "$source_file" -pthread
check dynamic "$qemu/qemu-x86_64" "$work/dynamic"
expect_calls "$work/dynamic.data" 10 snprintf  # through the linkage table
check static "$qemu/qemu-x86_64" "$work/static"
clang --target=aarch64-linux-gnu -O2 -static -fuse-ld=lld -o "$work/arm64" "$source_file" -pthread
check arm64 "$qemu/qemu-aarch64" "$work/arm64"

# What was called before another program took the process.
run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/exec.data,include=leaf" "$work/dynamic" exec
expect_equal "exec: exit status" 0 "$status"
expect_calls "$work/exec.data" 1 leaf

# A thread that begins when the function of start= has run is recorded too.
run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/start.data,start=main" "$work/dynamic"
expect_calls "$work/start.data" 232 leaf
expect_calls "$work/start.data" 1 run_thread

# More threads than the plugin has places for, one after the other: the program ends with a message, not with a signal.
run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/few.data,include=leaf" "$work/static" chain 100
expect_equal "101 threads: exit status" 3 "$status"
expect_calls "$work/few.data" 101 leaf
run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/chain.data,include=leaf" "$work/static" chain 4200
expect_equal "too many threads: exit status" 1 "$status"
expect_contains "$work/stderr" "more than 4096 threads of the program have overlapped"
expect_calls "$work/chain.data" 4096 leaf

# Symbols of code that no file shows keep their place beside those that are found.
run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/more.data,symbols=$work/static@0x10000000" "$work/dynamic"
for file in static dynamic libc.so.6; do expect_contains "$work/more.data/sid-0.map" "/vm/$file"; done

run "$qemu/qemu-x86_64" -plugin "$plugin,out=$work/no.data,include=nothing" "$work/dynamic"
expect_equal "a wrong option: exit status" 1 "$status"
expect_contains "$work/stderr" "no function of the symbol files matches"
[ ! -e "$work/no.data" ] || fail "a refused recording left a directory"
run "$qemu/qemu-x86_64" -plugin "$plugin,contexts=stack" "$work/dynamic"
expect_contains "$work/stderr" "contexts= is for qemu-system"
