# shellcheck shell=bash
# Sourced by scripts/kvm-box for --vendor intel: the emulated machine is Bochs, which has VMX. Needs
# common.sh. Each run with one CPU gives the same bytes: docs/kvm-box.md, "An Intel host".

# One instruction is one tick of every clock in the machine, and a tick is a nanosecond: Bochs counts
# so (ips), and Linux is told so (tsc_early_khz), as the CPU model claims another frequency. Several CPUs
# take turns, and time in which all of them sleep is not skipped: there a tick is ten nanoseconds.
bochs_mhz() {  # bochs_mhz CPUS
  if [ "$1" -gt 1 ]; then echo 100; else echo 1000; fi
}
bochs_kernel_arguments() {  # bochs_kernel_arguments CPUS
  printf 'console=ttyS0 tsc=reliable tsc_early_khz=%s000 lpj=4000000 ' "$(bochs_mhz "$1")"
  printf 'no_timer_check nowatchdog cryptomgr.notests BOX_VENDOR=intel BOX_DISK=/dev/sdb'
}
readonly kBochsCylinder=516096  # 16 heads of 63 sectors: Bochs wants disks of whole ones

# MSRs that Bochs does not have: address, type, value at reset, reserved bits, bits that stay.
bochs_msrs() {
  # Linux turns rep movs off where MISC_ENABLE says that it is slow; here it is what is fast.
  printf '0x1a0 0 00000000 00000001 00000000 00000000 00000000 00000000\n'
  # MPERF, APERF and DEBUGCTL are read at every tick or exit: as zero, and without a line in the log.
  printf '%s 0 00000000 00000000 00000000 00000000 ffffffff ffffffff\n' 0xe7 0xe8 0x1d9
}

# Fills WORK with what bochs_start needs, the disk that it starts from excepted.
bochs_prepare() {  # bochs_prepare WORK BOCHS-FOLDER CONSOLE CPUS MEMORY-MIB [DIRECTIVE...]
  local work=$1 bochs=$2 console=$3 cpus=$4 memory=$5
  shift 5
  need_command as binutils
  need_command python3 python3
  as --32 -o "$work/boot.o" "$TRAPLINE_ROOT/scripts/box/boot-sector.s"
  ld -m elf_i386 -Ttext 0x7c00 --oformat binary -o "$work/boot" "$work/boot.o"
  bochs_msrs >"$work/msrs"
  printf 'c\n' >"$work/commands"  # for the debugger that Debian builds in: go
  # RDRAND's numbers depend on the time of day, here, and with them every address that Linux chooses.
  # No timer follows the clock outside (time0, rtc_sync, sync, realtime). Without fastboot the BIOS waits 3 s for a key.
  {
    cat <<END
config_interface: textconfig
display_library: sdl2
cpu: model=corei7_skylake_x, count=$cpus, quantum=16, ips=$(bochs_mhz "$cpus")000000, reset_on_triple_fault=0, ignore_bad_msrs=1, msrs="$work/msrs", exclude_features="rdrand,rdseed"
clock: sync=none, time0=1000000000, rtc_sync=0
memory: guest=$memory, host=$memory
romimage: file="$bochs/share/BIOS-bochs-latest", options=fastboot
vgaromimage: file="$bochs/share/VGABIOS-lgpl-latest"
vga: extension=none, update_freq=1, realtime=0
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=disk, path="$work/boot-disk", mode=flat
ata0-slave: type=disk, path="$work/disk", mode=flat
ata1: enabled=0
boot: disk
com1: enabled=1, mode=file, dev="$console"
sound: driver=dummy
speaker: enabled=0
log: "$work/bochs.log"
panic: action=fatal
error: action=report
info: action=report
debug: action=ignore
END
    if [ $# -gt 0 ]; then printf '%s\n' "$@"; fi
  } >"$work/bochsrc"
}

# The disk that the machine starts from: kernel and initial file system.
bochs_boot_disk() {  # bochs_boot_disk WORK VMLINUZ INITRD MEMORY-MIB COMMAND-LINE
  python3 "$TRAPLINE_ROOT/scripts/lib/boot_disk.py" "$1/boot" "$2" "$3" "$4" "$5" "$1/boot-disk"
}

# The disk for the results.
bochs_result_disk() {  # bochs_result_disk FILE MIB
  truncate -s $((($2 * 1048576 / kBochsCylinder + 1) * kBochsCylinder)) "$1"
}

# Becomes Bochs, which ends with status 1 however the machine was switched off.
bochs_start() {  # bochs_start WORK BOCHS-FOLDER
  # No window, and nothing that listens on a port.
  export SDL_VIDEODRIVER=dummy SDL_AUDIODRIVER=dummy
  exec "$2/bin/bochs" -q -f "$1/bochsrc" -rc "$1/commands"
}

# Bochs's last words tell whether the machine was switched off or something went wrong.
bochs_ended_well() {  # bochs_ended_well OUTPUT-OF-BOCHS
  grep -q 'soft power off' "$1"
}
