#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh disable=SC2016
# Commands that only read give up root's rights before they read. The caller of sudo is user 65534.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
here=$TRAPLINE_SOURCE_DIR/tests/system
data=$TRAPLINE_SOURCE_DIR/tests/data
as_sudo=(env SUDO_UID=65534 SUDO_GID=65534)

[ "$(id -u)" = 0 ] || skip "needs root"
chmod 755 "$work"
home=$work/home roots=$work/roots
mkdir "$home" "$roots"
chown 65534:65534 "$home"
chmod 700 "$home" "$roots"
umask 077
cp "$data/svm-mono.dat" "$roots/own.dat"
cp -rL "$TRAPLINE_SOURCE_DIR/tests/merge/two-vms.trapline" "$roots/run"
chmod -R go= "$roots"
cp "$roots/own.dat" "$home/his.dat"
chown 65534:65534 "$home/his.dat"

# reading_commands FILE: each of them, without its options for outputs; one a line.
reading_commands() {
  printf '%s\n' "report $1" "timeline $1 --around max" "explain $1" "stalls $1" "advise $1" "diff $1 $1" \
    "export $1 --format csv -o -" "info $1" "complete -- report --reason $1"
}

# Every command, as sudo and as root start it: descriptors, then root's rights, then the first byte and the worker.
no_byte_is_read_with_roots_rights() {
  command -v strace >/dev/null || skip "needs strace"
  local command words sudo
  for sudo in "" 1; do
    while read -r command; do
      read -ra words <<<"$command"
      run strace -f -y -s 256 -o "$work/trace" ${sudo:+"${as_sudo[@]}"} "$trapline" "${words[@]}"
      expect_equal "exit status of $command" 0 "$status"
      python3 "$here/audit_rights.py" "$work/trace" "$roots/own.dat" || fail "$command ${sudo:+as sudo}"
    done < <(reading_commands "$roots/own.dat")
  done
  # The audit sees a command that keeps its rights.
  printf '%s\n' "7 openat(AT_FDCWD, \"$roots/own.dat\", O_RDONLY) = 3<$roots/own.dat>" \
    "7 pread64(3<$roots/own.dat>, \"trace\", 5, 0) = 5" >"$work/trace"
  if python3 "$here/audit_rights.py" "$work/trace" "$roots/own.dat" >"$work/stdout" 2>&1; then
    fail "the audit passes a command that reads as root"
  fi
}

what_only_root_can_read_is_read_where_it_was_named() {
  local command words
  cd "$home"
  for file in own.dat run run/trace.dat; do
    while read -r command; do
      read -ra words <<<"$command"
      run "$trapline" "${words[@]}"
      expect_equal "exit status of $command" 0 "$status"
      mv "$work/stdout" "$work/roots-own"
      run "${as_sudo[@]}" "$trapline" "${words[@]}"
      expect_equal "exit status of $command" 0 "$status"
      cmp "$work/roots-own" "$work/stdout" || fail "sudo reads something else: $command"
    done < <(reading_commands "$roots/$file")
  done
  # Of a user that root is not, as in root's own shell.
  cp -r "$roots/run" "$home/his"
  chown -R 65534:65534 "$home/his"
  run "$trapline" report "$home/his"
  expect_equal "exit status" 0 "$status"
  "${as_sudo[@]}" "$trapline" report "$home/his" | cmp - "$work/stdout" || fail "sudo reads something else"
}

# A look at it must not end who writes into it.
a_fifo_is_read_by_root_too() {
  local sudo writer
  mkfifo "$work/fifo"
  chmod 644 "$work/fifo"
  for sudo in "" 1; do
    cat "$data/svm-mono.dat" >"$work/fifo" &
    writer=$!
    # It opens the FIFO (openat of x86-64, arm64), which waits for a reader: the reader waits for no writer.
    wait_for "the writer" grep -qE '^(257|56) ' "/proc/$writer/syscall"
    run timeout 60 ${sudo:+"${as_sudo[@]}"} "$trapline" info "$work/fifo"
    expect_equal "exit status" 0 "$status"
    wait "$writer" || fail "its writer ended with $?"
  done
}

# The session says where the bytes are, and its owner may have said so.
a_link_in_a_session_leads_to_no_file_of_roots() {
  mkdir "$home/run" "$home/mine"
  cp "$roots/own.dat" "$work/own.dat"
  ln -s "$work/own.dat" "$home/run/trace.dat"
  ln -s "$home/his.dat" "$home/mine/trace.dat"
  chown -hR 65534:65534 "$home/run" "$home/mine"
  for command in report info "timeline --around max"; do
    # shellcheck disable=SC2086 # words of a command
    run "${as_sudo[@]}" "$trapline" $command "$home/run"
    [ "$status" != 0 ] || fail "$command read root's file"
    expect_contains "$work/stderr" "Permission denied"
    # shellcheck disable=SC2086
    run "$trapline" $command "$home/run"
    [ "$status" != 0 ] || fail "root's $command read root's file"
  done
  run "${as_sudo[@]}" "$trapline" info "$home/mine"
  expect_equal "exit status" 0 "$status"
}

outputs_are_the_callers_and_refused_before_anything_is_read() {
  local redirect
  cd "$home"
  run "${as_sudo[@]}" "$trapline" report "$roots/own.dat" --format html -o page.html
  expect_equal "exit status" 0 "$status"
  expect_equal "owner" 65534:65534 "$(stat -c %u:%g page.html)"
  run "${as_sudo[@]}" "$trapline" export "$roots/own.dat" --format uftrace -o uftrace
  expect_equal "exit status" 0 "$status"
  expect_equal "files of others" "" "$(find uftrace ! -user 65534)"
  run "$trapline" report "$roots/own.dat" -o "$roots/text"
  expect_equal "exit status in a folder of root's alone" 0 "$status"
  run "${as_sudo[@]}" "$trapline" report "$roots/own.dat" -o "$work/text"
  expect_equal "exit status" 1 "$status"
  [ ! -e "$work/text" ] || fail "the file is there"
  # What it says to type instead.
  redirect=$(sed -n 's/.*root.s rights are not kept for it: //p' "$work/stderr")
  mkdir "$work/bin"
  printf '#!/bin/sh\nexec env SUDO_UID=65534 SUDO_GID=65534 "$@"\n' >"$work/bin/sudo"
  ln -s "$trapline" "$work/bin/trapline"
  chmod -R 755 "$work/bin"
  PATH=$work/bin:$PATH TRAPLINE_WORKER=${trapline}-worker bash -c "$redirect"
  cmp "$work/text" "$roots/text" || fail "the command wrote something else: $redirect"
  # Root's own shell may write where root may without capabilities.
  run "$trapline" report "$roots/own.dat" -o "$home/text"
  expect_equal "exit status" 1 "$status"
  expect_contains "$work/stderr" "trapline report $roots/own.dat -o - > $home/text"
}

# state_of PATTERN: the line of the command's /proc status, while it waits for its input.
state_while_it_reads() { # state_while_it_reads COMMAND...
  mkfifo "$work/fifo"
  exec 5<>"$work/fifo"
  "$@" info - <"$work/fifo" >"$work/stdout" 2>"$work/stderr" &
  local reader=$!
  wait_for "the end of its rights" grep -q "^NoNewPrivs:.1" "/proc/$reader/status"
  grep -E "^(Uid|Gid|Groups|Cap...|NoNewPrivs):" "/proc/$reader/status" | tr -s '\t ' ' '
  kill "$reader"
  exec 5>&-
  rm "$work/fifo"
}

no_capability_is_left() {
  local none="CapInh: 0000000000000000
CapPrm: 0000000000000000
CapEff: 0000000000000000
CapBnd: 0000000000000000
CapAmb: 0000000000000000
NoNewPrivs: 1"
  expect_equal "of sudo" "Uid: 65534 65534 65534 65534
Gid: 65534 65534 65534 65534
Groups: 65534 
$none" "$(state_while_it_reads "${as_sudo[@]}" "$trapline")"
  expect_equal "of root" "Uid: 0 0 0 0
$none" "$(state_while_it_reads "$trapline" | grep -Ev "Gid|Groups")"
}

a_browser_is_the_callers_and_sees_the_display_only() {
  local browse=(env PATH="$work/bin:$PATH" DISPLAY=:7 SECRET=1 TMPDIR="$home")
  mkdir "$work/bin"
  printf '#!/bin/sh\n{ id -u; env; echo "$1"; } >%s\n' "$home/began.part && mv $home/began.part $home/began" >"$work/bin/xdg-open"
  chmod -R 755 "$work/bin"
  run "${browse[@]}" "${as_sudo[@]}" "$trapline" report "$roots/own.dat" --open
  expect_equal "exit status" 0 "$status"
  wait_for "the browser" test -e "$home/began"
  expect_equal "its user" 65534 "$(head -n 1 "$home/began")"
  expect_equal "its variables" "DISPLAY HOME PATH PWD" "$(sed -n 's/^\([A-Z_]*\)=.*/\1/p' "$home/began" | sort | xargs)"
  expect_equal "its page" "$(cat "$work/stdout")" "$(tail -n 1 "$home/began")"
  rm "$home/began"
  run "${browse[@]}" TMPDIR="$roots" "$trapline" report "$roots/own.dat" --open
  expect_contains "$work/stderr" "root starts no browser"
  [ -s "$(cat "$work/stdout")" ] || fail "there is no page"
  [ ! -e "$home/began" ] || fail "root started a browser"
}

# What a recorder keeps while it records: to see the threads and names of others' processes.
a_recorder_keeps_what_it_needs() {
  local state
  grep -q ' tracefs ' /proc/mounts || skip "tracefs is not mounted"
  "$trapline" record -o "$work/run" --no-kvm --sched --duration 20s 2>"$work/stderr" &
  recorder=$!
  wait_for "the recorder" grep -q '^CapEff:.*0000000000080004$' "/proc/$recorder/status"
  for state in "/proc/$recorder/task"/*/status; do
    expect_equal "capabilities" 0000000000080004 "$(sed -n 's/^CapPrm:\t//p' "$state")"
  done
  kill -INT "$recorder"
  wait "$recorder"
  run "$trapline" info "$work/run"
  expect_equal "exit status of info" 0 "$status"
}

"$1"
