#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# QEMU itself built with our generator and with its own. Takes long, so it runs only when asked for:
#
#   ctest --test-dir build/release -R qemu_build_test --verbose
#
#   TRAPLINE_QEMU_VERSION     10 (default) or 11
#   TRAPLINE_QEMU_SOURCE      a source tree of QEMU instead of Debian's package
#   TRAPLINE_QEMU_OUT         keep the builds in this folder, and go on with those that are there
#   TRAPLINE_QEMU_CONFIGURE   more options for QEMU's configure
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
here=$(dirname -- "$(readlink -f -- "$0")")
out=${TRAPLINE_QEMU_OUT:-$work/qemu}
version=${TRAPLINE_QEMU_VERSION:-10}
tracetool=$TRAPLINE_BINARY_DIR/backend_ftrace/trapline-tracetool

build() {  # build FOLDER OPTION...
  local folder=$1
  shift
  local -a options=(--version "$version" --targets x86_64-softmmu "$@")
  if [ -n "${TRAPLINE_QEMU_SOURCE:-}" ]; then options+=(--source "$TRAPLINE_QEMU_SOURCE"); fi
  # shellcheck disable=SC2086 # several options
  "$scripts/qemu-with-ftrace" "${options[@]}" "$folder" -- ${TRAPLINE_QEMU_CONFIGURE:-} >"$work/programs" ||
    fail "qemu-with-ftrace $* failed"
  expect_equal "the program's path" "$folder/bin/qemu-system-x86_64" "$(cat "$work/programs")"
}

both_generators_make_a_qemu_that_says_the_same() {
  if [ "$(id -u)" -ne 0 ] || [ ! -w /sys/kernel/tracing/trace_marker ]; then skip "needs root and tracefs"; fi
  build "$out/own" --own-tracetool
  build "$out/ours"
  grep -q trapline-tracetool "$out/ours/build/trace/trace-root.h" || fail "our generator was not used"
  if grep -rq trapline-tracetool "$out/own/build/trace"; then fail "QEMU's generator was not used"; fi
  "$here/same_qemu_events.sh" "$TRAPLINE_SOURCE_DIR" "$TRAPLINE_BINARY_DIR" \
    "$out/own/bin/qemu-system-x86_64" "$out/ours/bin/qemu-system-x86_64" \
    "$out/ours/share/qemu/trace-events-all" "$out/ours/share/qemu"
}

# That QEMU on a KVM host, as root: one run, its events by the ftrace backend in tracefs' top level and by the log backend
# through the marker of an instance, KVM's in both: the same counts; times differ by what
# recording each event twice takes (3 % in the box).
its_recording_on_a_kvm_host_has_the_figures_of_the_log() {
  [ -x "$out/ours/bin/qemu-system-x86_64" ] || build "$out/ours"
  demo_guest_for_box
  strip -o "$work/qemu" "$out/ours/bin/qemu-system-x86_64"
  box_files+=(--file "$work/qemu:qemu-system-x86_64")
  local file library
  for file in bios-256k kvmvapic linuxboot_dma pvh; do box_files+=(--file "$out/ours/share/qemu/$file.bin:share-$file.bin"); done
  while read -r library; do
    case " ${box_files[*]} " in *":lib-$(basename "$library") "*) ;; *) box_files+=(--file "$library:lib-$(basename "$library")") ;; esac
  done < <(ldd "$work/qemu" | sed -n 's/.*=> \(\/[^ ]*\) .*/\1/p')
  cat >>"$work/inside" <<'END'
mkdir share
for file in share-*; do mv "$file" "share/${file#share-}"; done
mkdir /sys/kernel/tracing/instances/log
for folder in /sys/kernel/tracing /sys/kernel/tracing/instances/log; do
  echo mono >$folder/trace_clock
  echo 30000 >$folder/buffer_size_kb
  for event in kvm sched/sched_switch syscalls/sys_enter_ioctl; do echo 1 >$folder/events/$event/enable; done
done
chmod +x qemu-system-x86_64
export PATH=$PWD:$PATH
demo_guest "$OUT/guest.txt" -L share -trace 'memory_region_ops_*' -trace kvm_run_exit \
  -D /sys/kernel/tracing/instances/log/trace_marker
demo_guest_finished "$OUT/guest.txt"
for folder in /sys/kernel/tracing /sys/kernel/tracing/instances/log; do echo 0 >$folder/tracing_on; done
unset LD_LIBRARY_PATH
trace-cmd extract -o "$OUT/ftrace.dat"
trace-cmd extract -B log -o "$OUT/log.dat"
END
  run "$scripts/kvm-box" --out "$work/out" --timeout 300 "${box_files[@]}" "$work/inside"
  [ "$status" -eq 0 ] || fail "the box: $status, $(tail -n 20 "$work/out/output.txt")"
  python3 - "$TRAPLINE_BINARY_DIR/merge/trapline" "$work/out" <<'END' || fail "the figures differ"
import json, subprocess, sys
trapline, out = sys.argv[1:]

def figures(name, by):
    """(count of each row, count of each of QEMU's events, time of all rows)"""
    done = subprocess.run([trapline, "report", f"{out}/{name}.dat", "--by", by, "--format", "json"],
                          capture_output=True, text=True, check=True)
    tables = json.loads(done.stdout)["tables"]
    return ({row["key"]: row["count"] for row in tables["groups"]["rows"]},
            {row["name"]: row["count"] for row in tables["qemu_events"]["rows"]}, tables["groups"]["total"]["total_ns"])

for by in ("device", "qemu-event", "reason"):
    ftrace, log = figures("ftrace", by), figures("log", by)
    print(f"by {by}: {ftrace}, of the log {log}")
    if ftrace[:2] != log[:2] or len(ftrace[0]) < 2 or len(ftrace[1]) < 2 or abs(ftrace[2] - log[2]) > 0.05 * log[2]:
        sys.exit(f"by {by}: not the same figures")
END
}

# The inputs of QEMU's own test of its generator, for every backend, as C and as Rust.
the_inputs_of_qemus_own_tests_compile() {
  local events=${TRAPLINE_QEMU_SOURCE:-$out/ours/source}/tests/tracetool/trace-events
  [ -f "$events" ] || skip "no $events: QEMU 10.0 has none; name a newer tree in TRAPLINE_QEMU_SOURCE"
  cp -- "$events" "$work/trace-events"
  cd "$work"
  local backend compiled=0
  local -a flags=(-std=gnu11 -Wall -Wextra -Wno-unused-parameter -DQEMU_VERSION_MAJOR=11
    -DQEMU_VERSION_MINOR=1 -I. "-I$TRAPLINE_SOURCE_DIR/tests/backend_ftrace/qemu/fake")
  for backend in nop ftrace log simple syslog dtrace ust; do
    for format in h:h c:c rs:rs d:dtrace ust-events-h:ust.h; do
      "$tracetool" --group=testsuite --backends=$backend "--format=${format%:*}" trace-events \
        "trace-testsuite.${format#*:}"
    done
    mv trace-testsuite.ust.h trace-ust-testsuite.h
    if [ $backend = dtrace ]; then
      dtrace -DSTAP_SDT_V2 -o trace-dtrace-testsuite.h -h -s trace-testsuite.dtrace
    fi
    cc "${flags[@]}" -Werror -c trace-testsuite.c -o trace.o || fail "$backend: C"
    rustc --edition=2021 -D warnings --crate-type lib --emit metadata -o trace.meta \
      trace-testsuite.rs || fail "$backend: Rust"
    compiled=$((compiled + 1))
  done
  echo "$compiled backends, C and Rust"
}

"$1"
