#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# The demo guests run to their end in plain emulation.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
qemu=$(fetched qemu10)/bin
guests=$TRAPLINE_BINARY_DIR/tests/guest
common=(-display none -nodefaults -no-reboot)
text=$'trapline demo guest\nhalf way\nleaving now'

x86_64_guest_runs_to_its_end() {
  run timeout 200 "$qemu/qemu-system-x86_64" -accel tcg "${common[@]}" -machine pc,hpet=on -m 64 \
    -kernel "$guests/demo-guest.elf" -device isa-debugcon,iobase=0x402,chardev=c \
    -chardev "file,id=c,path=$work/console" -device isa-debug-exit,iobase=0x501
  expect_equal "exit status" 1 "$status"
  # SeaBIOS writes to the same port before.
  expect_equal "console" "$text" "$(tail -n 3 "$work/console")"
}

arm64_guest_runs_to_its_end() {
  run timeout 200 "$qemu/qemu-system-aarch64" -accel tcg "${common[@]}" -M virt,gic-version=3 \
    -cpu cortex-a57 -m 128 -kernel "$guests/demo-guest-arm64.elf" -serial "file:$work/console"
  expect_equal "exit status" 0 "$status"
  expect_equal "console" "$text" "$(cat "$work/console")"
}

"$1"
