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
