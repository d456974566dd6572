#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# docs/examples/vmm: a VMM of one's own, built as its document says and recorded on the KVM host in the shared box.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"

# Static, since the box has a C library of its own.
build_example() {
  cmake --install "$TRAPLINE_BINARY_DIR/backend_ftrace" --prefix "$work/prefix" >"$work/stdout" 2>&1 ||
    fail "install: $(tail -n 5 "$work/stdout")"
  cmake -S "$TRAPLINE_SOURCE_DIR/docs/examples/vmm" -B "$work/vmm" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_C_FLAGS="-Wall -Wextra -Wpedantic -Werror" \
    -DCMAKE_EXE_LINKER_FLAGS=-static >"$work/stdout" 2>&1 || fail "configure: $(tail -n 20 "$work/stdout")"
  cmake --build "$work/vmm" >"$work/stdout" 2>&1 || fail "build: $(tail -n 20 "$work/stdout")"
}

refuses_what_it_cannot_run() {
  build_example
  run "$work/vmm/vmm"
  expect_equal "exit status without an image" 2 "$status"
  [ -c /dev/kvm ] && return
  run "$work/vmm/vmm" "$work/absent"
  expect_equal "exit status without /dev/kvm" 125 "$status"
  expect_contains "$work/stderr" "/dev/kvm"
}

# The exits of a device, in the report's CSV.
exits_of() {
  awk -F, -v device="\"$1\"" '$1 == device { print $2 }' "$work/devices.csv"
}

for_box() {  # for_box LIST
  build_example
  printf '#!/bin/sh\nEVENTS="-e kvm" exec ./vmm-record\n' >"$work/script"
  add_to_box "$1" vmm 400 "$work/script" "$work/vmm/vmm" "$TRAPLINE_SOURCE_DIR/tests/data/record/vmm:vmm-record" \
    "$TRAPLINE_BINARY_DIR/tests/guest/demo-guest.elf"
}

its_devices_are_in_the_report_as_its_guest_used_them() {
  from_box vmm
  expect_contains "$out/guest.txt" "half way"
  "$TRAPLINE_BINARY_DIR/merge/trapline" report "$out/vmm.dat" --by device --format csv \
    >"$work/devices.csv" || fail "the report"
  # As tests/guest/x86_64/demo.c counts its calls; each access is one exit here, none is coalesced.
  expect_equal "exits to debugcon" 41 "$(exits_of debugcon)"
  expect_equal "exits to rtc" 800 "$(exits_of rtc)"
  expect_equal "exits to hpet" 401 "$(exits_of hpet)"
  expect_equal "exits to port 0x80" 32 "$(exits_of unassigned)"
  "$TRAPLINE_BINARY_DIR/merge/trapline" report "$out/vmm.dat" >"$work/report"
  expect_contains "$work/report" "vCPU 0"
}

"$@"
