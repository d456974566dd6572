# shellcheck shell=bash
# Sourced by the shell tests: verbs to check with. A test prints what it did and why it failed.
# Called by ctest with TRAPLINE_SOURCE_DIR and TRAPLINE_BINARY_DIR; exit status 77 means skipped.

: "${TRAPLINE_SOURCE_DIR:?}" "${TRAPLINE_BINARY_DIR:?}"
scripts=$TRAPLINE_SOURCE_DIR/scripts
work=$(mktemp -d)
trap 'end_jobs; rm -rf -- "$work"' EXIT

# A test that fails leaves no recorder, and no load, to those after it.
end_jobs() {
  local pids
  mapfile -t pids < <(jobs -p)
  kill "${pids[@]}" 2>/dev/null || true
  kill -CONT "${pids[@]}" 2>/dev/null || true
}

fail() {
  if [ -s "$work/stderr" ]; then tail -n 40 -- "$work/stderr" | sed 's/^/  | /' >&2; fi
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# What a test needs of the machine. A skip is a failure where CI requires the system tests.
skip() {
  if [ "${TRAPLINE_REQUIRE_SYSTEM:-}" = 1 ]; then fail "required here: $*"; fi
  printf 'skipped: %s\n' "$*"
  exit 77
}

# The folder of a thing that scripts/fetch gets.
fetched() { "$scripts/fetch" "$1" || skip "scripts/fetch $1 failed"; }

needs_tracefs() {
  [ "$(id -u)" = 0 ] || skip "needs root"
  mountpoint -q /sys/kernel/tracing || mount -t tracefs nodev /sys/kernel/tracing 2>/dev/null || skip "needs tracefs"
}

needs_kvm_events() {
  needs_tracefs
  [ -d /sys/kernel/tracing/events/kvm ] || skip "needs the kvm module"
}

needs_plugin() {
  ! grep -q '^TRAPLINE_SANITIZE:STRING=.' "$TRAPLINE_BINARY_DIR/CMakeCache.txt" ||
    skip "QEMU cannot load a plugin with a sanitizer in it"
}

# Calls that hardly anybody makes, by `make_calls N`: recorded with --pid of a process that makes them, they are all events
# of this kind, whatever else the machine does. Tests that count a kind of the whole host (faults.py) have another one.
event=sys_enter_sched_getparam
make_calls() { "$TRAPLINE_BINARY_DIR/tests/system/fault" --own-calls "$1"; }
calls_in() { "$TRAPLINE_BINARY_DIR/merge/trapline" info "$1" | sed -n "s/^ *syscalls:$event  *//p" | tr -d ,; }
needs_calls() {
  needs_tracefs
  [ -x "$TRAPLINE_BINARY_DIR/tests/system/fault" ] || skip "needs tests/system/fault"
  [ -d "/sys/kernel/tracing/events/syscalls/$event" ] || skip "needs the events of system calls"
}

# json EXPRESSION [FOLDER]: of session.json, which is s; in $session, if no folder is named.
json() {
  python3 -c 'import json,sys; s=json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "${2:-$session}/session.json" "$1"
}

# The instance of a recorder of this PID namespace: others have recorders of the same PID.
space=$(stat -Lc %i /proc/self/ns/pid)
instance_of() { compgen -G "/sys/kernel/tracing/instances/trapline-$1-*-$space"; }
has_instance() { instance_of "$1" >/dev/null; }
has_no_instance() { ! has_instance "$1"; }
records() { grep -qs 1 "$(instance_of "$1")/tracing_on"; }
# An instance is on from its first moment, before it is set up: so it is on once the session has begun, too.
wait_for_recording() {  # wait_for_recording PID SESSION
  wait_for "session" test -e "$2/raw/start.json"
  wait_for "recording" records "$1"
}

expect_equal() {  # expect_equal WHAT EXPECTED ACTUAL
  [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"
}

expect_contains() {  # expect_contains FILE TEXT
  grep -qF -- "$2" "$1" || fail "$1 lacks '$2'; it is: $(head -c 2000 -- "$1")"
}

# Runs a command, keeps its output in $work/stdout and $work/stderr, its exit status in $status.
# shellcheck disable=SC2034 # status is for the tests
run() {
  printf '$ %s\n' "$*"
  status=0
  "$@" >"$work/stdout" 2>"$work/stderr" || status=$?
}

# The arguments of kvm-box, in $box_files, that bring the command and its libraries; a script in the box begins with
# $unpack. Debug information stays outside: the box unpacks all of it into its memory.
command_for_box() {
  local program library
  box_files=()
  for program in trapline trapline-worker; do
    strip -o "$work/$program" "$TRAPLINE_BINARY_DIR/merge/$program"
    box_files+=(--file "$work/$program")
  done
  while read -r library; do box_files+=(--file "$library:lib-$(basename "$library")"); done < <(
    ldd "$work/trapline" "$work/trapline-worker" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p' | sort -u)
  # shellcheck disable=SC2016,SC2034 # the box expands it; it is for the tests
  unpack='mkdir -p lib
for file in lib-*; do mv "$file" "lib/${file#lib-}"; done
export LD_LIBRARY_PATH=$PWD/lib'
}

# demo_guest_for_box: command_for_box, and the beginning of $work/inside, a script for it: ./vm runs the demo guest.
demo_guest_for_box() {
  command_for_box
  box_files+=(--file "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf"
    --file "$TRAPLINE_SOURCE_DIR/scripts/box/guests.sh")
  printf '#!/bin/sh\nset -e\n%s\n' "$unpack" >"$work/inside"
  cat >>"$work/inside" <<'END'
. ./guests.sh
cat >vm <<'VM'
#!/bin/sh
. ./guests.sh
demo_guest "$OUT/guest.txt"
VM
chmod +x vm
END
  chmod +x "$work/inside"
}

# The box that tests share (kvm_box_test, shared_box): each of them adds its scripts to a list and reads their results
# from a case of its own. In the box each script has a folder with links to all files, a mount namespace and $OUT.

# add_to_box LIST NAME SECONDS SCRIPT FILE...: a script of the list, the time that it may take, and files that it needs,
# as `kvm-box --file` has them.
add_to_box() {
  local list=$1 name=$2 seconds=$3 script=$4 file
  cp -- "$script" "$list/files/$name.script"
  chmod 755 "$list/files/$name.script"
  echo "$name $seconds" >>"$list/files/list"
  for file in "${@:5}"; do
    if [ "$file" != --file ]; then cp -f -- "${file%:*}" "$list/files/$(basename -- "${file##*:}")"; fi
  done
}

# from_box NAME: the folder of this script's results in $out. Fails if the script did.
from_box() {
  out=$TRAPLINE_BINARY_DIR/tests/system/box/$1
  [ -d "${out%/*}" ] || skip "there is no box: see kvm_box_test.shared_box"
  [ -e "$out/status" ] || fail "the box did not come to $1"
  cat -- "$out/output.txt"
  expect_equal "exit status of $1 in the box" 0 "$(cat "$out/status")"
}

# The process that takes a recorder's instance away when the recorder is killed.
guard_of() {  # guard_of PID
  local child children
  read -ra children <"/proc/$1/task/$1/children" || true  # it ends without a newline
  for child in "${children[@]}"; do
    if [ "$(cat "/proc/$child/comm")" = trapline-guard ]; then echo "$child"; fi
  done
}

# A guard is at work once it holds nothing but its pipe: it is forked before the instance is made, and may come to
# run much later.
has_guard() { [ "$(echo "/proc/$(guard_of "$1")/fd/"*)" = "/proc/$(guard_of "$1")/fd/0" ]; }

# As what kills a whole cgroup.
kill_with_guard() {  # kill_with_guard PID
  wait_for "guard of process $1" has_guard "$1"
  kill -KILL "$(guard_of "$1")" "$1"
}

wait_for() {  # wait_for WHAT COMMAND...: a machine that is busy or stands still for a while takes long
  local what=$1 until=$((SECONDS + 60))
  shift
  until "$@" 2>/dev/null; do
    [ "$SECONDS" -lt "$until" ] || fail "no $what within 60 s"
    sleep 0.05
  done
}
