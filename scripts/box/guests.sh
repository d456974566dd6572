# shellcheck shell=dash
# Sourced inside the box: how the two guests are started, as one would on a KVM host. Their QEMU
# writes its trace events into the kernel's ring buffer: the log goes to trace_marker.

# shellcheck disable=SC2034 # for those who source this
MARKER=/sys/kernel/tracing/trace_marker

# A guest that hangs (see docs/kvm-box.md, limits) must not keep the box: it gets this many seconds.
GUEST_TIMEOUT=${GUEST_TIMEOUT:-120}

# demo_guest CONSOLE-FILE [QEMU-ARGUMENT...]
demo_guest() {
  guest_console=$1
  shift
  case $(uname -m) in
    x86_64) demo_guest_x86_64 "$@" ;;
    aarch64) demo_guest_arm64 "$@" ;;
  esac
}

demo_guest_x86_64() {
  set -- qemu-system-x86_64 -accel kvm -cpu host -m 64 -display none -nodefaults -no-reboot \
    -machine pc,hpet=on -kernel demo-guest.elf \
    -device "isa-debugcon,iobase=0x402,chardev=console${DEMO_CONSOLE:-}" -chardev "file,id=console,path=$guest_console" \
    -device isa-debug-exit,iobase=0x501 "$@"
  echo "$*" >"$guest_console.command"
  # The debug-exit device ends QEMU with (0 << 1) | 1.
  timeout "$GUEST_TIMEOUT" "$@" || [ $? -eq 1 ]
}

demo_guest_arm64() {
  set -- qemu-system-aarch64 -M virt,gic-version=host -accel kvm -cpu host -m 128 -display none \
    -nodefaults -no-reboot -kernel demo-guest-arm64.elf -serial "file:$guest_console" "$@"
  echo "$*" >"$guest_console.command"
  timeout "$GUEST_TIMEOUT" "$@"
}

# The guest's console tells how it went: trace-cmd returns 0 whatever the guest did.
demo_guest_finished() {
  grep -q 'leaving now' "$1" && return 0
  echo "the demo guest did not reach its end; its console:"
  cat "$1"
  return 1
}

# linux_guest CONSOLE-FILE CPUS [QEMU-ARGUMENT...]
linux_guest() {
  guest_console=$1 cpus=$2
  shift 2
  [ -e /tmp/linux.img ] || linux_guest_image
  dd if=/dev/zero of=/tmp/disk bs=1M count=8 2>/dev/null
  # Without HPET and watchdogs: on a busy machine outside, their interrupts alone can fill the guest.
  set -- qemu-system-x86_64 -accel kvm -cpu host -machine pc,hpet=off -smp "$cpus" -m 256 \
    -display none -nodefaults -no-reboot -kernel /vmlinuz -initrd /tmp/linux.img \
    -append "console=ttyS0 quiet panic=-1 mitigations=off nokaslr nowatchdog tsc=reliable" -serial "file:$guest_console" \
    -drive file=/tmp/disk,if=virtio,format=raw,aio=threads "$@"
  echo "$*" >"$guest_console.command"
  timeout "$GUEST_TIMEOUT" "$@"
}

linux_guest_finished() {
  grep -q 'trapline linux guest: done' "$1" && return 0
  echo "the Linux guest did not reach its end; its console:"
  cat "$1"
  return 1
}

# The guest runs the box's own kernel, modules and busybox.
linux_guest_image() {
  rm -rf /tmp/stage
  mkdir -p /tmp/stage/bin /tmp/stage/proc /tmp/stage/dev
  cp /bin/busybox /tmp/stage/bin/
  cp -r /modules /tmp/stage/
  cp linux-init /tmp/stage/init
  chmod 755 /tmp/stage/init
  (cd /tmp/stage && find . | cpio -o -H newc 2>/dev/null) >/tmp/linux.img
}
