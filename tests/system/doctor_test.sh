#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# What trapline doctor says, and that the commands it names do what it says.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
cd "$work"

need_tracing() {
  [ "$(id -u)" = 0 ] || skip "needs root"
  [ -w /sys/kernel/tracing/trace_marker ] || skip "needs tracefs at /sys/kernel/tracing"
}

# The command below the line of a check, without sudo: the test is root.
command_of() {  # command_of CHECK
  sed -n "/^[a-z]*  *$1: /,/^[a-z]/s/^ *command:  *//p" "$work/stdout" | sed 's/^sudo //'
}

json_says_what_the_text_says() {
  local json=0 text=0
  "$trapline" doctor --json -o doctor.json || json=$?
  "$trapline" doctor >text.txt || text=$?
  expect_equal "exit status of --json" "$text" "$json"
  python3 - <<'END'
import json, re, sys
found = json.load(open("doctor.json", encoding="utf-8"))
text = open("text.txt", encoding="utf-8").read()
lines = re.findall(r"^(ok|limited|missing) +([^:]+): ", text, re.M)
assert found["version"] == 1, found["version"]
assert lines == [(one["level"], one["check"]) for one in found["findings"]], (lines, found)
order = ["ok", "limited", "missing"]
assert found["worst"] == max((level for level, _ in lines), key=order.index), found["worst"]
for one in found["findings"]:
    assert set(one) == {"check", "level", "found", "cost", "command", "note"}, one
    assert all(isinstance(value, str) for value in one.values()), one
    assert one["level"] == "ok" or one["cost"] and (one["command"] or one["note"]), one
count = text.splitlines()[-1]
assert count == ", ".join(f"{sum(level == name for level, _ in lines)} {name}" for name in order), count
END
  grep -q '"worst": "missing"' doctor.json && wanted=1 || wanted=0
  expect_equal "exit status" "$wanted" "$json"
}

# Without tracefs: in a mount namespace of the test's own.
the_mount_command_closes_the_gap() {
  need_tracing
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    umount --recursive /sys/kernel/tracing
    if mountpoint -q /sys/kernel/debug; then umount --recursive /sys/kernel/debug; fi
    status=0
    "$1" doctor >seen || status=$?
    [ $status = 1 ]
    command=$(sed -n "/^missing  tracefs: not mounted/,/^[a-z]/s/^ *command:  *//p" seen)
    echo "the command is: $command"
    ! "$1" record -o run -- true 2>said
    grep -q "^missing  tracefs: not mounted" said
    grep -q "command: *$command\$" said
    eval "$command"
    "$1" doctor >seen || true
    grep "^ok  *tracefs: mounted at /sys/kernel/tracing" seen' bash "$trapline"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "the command of the doctor did not mount tracefs"
}

the_buffer_command_closes_the_gap() {
  need_tracing
  local command
  run "$trapline" doctor --buffer-size 64
  expect_contains "$work/stdout" "limited  buffer: 64 KiB"
  command=$(command_of buffer)
  [[ $command == "trapline record --buffer-size "* ]] || fail "the command is '$command'"
  run "$trapline" doctor --buffer-size "${command##* }"
  grep -q '^ok  *buffer: ' "$work/stdout" || fail "'$command' does not close the gap"
  PATH=$(dirname "$trapline"):$PATH run bash -c "$command --no-kvm -o run -- sleep 0.1"
  expect_equal "status of '$command'" 0 "$status"
}

# Those that record. Modules, groups, services and sysctls of this machine stay as they are.
every_command_that_records_runs() {
  need_tracing
  local line command ran=0
  run "$trapline" doctor
  sed -n 's/^ *command:  *//p' "$work/stdout" >commands
  printf '%s\n' "trapline record --snapshot-on 'exit > 500us'" >>commands
  while read -r line; do
    command=${line#sudo }
    case $command in
      'trapline record'*) command+=" --duration 0.2s -o run-$((++ran))" ;;
      *) continue ;;
    esac
    PATH=$(dirname "$trapline"):$PATH run bash -c "$command"
    expect_equal "status of '$command'" 0 "$status"
  done <commands
  [ "$ran" -ge 1 ] || fail "no command was run"
}

"$1"
