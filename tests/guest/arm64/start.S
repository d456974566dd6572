// Entry of the arm64 demo guest: QEMU's -M virt starts the image's first instruction at EL1 with the
// MMU off. The linker script puts start first; it sets a stack and the vectors and calls kmain.
        .section .text.start, "ax"
        .globl start
        .type start, %function
start:
        adrp x0, stack_top
        add x0, x0, :lo12:stack_top
        mov sp, x0
        adrp x0, vectors
        add x0, x0, :lo12:vectors
        msr vbar_el1, x0
        isb
        mov x29, xzr
        mov x30, xzr
        bl kmain
1:      wfi
        b 1b
        .size start, . - start

        .text
        .globl irq_entry
        .type irq_entry, %function
irq_entry:
        sub sp, sp, #192
        stp x0, x1, [sp]
        stp x2, x3, [sp, #16]
        stp x4, x5, [sp, #32]
        stp x6, x7, [sp, #48]
        stp x8, x9, [sp, #64]
        stp x10, x11, [sp, #80]
        stp x12, x13, [sp, #96]
        stp x14, x15, [sp, #112]
        stp x16, x17, [sp, #128]
        stp x18, x29, [sp, #144]
        str x30, [sp, #160]
        bl irq_handler
        ldp x0, x1, [sp]
        ldp x2, x3, [sp, #16]
        ldp x4, x5, [sp, #32]
        ldp x6, x7, [sp, #48]
        ldp x8, x9, [sp, #64]
        ldp x10, x11, [sp, #80]
        ldp x12, x13, [sp, #96]
        ldp x14, x15, [sp, #112]
        ldp x16, x17, [sp, #128]
        ldp x18, x29, [sp, #144]
        ldr x30, [sp, #160]
        add sp, sp, #192
        eret
        .size irq_entry, . - irq_entry

// 16 entries of 128 bytes; the guest runs at EL1 with its own stack pointer: entries 4 to 7.
        .balign 2048
        .globl vectors
        .type vectors, %function
vectors:
        .rept 5
        .balign 128
        b bad_exception
        .endr
        .balign 128
        b irq_entry
        .rept 10
        .balign 128
        b bad_exception
        .endr
        .balign 128
        .size vectors, . - vectors

        .bss
        .balign 16
        .skip 16384
stack_top:
