#!/usr/bin/env bash
# shellcheck source-path=SCRIPTDIR source=lib.sh
# report --host-cpu beside what is planted for VMs on a KVM host in a box, and beside the kernel's own counts.
set -euo pipefail
source "$(dirname -- "$0")/lib.sh"
trapline=$TRAPLINE_BINARY_DIR/merge/trapline
tests=$TRAPLINE_SOURCE_DIR/tests

# recorded ARCH KVM-BOX-ARGUMENT...: $work/out/bill.dat
recorded() {
  local arch=$1 thing
  shift
  for thing in qemu10 "kernel-$arch" "box-$arch"; do fetched "$thing" >/dev/null; done
  run "$scripts/kvm-box" --arch "$arch" --out "$work/out" --still 120 --timeout 3600 --file "$scripts/box/guests.sh" \
    --file "$tests/guest/linux/bill-init" "$@" "$tests/data/record/bill"
  expect_equal "exit status of the box" 0 "$status"
}

each_thread_has_the_time_and_the_wakers_that_are_planted() {
  local module more=()
  for module in failover net_failover virtio_net vhost_iotlb vhost tap tun vhost_net; do
    more+=(--file "$(fetched guest-amd64)/$module.ko")
  done
  recorded amd64 "${more[@]}"
  python3 "$tests/merge/planted_bill.py" "$trapline" "$work/out/bill.dat" || fail "see above"
}

each_planted_fault_has_its_cause() { planted_faults pages-huge pages-file pages-logged pages-ballooned; }

# Beside the server's own log, /proc/PID/smaps and pagemap, and memory.events.
pages_that_came_or_went_have_their_cause() {
  planted_faults pages-touched pages-swapped-in pages-answered pages-collapsed pages-khugepaged pages-reclaimed
}

# With what `record --host-cpu` adds: the work items of kernel workers, and interrupts on the idle CPU.
ten_quiet_guests_have_no_fault_that_a_change_caused() { planted_faults pages-quiet-{1..10}; }

# The third disk: a swap area, of which only the header is written.
make_swap_area() {
  truncate -s 64M "$work/swap"
  {
    printf '\1\0\0\0\377\77\0\0' | dd of="$work/swap" bs=1 seek=1024 conv=notrunc
    printf 'SWAPSPACE2' | dd of="$work/swap" bs=1 seek=4086 conv=notrunc
  } 2>/dev/null
  swap_disk=(--qemu-arg -drive --qemu-arg "file=$work/swap,format=raw,cache=unsafe,if=virtio")
}

planted_faults() {
  local thing names=("$@")
  make_swap_area
  for thing in qemu10 kernel-amd64 box-amd64; do fetched "$thing" >/dev/null; done
  command_for_box
  # The second disk holds a guest's memory.
  run "$scripts/kvm-box" --out "$work/out" --still 120 --timeout 3600 --env "RECORDINGS=${names[*]}" "${box_files[@]}" \
    --file "$TRAPLINE_BINARY_DIR/tests/guest/planted-guest.elf" --file "$TRAPLINE_BINARY_DIR/tests/guest/plant" \
    --file "$TRAPLINE_BINARY_DIR/tests/guest/plant-memory.so" --file "$TRAPLINE_BINARY_DIR/tests/guest/plant-uffd.so" \
    --file "$scripts/box/guests.sh" --file "$tests/guest/linux/bill-init" --file "$(fetched guest-amd64)/virtio_balloon.ko" \
    --qemu-arg -drive --qemu-arg driver=null-co,size=128M,read-zeroes=on,if=virtio "${swap_disk[@]}" "$tests/data/record/pages"
  expect_equal "exit status of the box" 0 "$status"
  python3 "$tests/merge/planted_faults.py" "$trapline" "$work/out" "${names[@]}" || fail "see above"
}

each_fault_planted_on_arm64_has_its_cause() {
  planted_faults_arm64 kernel-arm64 arm64-touched arm64-copied arm64-served arm64-file arm64-logged arm64-swapped
}

# Linux 6.1 has no dirty ring on arm64.
so_has_each_in_a_dirty_ring_of_arm64() { planted_faults_arm64 kernel-arm64-trixie arm64-ring; }

planted_faults_arm64() {  # planted_faults_arm64 KERNEL NAME...
  local thing kernel=$1 names=("${@:2}")
  make_swap_area
  for thing in qemu10 "$kernel" box-arm64; do fetched "$thing" >/dev/null; done
  run "$scripts/kvm-box" --arch arm64 --kernel "$kernel" --out "$work/out" --still 120 --timeout 3600 \
    --env "RECORDINGS=${names[*]}" --file "$TRAPLINE_BINARY_DIR/tests/guest/planted-guest-arm64.elf" \
    --file "$TRAPLINE_BINARY_DIR/tests/guest/plant-pages-arm64.so" \
    --qemu-arg -drive --qemu-arg driver=null-co,size=128M,read-zeroes=on,if=virtio "${swap_disk[@]}" "$tests/data/record/pages"
  expect_equal "exit status of the box" 0 "$status"
  python3 "$tests/merge/planted_faults.py" "$trapline" "$work/out" "${names[@]}" || fail "see above"
}

so_it_is_on_arm64() {
  recorded arm64
  python3 "$tests/merge/planted_bill.py" "$trapline" "$work/out/bill.dat" vhost || fail "see above"
}

"$@"
