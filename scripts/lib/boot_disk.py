"""Makes the disk that the Intel box starts from: a boot sector, Linux, its parameters, its files.

usage: boot_disk.py BOOT-SECTOR VMLINUZ INITRD MEMORY-MIB COMMAND-LINE DISK

Everything is on the disk as it is to be in memory, uncompressed, so that the emulated machine has
nothing to search or to unpack. Linux is started by its 32-bit boot protocol; the fields are those of
the kernel's Documentation/arch/x86/boot.rst.
"""
import struct
import sys
from pathlib import Path

SECTOR = 512
COMMAND = 128 * SECTOR  # the boot sector reads so much at a time
PAGE = 4096
MIB = 1 << 20
KERNEL_AT = 1 * MIB  # the protocol's place for the compressed kernel
PARAMETERS_AT = 255 * MIB  # out of the way of the kernel, which unpacks itself from 16 MiB upwards
COMMAND_LINE_AT = PARAMETERS_AT + PAGE
INITRD_AT = 256 * MIB
# The table at the end of the boot sector: (first sector, sectors, address)..., zeros, parameters.
TABLE_AT = 510 - 52
RAM, RESERVED, ACPI = 1, 2, 3


def parameters(vmlinuz: bytes, initrd_size: int, memory: int) -> bytes:
    if vmlinuz[0x202:0x206] != b"HdrS":
        sys.exit("boot_disk.py: the kernel is no bzImage: take a vmlinuz of a Debian package")
    page = bytearray(PAGE)
    end = 0x202 + vmlinuz[0x201]
    page[0x1F1:end] = vmlinuz[0x1F1:end]
    page[0x210] = 0xFF  # an unregistered boot loader
    page[0x211] |= 1  # the kernel is at 1 MiB
    struct.pack_into("<II", page, 0x218, INITRD_AT, initrd_size)
    struct.pack_into("<I", page, 0x228, COMMAND_LINE_AT)
    # The BIOS keeps its tables below the end of memory.
    ranges = [
        (0, 0x9FC00, RAM),
        (0x9FC00, 0x60400, RESERVED),
        (MIB, memory - 2 * MIB, RAM),
        (memory - MIB, MIB, ACPI),
    ]
    page[0x1E8] = len(ranges)
    for number, entry in enumerate(ranges):
        struct.pack_into("<QQI", page, 0x2D0 + 20 * number, *entry)
    return bytes(page)


def padded(data: bytes, size: int) -> bytes:
    return data + bytes(-len(data) % size)


def main() -> None:
    boot_name, vmlinuz_name, initrd_name, memory, command_line, disk_name = sys.argv[1:]
    boot = bytearray(Path(boot_name).read_bytes())
    vmlinuz = Path(vmlinuz_name).read_bytes()
    initrd = Path(initrd_name).read_bytes()
    setup_sectors = vmlinuz[0x1F1] or 4
    page = parameters(vmlinuz, len(initrd), int(memory) * MIB)
    text = command_line.encode() + b"\0"
    if len(text) > PAGE:
        sys.exit("boot_disk.py: the command line is longer than a page")
    if INITRD_AT + len(initrd) > (int(memory) - 64) * MIB:
        sys.exit(f"boot_disk.py: {memory} MiB are too few for these files: give the box more --memory")
    table, content, sector = [], [], 1
    for data, address in (
        (vmlinuz[(setup_sectors + 1) * SECTOR :], KERNEL_AT),
        (page + text, PARAMETERS_AT),
        (initrd, INITRD_AT),
    ):
        data = padded(data, COMMAND)
        table += [sector, len(data) // SECTOR, address]
        content.append(data)
        sector += len(data) // SECTOR
    struct.pack_into(f"<{len(table)}I", boot, TABLE_AT, *table)
    struct.pack_into("<I", boot, TABLE_AT + 12 * 4, PARAMETERS_AT)
    cylinder = 16 * 63 * SECTOR  # the emulator wants whole ones
    Path(disk_name).write_bytes(padded(bytes(boot) + b"".join(content), cylinder))


main()
