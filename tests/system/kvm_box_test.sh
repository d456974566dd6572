#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# shellcheck disable=SC2016 # the box expands the variables of its scripts
# scripts/kvm-box: what it runs, what it brings back, and how it fails; and the one box whose boot the tests share.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
results=$TRAPLINE_BINARY_DIR/tests/system/box
# Before anything may skip: what an earlier box left would pass for this one's.
if [ "$1" = shared_box ]; then rm -rf -- "$results"; fi
for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
box=$scripts/kvm-box
here=$TRAPLINE_SOURCE_DIR/tests

script() {  # script NAME LINE...
  printf '#!/bin/sh\n' >"$work/$1"
  printf '%s\n' "${@:2}" >>"$work/$1"
}

# Root gives up its rights first: the box needs none. The cache is linked, since a user cannot see
# root's home.
as_ordinary_user() {
  user=()
  [ "$(id -u)" -eq 0 ] || return 0 # it is one
  local cache
  cache=$(dirname -- "$(fetched qemu10)")
  mkdir "$work/cache"
  cp -al "$cache"/{qemu10,kernel-amd64,box-amd64} "$work/cache/" 2>/dev/null ||
    cp -a "$cache"/{qemu10,kernel-amd64,box-amd64} "$work/cache/"
  cp -r "$scripts" "$work/scripts"
  chmod -R a+rX "$work/scripts"
  chmod a+rwx "$work" "$work/cache"
  export TRAPLINE_CACHE=$work/cache
  user=(setpriv --reuid=65534 --regid=65534 --clear-groups)
  box=$work/scripts/kvm-box
}

# What the list has for this test.
for_box() {  # for_box LIST
  echo "from the outside" >"$work/file"
  script good 'set -e' 'test -c /dev/kvm' 'test -e /sys/kernel/tracing/events/kvm/kvm_exit/enable' \
    'cat brought' 'echo "$GREETING" >$OUT/greeting' 'mkdir $OUT/folder' 'id -u >$OUT/folder/user' \
    'trace-cmd list -e kvm:kvm_exit' 'qemu-system-x86_64 --version' 'sleep 61 &'
  add_to_box "$1" good 60 "$work/good" "$work/file:brought"
  script hangs '(sleep 1000) &' 'exec sleep 1000'
  add_to_box "$1" hangs 2 "$work/hangs"
  script after 'ps' # of those before it
  add_to_box "$1" after 60 "$work/after"
}

# Boots the box that the tests share, as an ordinary user, and runs the scripts of all. This list ends with 7.
shared_box() {
  local list=$work/list test files=() file
  mkdir -p "$list/files"
  for test in "$here"/system/{kvm_box,vmm,record,cookbook}_test.sh "$here/plugin/kvm.sh"; do
    "$test" for_box "$list" || [ $? = 77 ] || fail "$test has no script for the box"
  done
  as_ordinary_user
  chmod -R a+rX "$list"
  for file in "$list"/files/*; do files+=(--file "$file"); done
  run "${user[@]}" "$box" --out "$work/out" --still 120 --timeout 2600 --env "GREETING=it's \"fine\" \$HOME" "${files[@]}" \
    "$here/system/box_list"
  cp "$work/stderr" "$work/out/stderr"
  echo "$status" >"$work/out/status"
  stat -c %u "$work/out/good/greeting" >"$work/out/owner" || fail "the box brought nothing back"
  sed -n 's/^list: //p' "$work/out/output.txt"
  mkdir -p "$(dirname -- "$results")"
  cp -r --no-preserve=ownership "$work/out" "$results"
}

runs_a_script_and_brings_back_its_files_without_root() {
  from_box good
  if [ "$(id -u)" -eq 0 ]; then expect_equal "owner of the results" 65534 "$(cat "$out/../owner")"; fi
  expect_equal "a variable with all kinds of quotes" "it's \"fine\" \$HOME" "$(cat "$out/greeting")"
  expect_equal "the user inside" 0 "$(cat "$out/folder/user")"
  expect_contains "$out/output.txt" "from the outside"
  expect_contains "$out/output.txt" "kvm:kvm_exit"
  expect_contains "$out/output.txt" "QEMU emulator version 10."
}

passes_on_the_failure_of_a_script() {
  from_box after
  expect_equal "exit status" 7 "$(cat "$out/../status")"
  expect_contains "$out/../stderr" "list: what went wrong"
}

a_script_of_the_list_that_hangs_ends_alone() {
  from_box after
  expect_equal "exit status of the one that hangs" 137 "$(cat "$out/../hangs/status")"
  expect_contains "$out/../output.txt" "list: hangs took more than 2 s and was ended"
  if grep -E 'sleep (61|1000)' "$out/output.txt"; then fail "a script's process outlives it"; fi
}

ends_after_the_time_out() {
  script endless 'sleep 1000'
  run "$box" --out "$work/out" --timeout 1 "$work/endless"
  expect_equal "exit status" 124 "$status"
  expect_contains "$work/stderr" "still running after 1 seconds"
}

starts_again_when_the_machine_stands_still() {
  script good 'true'
  run "$box" --out "$work/out" --still 1 --qemu-arg -S "$work/good"  # -S: stopped from the start
  expect_equal "exit status" 125 "$status"
  expect_contains "$work/stderr" "(try 2 of 3)"
  expect_contains "$work/stderr" "stood still in each of 3 tries"
  [ -z "$(jobs -p)" ] || fail "something still runs"
}

says_what_is_wrong_with_its_arguments() {
  script good 'true'
  local arguments
  for arguments in "" "$work/absent" "--cpus none $work/good" "--file $work/absent $work/good" \
    "--arch m68k $work/good" "--vendor cyrix $work/good" \
    "--vendor intel --plugin $work/good $work/good" "--vendor intel --arch arm64 $work/good" "--colour red $work/good" "--env 1=2 $work/good"; do
    # shellcheck disable=SC2086 # a list of words
    run "$box" --out "$work/out" $arguments
    expect_equal "exit status of kvm-box $arguments" 2 "$status"
    [ -s "$work/stderr" ] || fail "kvm-box $arguments says nothing"
  done
  run "$box" --help
  expect_contains "$work/stdout" "--timeout SECONDS"
}

"$@"
