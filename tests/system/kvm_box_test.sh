#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# shellcheck disable=SC2016 # the box expands the variables of its scripts
# scripts/kvm-box: what it runs, what it brings back, and how it fails. Three boots at most.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
box=$scripts/kvm-box

script() {  # script NAME LINE...
  printf '#!/bin/sh\n' >"$work/$1"
  printf '%s\n' "${@:2}" >>"$work/$1"
}

# Root gives up its rights first: the box needs none. The cache is linked, since a user cannot see
# root's home.
as_ordinary_user() {
  [ "$(id -u)" -eq 0 ] || return 0
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

runs_a_script_and_brings_back_its_files_without_root() {
  user=()
  script good 'set -e' 'test -c /dev/kvm' 'test -e /sys/kernel/tracing/events/kvm/kvm_exit/enable' \
    'cat brought' 'echo "$GREETING" >$OUT/greeting' 'mkdir $OUT/folder' 'id -u >$OUT/folder/user' \
    'trace-cmd list -e kvm:kvm_exit' 'qemu-system-x86_64 --version' 'sleep 60 &'
  echo "from the outside" >"$work/file"
  as_ordinary_user
  run "${user[@]}" "$box" --out "$work/out" --file "$work/file:brought" --env "GREETING=it's \"fine\" \$HOME" \
    --timeout 400 "$work/good"
  expect_equal "exit status" 0 "$status"
  expect_equal "owner of the results" "${user:+65534}" "${user:+$(stat -c %u "$work/out/greeting")}"
  expect_equal "a variable with all kinds of quotes" "it's \"fine\" \$HOME" "$(cat "$work/out/greeting")"
  expect_equal "the user inside" 0 "$(cat "$work/out/folder/user")"
  expect_contains "$work/out/output.txt" "from the outside"
  expect_contains "$work/out/output.txt" "kvm:kvm_exit"
  expect_contains "$work/out/output.txt" "QEMU emulator version 10."
}

passes_on_the_failure_of_a_script() {
  script bad 'echo what went wrong' 'exit 7'
  run "$box" --out "$work/out" --timeout 400 "$work/bad"
  expect_equal "exit status" 7 "$status"
  expect_contains "$work/stderr" "what went wrong"
}

ends_after_the_time_out() {
  script endless 'sleep 1000'
  run "$box" --out "$work/out" --timeout 3 "$work/endless"
  expect_equal "exit status" 124 "$status"
  expect_contains "$work/stderr" "still running after 3 seconds"
}

starts_again_when_the_machine_stands_still() {
  script good 'true'
  run "$box" --out "$work/out" --still 2 --qemu-arg -S "$work/good"  # -S: stopped from the start
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

"$1"
