// Entry at EL1 (QEMU virt, -kernel), MMU off. Vectors, user mode, the second processor by PSCI.
        .text
        .globl _start
        .type _start, @function
_start:
        adrp x0, stack_top
        add x0, x0, :lo12:stack_top
        mov sp, x0
        adrp x0, vectors
        add x0, x0, :lo12:vectors
        msr vbar_el1, x0
        bl machine_set_up
        bl guest_main
1:      wfi
        b 1b
        .size _start, . - _start

        .macro save
        sub sp, sp, #192
        stp x0, x1, [sp, #0]
        stp x2, x3, [sp, #16]
        stp x4, x5, [sp, #32]
        stp x6, x7, [sp, #48]
        stp x8, x9, [sp, #64]
        stp x10, x11, [sp, #80]
        stp x12, x13, [sp, #96]
        stp x14, x15, [sp, #112]
        stp x16, x17, [sp, #128]
        stp x18, x29, [sp, #144]
        mrs x0, elr_el1
        mrs x1, spsr_el1
        stp x30, x0, [sp, #160]
        str x1, [sp, #176]
        .endm
        .macro restore
        ldp x30, x0, [sp, #160]
        ldr x1, [sp, #176]
        msr elr_el1, x0
        msr spsr_el1, x1
        ldp x18, x29, [sp, #144]
        ldp x16, x17, [sp, #128]
        ldp x14, x15, [sp, #112]
        ldp x12, x13, [sp, #96]
        ldp x10, x11, [sp, #80]
        ldp x8, x9, [sp, #64]
        ldp x6, x7, [sp, #48]
        ldp x4, x5, [sp, #32]
        ldp x2, x3, [sp, #16]
        ldp x0, x1, [sp, #0]
        add sp, sp, #192
        eret
        .endm

        .balign 2048
        .globl vectors
        .type vectors, @function
vectors:
        .rept 4
        b unexpected
        .balign 128
        .endr
        b exception_entry       // EL1 with its own stack: synchronous
        .balign 128
        b timer_entry           // IRQ
        .balign 128
        b unexpected
        .balign 128
        b unexpected
        .balign 128
        b system_call_entry     // EL0: synchronous
        .balign 128
        b timer_entry
        .balign 128
        .rept 6
        b unexpected
        .balign 128
        .endr
        .size vectors, . - vectors

        .globl unexpected
        .type unexpected, @function
unexpected:
        b unexpected
        .size unexpected, . - unexpected

        .globl timer_entry
        .type timer_entry, @function
timer_entry:
        save
        bl machine_acknowledge
        bl handle_timer
        bl machine_end_of_interrupt
        restore
        .size timer_entry, . - timer_entry

        .globl exception_entry
        .type exception_entry, @function
exception_entry:
        save
        bl handle_exception
        ldr x0, [sp, #168]
        add x0, x0, #4                  // over the udf
        str x0, [sp, #168]
        restore
        .size exception_entry, . - exception_entry

// x8: 1 a call, 2 leave user mode
        .globl system_call_entry
        .type system_call_entry, @function
system_call_entry:
        cmp x8, #2
        b.eq 1f
        save
        mov x0, x8
        bl handle_system_call
        str x0, [sp, #0]
        restore
1:      adrp x9, kernel_sp
        ldr x9, [x9, :lo12:kernel_sp]
        mov sp, x9
        ldp x19, x20, [sp, #0]
        ldp x21, x22, [sp, #16]
        ldp x23, x24, [sp, #32]
        ldp x25, x26, [sp, #48]
        ldp x27, x28, [sp, #64]
        ldp x29, x30, [sp, #80]
        add sp, sp, #96
        ret
        .size system_call_entry, . - system_call_entry

        .globl machine_user
        .type machine_user, @function
machine_user:
        sub sp, sp, #96
        stp x19, x20, [sp, #0]
        stp x21, x22, [sp, #16]
        stp x23, x24, [sp, #32]
        stp x25, x26, [sp, #48]
        stp x27, x28, [sp, #64]
        stp x29, x30, [sp, #80]
        mov x9, sp
        adrp x10, kernel_sp
        str x9, [x10, :lo12:kernel_sp]
        adrp x9, user_stack_top
        add x9, x9, :lo12:user_stack_top
        msr sp_el0, x9
        adrp x9, user_start
        add x9, x9, :lo12:user_start
        msr elr_el1, x9
        mov x9, #0x3c0
        msr spsr_el1, x9
        eret
        .size machine_user, . - machine_user

        .globl user_start
        .type user_start, @function
user_start:
        blr x0
        mov x8, #2
        svc #0
        .size user_start, . - user_start

        .globl machine_system_call
        .type machine_system_call, @function
machine_system_call:
        mov x8, x0
        svc #0
        ret
        .size machine_system_call, . - machine_system_call

        .globl machine_exception
        .type machine_exception, @function
machine_exception:
        udf #0
        ret
        .size machine_exception, . - machine_exception

        .globl machine_scratch
        .type machine_scratch, @function
machine_scratch:
        b machine_scratch.cold
.Lscratch:
        stp x29, x30, [sp, #-16]!
        add x29, x0, #17
        bl leaf
        add x0, x0, x29
        mov x29, #1
        add x0, x0, x29
        ldp x29, x30, [sp], #16
        ret
        .size machine_scratch, . - machine_scratch

        .type machine_scratch.cold, @function
machine_scratch.cold:
        b .Lscratch
        .size machine_scratch.cold, . - machine_scratch.cold

        .globl machine_setjmp
        .type machine_setjmp, @function
machine_setjmp:
        stp x19, x20, [x0, #0]
        stp x21, x22, [x0, #16]
        stp x23, x24, [x0, #32]
        stp x25, x26, [x0, #48]
        stp x27, x28, [x0, #64]
        mov x2, sp
        stp x29, x30, [x0, #80]
        str x2, [x0, #96]
        mov x0, #0
        ret
        .size machine_setjmp, . - machine_setjmp

        .globl machine_longjmp
        .type machine_longjmp, @function
machine_longjmp:
        ldp x19, x20, [x0, #0]
        ldp x21, x22, [x0, #16]
        ldp x23, x24, [x0, #32]
        ldp x25, x26, [x0, #48]
        ldp x27, x28, [x0, #64]
        ldp x29, x30, [x0, #80]
        ldr x2, [x0, #96]
        mov sp, x2
        mov x0, x1
        ret
        .size machine_longjmp, . - machine_longjmp

        .globl second_start
        .type second_start, @function
second_start:
        adrp x0, second_stack_top
        add x0, x0, :lo12:second_stack_top
        mov sp, x0
        bl second_main
1:      wfi
        b 1b
        .size second_start, . - second_start

        .globl machine_psci
        .type machine_psci, @function
machine_psci:
        hvc #0
        ret
        .size machine_psci, . - machine_psci

        .bss
        .balign 4096
kernel_sp: .skip 8
        .balign 4096
        .skip 524288
stack_top:
        .skip 16384
user_stack_top:
        .skip 16384
second_stack_top:
