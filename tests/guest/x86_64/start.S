// Entry of the demo guest: QEMU's -kernel enters a PVH image in 32-bit protected mode without
// paging (https://xenbits.xen.org/docs/unstable/misc/pvh.html). This maps the first 4 GiB one to
// one with 2 MiB pages (1 GiB pages fail under some KVMs), switches to long mode, calls kmain.

        .section .note.pvh, "a", @note
        .align 4
        .long 4, 4, 18                  // name size, value size, XEN_ELFNOTE_PHYS32_ENTRY
        .asciz "Xen"
        .long start32

        .section .boot, "ax", @progbits
        .code32
        .globl start32
        .type start32, @function
start32:
        cli
        cld
        movl $boot_stack_top, %esp
        // One top-level table, one table of pointers, four page directories of 512 entries.
        movl $(pointers + 3), top
        xorl %ecx, %ecx
1:      movl %ecx, %eax
        shll $12, %eax
        addl $(directories + 3), %eax
        movl %eax, pointers(, %ecx, 8)
        incl %ecx
        cmpl $4, %ecx
        jne 1b
        xorl %ecx, %ecx
2:      movl %ecx, %eax
        shll $21, %eax
        orl $0x83, %eax                 // present, writable, 2 MiB
        cmpl $1536, %ecx
        jb 3f
        orl $0x10, %eax                 // the last GiB holds devices: not cached
3:      movl %eax, directories(, %ecx, 8)
        incl %ecx
        cmpl $2048, %ecx
        jne 2b

        movl $top, %eax
        movl %eax, %cr3
        movl %cr4, %eax
        orl $0x20, %eax                 // PAE
        movl %eax, %cr4
        movl $0xc0000080, %ecx          // EFER: long mode
        rdmsr
        orl $0x100, %eax
        wrmsr
        movl %cr0, %eax
        orl $0x80000001, %eax           // paging, protection
        movl %eax, %cr0
        lgdt gdt_pointer
        ljmp $8, $start64
        .size start32, . - start32

        .code64
        .globl start64
        .type start64, @function
start64:
        movw $16, %ax
        movw %ax, %ds
        movw %ax, %es
        movw %ax, %ss
        xorl %ebp, %ebp
        movl %ebx, %edi                 // struct hvm_start_info, for those who want it
        call kmain
4:      hlt
        jmp 4b
        .size start64, . - start64

        .section .rodata
        .align 8
gdt:    .quad 0
        .quad 0x00af9a000000ffff        // code, 64 bit
        .quad 0x00cf92000000ffff        // data
gdt_pointer:
        .word gdt_pointer - gdt - 1
        .long gdt

        .bss
        .align 4096
top:    .skip 4096
pointers:
        .skip 4096
directories:
        .skip 4 * 4096
        .skip 16384
boot_stack_top:

        .section .note.GNU-stack, "", @progbits
