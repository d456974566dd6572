#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# shellcheck disable=SC2016 # the box expands the variables of its script
# The commands of docs/cookbook.md that need a host with KVM, typed as they stand there on the KVM host in the shared box. What … stands
# for is ours: a guest without a disk, whose firmware starts again and again.
set -euo pipefail
source "$(dirname "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
cookbook=$TRAPLINE_SOURCE_DIR/docs/cookbook.md

# command_with TEXT: the one line of the cookbook that begins with "# " and has this text, without the mark.
command_with() {
  grep -F -- "$1" "$cookbook" | sed -n 's/^# //p' >"$work/found"
  expect_equal "lines with '$1'" 1 "$(wc -l <"$work/found")"
  cat "$work/found"
}

write_inside() {
  printf '#!/bin/sh\nset -e\n%s\n' "$unpack" >"$work/inside"
  cat >>"$work/inside" <<'END'
cp trapline trapline-worker /bin/
# Copies, since a command that reads goes through no link to a folder that was not named.
mkdir libraries
cp -L lib/* libraries/
export LD_LIBRARY_PATH=$PWD/libraries
mkdir -p /etc
echo 'alice:x:1000:1000::/tmp:/bin/sh' >>/etc/passwd
chmod 666 /dev/kvm
mkdir "$OUT/6" "$OUT/7" "$OUT/7-libvirt"
# busybox has it not
pgrep() {
  for process in /proc/[0-9]*; do
    if tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q -- "$2"; then echo "${process#/proc/}"; fi
  done
}
type_it() {
  echo "# $1"
  eval "$1"
}
# A busy machine may need more than the three seconds to start QEMU: it gets twice as long, and so on up to 48 s.
type_until_hit() {
  seconds=3
  type_it "$1" >said 2>&1 || true
  until grep -Eq '^trapline: [0-9]+ hits? of ' said; do
    [ $((seconds *= 2)) -le 48 ] || { cat said; return 1; }
    echo "no hit: once more, for $seconds s"
    rm -rf slow
    type_it "$(echo "$1" | sed "s/--duration 3s/--duration ${seconds}s/")" >said 2>&1 || true
  done
  cat said
}
END
  local guest='-accel kvm -cpu host,-arch-capabilities -display none -nodefaults -debugcon null -global isa-debugcon.iobase=0x402 -boot reboot-timeout=100'
  local snapshot user pid explain
  snapshot=$(command_with "trapline record -o slow --snapshot-on")
  explain=$(command_with "trapline explain slow")
  user=$(command_with "trapline record -o run --user alice")
  pid=$(command_with 'trapline record -o run --pid $(pgrep')
  {
    printf 'cd "$OUT/6"\ntype_until_hit %q\ntype_it %q\n' "${snapshot/…/$guest}" "$explain"
    printf 'cd "$OUT/7"\ntype_it %q\n' "${user/-accel kvm …/$guest -no-reboot}"
    printf 'cd "$OUT/7-libvirt"\nqemu-system-x86_64 -name guest=db7 %s &\n' "$guest"
    # The process is there at once, its vCPU a little later.
    printf 'tries=300\nuntil ls -d /sys/kernel/debug/kvm/$!-*/vcpu0 2>/dev/null || [ $((tries -= 1)) = 0 ]; do usleep 100000; done\n'
    printf 'type_it %q\nkill $!\n' "$pid"
  } >>"$work/inside"
  chmod +x "$work/inside"
}

exits_of() {  # exits_of SESSION
  "$trapline" report "$1" --by reason --top 1 | sed -n 's/^\([0-9,]*\) exits\{0,1\} in .*/\1/p' | tr -d ,
}

for_box() {  # for_box LIST
  command_for_box
  write_inside
  add_to_box "$1" cookbook 400 "$work/inside" "${box_files[@]}"
}

the_commands_for_a_kvm_host_work_as_they_stand() {
  from_box cookbook
  # Question 6: the output has the form of the document's.
  grep -Eq "^trapline: [0-9]+ hits? of 'exit > 100us' in [0-9.]+ s, the longest .*\([a-z_A-Z]+, thread [0-9]+\)$" \
    "$out/output.txt" || fail "no hits are told"
  grep -Eq '^trapline: kept 0.005 s before and after each, ' "$out/output.txt" || fail "nothing was kept"
  grep -Eq '^(VM [0-9]+ )?vCPU 0 left the guest for ' "$out/output.txt" || fail "trapline explain slow explains nothing"
  # Question 7: exits, and their device by QEMU's own events, which alice's QEMU wrote.
  [ "$(exits_of "$out/7/run")" -gt 10 ] || fail "alice's QEMU has $(exits_of "$out/7/run") exits"
  "$trapline" report "$out/7/run" --by device >"$work/devices"
  expect_contains "$work/devices" isa-debugcon
  [ "$(exits_of "$out/7-libvirt/run")" -gt 10 ] || fail "guest db7 has $(exits_of "$out/7-libvirt/run") exits"
  the_seconds_of_question_1 "$out/7"
}

# A wall-clock time a second after the recording's start, in place of 14:03.
the_seconds_of_question_1() {  # the_seconds_of_question_1 FOLDER
  local start seconds report
  cd "$1"
  start=$(grep -Po '"start_real_ns": *\K[0-9]+' run/session.json)
  seconds=$(command_with "date -d '14:03'")
  seconds=${seconds/14:03/$(date -d "@$((start / 1000000000 + 1))" '+%F %T')}
  expect_equal "$seconds" 1 "$(bash -c "$seconds")"
  report=$(command_with "trapline stalls run --from")
  report=${report/+180s/+0s}
  run bash -c "PATH=$(dirname "$trapline"):\$PATH; ${report/+190s/+10s}"
  expect_equal "exit status of $report" 0 "$status"
  grep -Eq 'of 10.0 ms (and|or) more' "$work/stdout" || fail "no list: $(head -c 2000 "$work/stdout")"
}

"$@"
