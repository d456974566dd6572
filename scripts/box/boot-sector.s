# The first sector of the Intel box's disk (scripts/lib/boot_disk.py): reads Linux, its parameters and
# its initial file system to the addresses in the table, then starts Linux by the 32-bit boot protocol.
# The reads are plain ATA ones, a sector each: in an emulator that is faster than a BIOS or a loader.
        .code16
        .globl _start
_start: cli
        xorw %ax, %ax
        movw %ax, %ds
        inb $0x92, %al                  # all of memory: the A20 line
        orb $2, %al
        outb %al, $0x92
        lgdtl gdt_pointer
        movl %cr0, %eax
        orb $1, %al
        movl %eax, %cr0
        ljmpl $0x10, $protected

        .code32
protected:
        movw $0x18, %ax
        movw %ax, %ds
        movw %ax, %es
        movw %ax, %ss
        movl $0x7c00, %esp
        cld
        movl $table, %esi
next_range:
        movl (%esi), %ebx               # first sector on the disk
        movl 4(%esi), %ecx              # how many, a multiple of 128; 0 at the end
        movl 8(%esi), %edi              # where they go
        addl $12, %esi
        testl %ecx, %ecx
        jz start_linux
next_command:
        movw $0x1f2, %dx
        movb $128, %al
        outb %al, %dx
        movl %ebx, %eax
        incw %dx                        # 0x1f3, 0x1f4, 0x1f5: the first sector's number
        outb %al, %dx
        shrl $8, %eax
        incw %dx
        outb %al, %dx
        shrl $8, %eax
        incw %dx
        outb %al, %dx
        shrl $8, %eax
        orb $0xe0, %al                  # LBA, first drive
        incw %dx
        outb %al, %dx
        incw %dx
        movb $0x20, %al                 # READ SECTORS
        outb %al, %dx
        movl $128, %ebp
next_sector:
        movw $0x1f7, %dx
wait:   inb %dx, %al
        andb $0x88, %al
        cmpb $0x08, %al                 # not busy, data there
        jne wait
        movw $0x1f0, %dx
        pushl %ecx
        movl $128, %ecx
        rep insl
        popl %ecx
        decl %ebp
        jnz next_sector
        addl $128, %ebx
        subl $128, %ecx
        jnz next_command
        jmp next_range
start_linux:
        movl (%esi), %esi               # the parameters
        xorl %ebx, %ebx
        xorl %ebp, %ebp
        xorl %edi, %edi
        movl $0x100000, %eax
        jmp *%eax

        .balign 8
gdt:    .quad 0, 0
        .quad 0x00cf9b000000ffff        # 0x10: code
        .quad 0x00cf93000000ffff        # 0x18: data
gdt_pointer:
        .word . - gdt - 1
        .long gdt
        .org 510 - 52
table:  .fill 52, 1, 0                  # four ranges at most and the parameters' address
        .word 0xaa55
