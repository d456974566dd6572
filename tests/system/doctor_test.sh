#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# What trapline doctor says, and that the commands it names do what it says.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
cd "$work"

# The command below the line of a check, without sudo: the test is root.
command_of() {  # command_of CHECK
  sed -n "/^[a-z]*  *$1: /,/^[a-z]/s/^ *command:  *//p" "$work/stdout" | sed 's/^sudo //'
}

json_says_what_the_text_says() {
  local json=0 text=0
  "$trapline" doctor --format json -o doctor.json || json=$?
  "$trapline" doctor -v >text.txt || text=$?
  "$trapline" doctor >short.txt || true
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
def number(level):
    count = sum(one == level for one, _ in lines)
    return "nothing is" if count == 0 else "1 thing is" if count == 1 else f"{count} things are"
verdict = text.splitlines()[0]
assert re.match(r"This host: [^.]+\. ", verdict), verdict
assert f". {number('missing')} missing, {number('limited')} limited.".lower() in verdict.lower(), verdict
# Without -v: the same verdict, and each gap as a whole.
short = open("short.txt", encoding="utf-8").read()
assert short.splitlines()[0] == verdict[:-1] + " (-v shows all).", short
gaps = re.findall(r"^missing.*\n(?: .*\n)*", text, re.M)
assert short.split("\n", 1)[1] == "".join(gaps), short
END
  grep -q '"worst": "missing"' doctor.json && wanted=1 || wanted=0
  expect_equal "exit status" "$wanted" "$json"
}

# Without tracefs: in a mount namespace of the test's own.
the_mount_command_closes_the_gap() {
  needs_tracefs
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
    "$1" doctor -v >seen || true
    grep "^ok  *tracefs: mounted at /sys/kernel/tracing" seen' bash "$trapline"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "the command of the doctor did not mount tracefs"
}

the_buffer_command_closes_the_gap() {
  needs_tracefs
  local command
  run "$trapline" doctor -v --buffer-size 64K
  expect_contains "$work/stdout" "limited  buffer: 64 KiB"
  command=$(command_of buffer)
  [[ $command == "trapline record --buffer-size "* ]] || fail "the command is '$command'"
  run "$trapline" doctor -v --buffer-size "${command##* }"
  grep -q '^ok  *buffer: ' "$work/stdout" || fail "'$command' does not close the gap"
  PATH=$(dirname "$trapline"):$PATH run bash -c "$command --no-kvm -o run -- sleep 0.1"
  expect_equal "status of '$command'" 0 "$status"
}

# The command of a check that is limited or missing in FILE, for a shell of root.
# Used in the mount namespaces below, where the files that a command changes are copies.
export_command_in() {
  # shellcheck disable=SC2317 # the inner shells call it
  command_in() {  # command_in FILE CHECK
    sed -n "\\#^\\(limited\\|missing\\)  *$2: #,/^[a-z]/s/^ *command:  *//p" "$1" | sed 's/^sudo //;q'
  }
  export -f command_in
}

# As a user, then with the command as root: files that the user may not open are no gap any more.
sudo_closes_the_gap_of_a_user() {
  needs_tracefs
  chmod 777 "$work"
  local command
  run setpriv --reuid 65534 --regid 65534 --clear-groups "$trapline" doctor
  command=$(sed -n '/^missing  tracefs files: .*more of its files/,/^[a-z]/s/^ *command:  *//p' "$work/stdout")
  expect_equal "the command for a user" "sudo trapline doctor" "$command"
  PATH=$(dirname "$trapline"):$PATH run bash -c "${command#sudo }"
  grep -q '^missing  tracefs files: ' "$work/stdout" && fail "root may not open them either"
  return 0
}

# /dev/kvm that only its group may open, a user outside it, and /etc/group as a copy.
the_group_command_closes_the_gap() {
  needs_tracefs
  command -v usermod >/dev/null || skip "usermod is missing: apt-get install passwd"
  chmod 777 "$work"
  export_command_in
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    mkdir etc dev
    cp -a /etc/. etc/
    mount --bind etc /etc
    getent group kvm >/dev/null || groupadd --system kvm
    useradd --no-create-home --home-dir / tester
    # Any device that opens will do.
    cp -a /dev/null dev/kvm
    chown root:kvm dev/kvm
    chmod 660 dev/kvm
    [ -e /dev/kvm ] || { mkdir all; mount --rbind /dev all; mount -t tmpfs -o mode=755 tmpfs /dev
      for name in null zero urandom tty; do cp -a all/$name /dev; done; touch /dev/kvm; }
    mount --bind dev/kvm /dev/kvm
    as_tester() { setpriv --reuid tester --regid tester --init-groups "$1" doctor -v >"$2" || [ $? = 1 ]; }
    cd /tmp
    as_tester "$1" "$2/seen"
    grep "^limited  /dev/kvm: Permission denied" "$2/seen"
    command=$(command_in "$2/seen" /dev/kvm)
    echo "the command is: $command"
    USER=tester bash -c "$command"
    as_tester "$1" "$2/seen"
    grep "^ok  */dev/kvm: can be opened" "$2/seen"' bash "$trapline" "$work"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "usermod did not open /dev/kvm"
}

# The clock source: a file of /sys, a copy of which is bound over it.
the_commands_that_write_kernel_settings_close_the_gaps() {
  needs_tracefs
  export_command_in
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    sources=/sys/devices/system/clocksource/clocksource0
    mkdir clock
    printf "hpet\n" >clock/current_clocksource
    printf "tsc hpet\n" >clock/available_clocksource
    mount --bind clock "$sources"
    printf "vendor_id\t: X\nflags\t\t: fpu svm constant_tsc nonstop_tsc \n" >cpuinfo
    mount --bind cpuinfo /proc/cpuinfo
    "$1" doctor -v >seen || [ $? = 1 ]
    grep "^limited  TSC: " seen
    command=$(command_in seen TSC)
    echo "the command is: $command"
    bash -c "$command"
    "$1" doctor -v >seen || [ $? = 1 ]
    grep "^ok  *TSC: " seen' bash "$trapline"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "the doctor's command closed no gap"
}

# A virtual machine without PTP_KVM: a folder of our own bound over that of /sys. In modprobe's place is a program that does
# for this argument what it does, and nothing for others.
the_commands_of_a_guest_close_the_gaps() {
  needs_tracefs
  [ -d /sys/class/ptp ] || skip "this kernel has no /sys/class/ptp"
  export_command_in
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --pid --fork --mount-proc --propagation private bash -euc '
    mkdir -p ptp/ptp0 bin
    printf "flags\t\t: fpu hypervisor svm constant_tsc nonstop_tsc \n" >cpuinfo
    mount --bind cpuinfo /proc/cpuinfo
    mount --bind ptp /sys/class/ptp
    printf "#!/bin/sh\n[ \"\$*\" = ptp_kvm ] && echo KVM virtual PTP >%s/ptp/ptp0/clock_name\n" "$PWD" >bin/modprobe
    chmod +x bin/*
    "$1" doctor -v >seen || [ $? = 1 ]
    grep "^limited  PTP_KVM: " seen
    command=$(command_in seen PTP_KVM)
    echo "the command is: $command"
    PATH=$PWD/bin:$PATH bash -c "$command"
    "$1" doctor -v >seen || [ $? = 1 ]
    grep "^ok  *PTP_KVM: " seen' bash "$trapline"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "the doctor's command for guests closed no gap"
}

# A kernel without mono (trace_clock as a file of our own); the recording then has the clock that is named.
the_clock_command_records() {
  needs_tracefs
  export_command_in
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    printf "[local] global counter\n" >clocks
    mount --bind clocks /sys/kernel/tracing/trace_clock
    "$1" doctor >seen || [ $? = 1 ]
    grep "^missing  trace clock: no mono; this kernel has: local global counter" seen
    command_in seen "trace clock" >command' bash "$trapline"
  [ "$status" = 0 ] || fail "the doctor does not see that mono is missing"
  expect_equal "the command" "trapline record --clock global" "$(cat command)"
  PATH=$(dirname "$trapline"):$PATH run bash -c "$(cat command) --no-kvm -o run -- true"
  expect_equal "exit status" 0 "$status"
  "$trapline" info run | grep -qi 'clock.*global' || fail "the recording has another clock: $("$trapline" info run)"
}

# A folder where nothing can be written.
the_folder_command_records() {
  needs_tracefs
  export_command_in
  # shellcheck disable=SC2016 # the inner shell expands these
  run unshare --mount --propagation private bash -euc '
    mkdir full var
    mount -t tmpfs -o size=1M tmpfs full
    mount --bind var /var/tmp
    cd full
    "$1" doctor >../seen || [ $? = 1 ]
    grep "^missing  disk: " ../seen
    command=$(command_in ../seen disk)
    echo "the command is: $command"
    PATH=$(dirname "$1"):$PATH bash -c "$command --no-kvm -- true"
    [ -s /var/tmp/run.trapline/trace.dat ]' bash "$trapline"
  cat "$work/stdout"
  [ "$status" = 0 ] || fail "the other folder was of no use"
}

# Those that record.
every_command_that_records_runs() {
  needs_tracefs
  local line command ran=0
  run "$trapline" doctor -v
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

# Not run by ctest: Bochs needs a minute and a half of a CPU. docs/doctor.md has the command.
modprobe_kvm_intel_mends_the_intel_box() {
  mkdir -p stripped/merge
  strip -o stripped/merge/trapline "$trapline"
  TRAPLINE_BINARY_DIR=$work/stripped command_for_box
  {
    printf '#!/bin/sh\nset -e\n%s\n' "$unpack"
    cat <<'END'
mkdir -p "/lib/modules/$(uname -r)"
for module in /modules/*.ko; do cp "$module" "/lib/modules/$(uname -r)/${module#*-}"; done
depmod
rmmod kvm_intel kvm
./trapline doctor >"$OUT/before.txt" || [ $? = 1 ]
$(sed -n '/^missing  kvm events/,/^[a-z]/s/^ *command:  *//p' "$OUT/before.txt")
./trapline doctor -v >"$OUT/after.txt" || [ $? = 1 ]
END
  } >inside
  chmod +x inside
  run "$scripts/kvm-box" --vendor intel --timeout 900 --out out "${box_files[@]}" inside
  expect_equal "exit status of the box" 0 "$status"
  grep -A3 -E '^missing  (/dev/kvm|kvm events): ' out/before.txt
  expect_equal "gaps that modprobe kvm_intel closes" 2 "$(grep -c 'command: modprobe kvm_intel$' out/before.txt)"
  grep -E '^ok  *(/dev/kvm|kvm events): ' out/after.txt
  expect_equal "gaps that it closed" 2 "$(grep -c -E '^ok  *(/dev/kvm|kvm events): ' out/after.txt)"
}

"$1"
