// Entry in machine mode on every hart (QEMU virt, -bios none).
        .section .text.start, "ax"
        .globl _start
        .type _start, @function
_start:
        csrr t0, mhartid
        bnez t0, second_start
        la sp, stack_top
        la t0, trap_entry
        csrw mtvec, t0
        li t0, -1
        csrw pmpaddr0, t0
        li t0, 0x1f
        csrw pmpcfg0, t0
        call guest_main
1:      wfi
        j 1b
        .size _start, . - _start

        .macro each operation
        \operation ra, 0(sp)
        \operation t0, 8(sp)
        \operation t1, 16(sp)
        \operation t2, 24(sp)
        \operation a0, 32(sp)
        \operation a1, 40(sp)
        \operation a2, 48(sp)
        \operation a3, 56(sp)
        \operation a4, 64(sp)
        \operation a5, 72(sp)
        \operation a6, 80(sp)
        \operation a7, 88(sp)
        \operation t3, 96(sp)
        \operation t4, 104(sp)
        \operation t5, 112(sp)
        \operation t6, 120(sp)
        .endm

// mscratch: the machine stack while in user mode, else 0
        .balign 4
        .globl trap_entry
        .type trap_entry, @function
trap_entry:
        csrrw sp, mscratch, sp
        bnez sp, 1f
        csrrw sp, mscratch, sp
        addi sp, sp, -144
        each sd
        addi t0, sp, 144
        sd t0, 128(sp)
        j 2f
1:      addi sp, sp, -144
        each sd
        csrrw t0, mscratch, zero
        sd t0, 128(sp)
2:      csrr t0, mcause
        bltz t0, timer_entry
        li t1, 8
        beq t0, t1, system_call_entry
        j exception_entry
        .size trap_entry, . - trap_entry

        .globl trap_return
        .type trap_return, @function
trap_return:
        csrr t0, mstatus
        srli t0, t0, 11
        andi t0, t0, 3
        bnez t0, 1f
        addi t0, sp, 144
        csrw mscratch, t0
1:      each ld
        ld sp, 128(sp)
        mret
        .size trap_return, . - trap_return

        .globl timer_entry
        .type timer_entry, @function
timer_entry:
        call machine_next_tick
        call handle_timer
        j trap_return
        .size timer_entry, . - timer_entry

        .globl exception_entry
        .type exception_entry, @function
exception_entry:
        call handle_exception
        csrr t0, mepc
        addi t0, t0, 4
        csrw mepc, t0
        j trap_return
        .size exception_entry, . - exception_entry

// a7: 1 a call, 2 leave user mode
        .globl system_call_entry
        .type system_call_entry, @function
system_call_entry:
        csrr t0, mepc
        addi t0, t0, 4
        csrw mepc, t0
        ld t0, 88(sp)
        li t1, 2
        beq t0, t1, 1f
        mv a0, t0
        call handle_system_call
        sd a0, 32(sp)
        j trap_return
1:      ld sp, kernel_sp
        ld ra, 0(sp)
        ld s0, 8(sp)
        ld s1, 16(sp)
        ld s2, 24(sp)
        ld s3, 32(sp)
        ld s4, 40(sp)
        ld s5, 48(sp)
        ld s6, 56(sp)
        ld s7, 64(sp)
        ld s8, 72(sp)
        ld s9, 80(sp)
        ld s10, 88(sp)
        ld s11, 96(sp)
        addi sp, sp, 112
        ret
        .size system_call_entry, . - system_call_entry

        .globl machine_user
        .type machine_user, @function
machine_user:
        addi sp, sp, -112
        sd ra, 0(sp)
        sd s0, 8(sp)
        sd s1, 16(sp)
        sd s2, 24(sp)
        sd s3, 32(sp)
        sd s4, 40(sp)
        sd s5, 48(sp)
        sd s6, 56(sp)
        sd s7, 64(sp)
        sd s8, 72(sp)
        sd s9, 80(sp)
        sd s10, 88(sp)
        sd s11, 96(sp)
        la t0, kernel_sp
        sd sp, 0(t0)
        csrw mscratch, sp
        la t0, user_start
        csrw mepc, t0
        li t0, 0x1800
        csrc mstatus, t0
        la sp, user_stack_top
        mret
        .size machine_user, . - machine_user

        .globl user_start
        .type user_start, @function
user_start:
        jalr a0
        li a7, 2
        ecall
        .size user_start, . - user_start

        .globl machine_system_call
        .type machine_system_call, @function
machine_system_call:
        mv a7, a0
        ecall
        ret
        .size machine_system_call, . - machine_system_call

        .globl machine_exception
        .type machine_exception, @function
machine_exception:
        .word 0x00000000
        ret
        .size machine_exception, . - machine_exception

        .globl machine_scratch
        .type machine_scratch, @function
machine_scratch:
        j machine_scratch.cold
.Lscratch:
        addi sp, sp, -16
        sd ra, 8(sp)
        sd s0, 0(sp)
        addi s0, a0, 17
        call leaf
        add a0, a0, s0
        li s0, 1
        add a0, a0, s0
        ld s0, 0(sp)
        ld ra, 8(sp)
        addi sp, sp, 16
        ret
        .size machine_scratch, . - machine_scratch

        .type machine_scratch.cold, @function
machine_scratch.cold:
        j .Lscratch
        .size machine_scratch.cold, . - machine_scratch.cold

        .macro saved operation
        \operation ra, 0(a0)
        \operation sp, 8(a0)
        \operation s0, 16(a0)
        \operation s1, 24(a0)
        \operation s2, 32(a0)
        \operation s3, 40(a0)
        \operation s4, 48(a0)
        \operation s5, 56(a0)
        \operation s6, 64(a0)
        \operation s7, 72(a0)
        \operation s8, 80(a0)
        \operation s9, 88(a0)
        \operation s10, 96(a0)
        \operation s11, 104(a0)
        .endm

        .globl machine_setjmp
        .type machine_setjmp, @function
machine_setjmp:
        saved sd
        li a0, 0
        ret
        .size machine_setjmp, . - machine_setjmp

        .globl machine_longjmp
        .type machine_longjmp, @function
machine_longjmp:
        saved ld
        mv a0, a1
        ret
        .size machine_longjmp, . - machine_longjmp

        .globl second_start
        .type second_start, @function
second_start:
        la sp, second_stack_top
        la t1, second_go
1:      ld t0, 0(t1)
        beqz t0, 1b
        call second_main
2:      wfi
        j 2b
        .size second_start, . - second_start

        .bss
        .balign 4096
kernel_sp: .skip 8
        .globl second_go
second_go: .skip 8
        .balign 4096
        .skip 524288
stack_top:
        .skip 16384
user_stack_top:
        .skip 16384
second_stack_top:
