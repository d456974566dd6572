// Entry by PVH (32-bit, paging off), long mode with 2 MiB pages for the first 4 GiB, GDT, IDT, TSS,
// system calls.
        .section .note.pvh, "a", @note
        .long 4, 4, 18
        .asciz "Xen"
        .long start32

        .text
        .code32
        .globl start32
        .type start32, @function
start32:
        mov $stack_top, %esp
        mov $pml4, %eax
        movl $pdpt + 7, (%eax)
        mov $pdpt, %eax
        movl $page_directories + 7, 0(%eax)
        movl $page_directories + 0x1007, 8(%eax)
        movl $page_directories + 0x2007, 16(%eax)
        movl $page_directories + 0x3007, 24(%eax)
        mov $page_directories, %edi
        mov $0x87, %eax
1:      mov %eax, (%edi)
        add $8, %edi
        add $0x200000, %eax
        jnc 1b
        mov %cr4, %eax
        or $0x20, %eax
        mov %eax, %cr4
        mov $pml4, %eax
        mov %eax, %cr3
        mov $0xc0000080, %ecx
        rdmsr
        or $0x101, %eax
        wrmsr
        mov %cr0, %eax
        or $0x80000001, %eax
        mov %eax, %cr0
        lgdt gdt_pointer
        ljmp $8, $start64
        .size start32, . - start32

        .code64
        .globl start64
        .type start64, @function
start64:
        mov $16, %eax
        mov %eax, %ds
        mov %eax, %es
        mov %eax, %ss
        lidt idt_pointer
        call machine_set_up
        call guest_main
1:      hlt
        jmp 1b
        .size start64, . - start64

        .macro save
        push %rax
        push %rcx
        push %rdx
        push %rsi
        push %rdi
        push %r8
        push %r9
        push %r10
        push %r11
        .endm
        .macro restore
        pop %r11
        pop %r10
        pop %r9
        pop %r8
        pop %rdi
        pop %rsi
        pop %rdx
        pop %rcx
        pop %rax
        .endm

        .globl timer_entry
        .type timer_entry, @function
timer_entry:
        save
        call handle_timer
        mov $0x20, %al
        out %al, $0x20
        restore
        iretq
        .size timer_entry, . - timer_entry

        .globl exception_entry
        .type exception_entry, @function
exception_entry:
        save
        call handle_exception
        addq $2, 72(%rsp)               // over the ud2
        restore
        iretq
        .size exception_entry, . - exception_entry

// rax: 1 a call, 2 leave user mode
        .globl system_call_entry
        .type system_call_entry, @function
system_call_entry:
        mov %rsp, user_rsp
        cmp $2, %rax
        je 1f
        mov $system_stack_top, %rsp
        push %rcx
        push %r11
        mov %rax, %rdi
        call handle_system_call
        pop %r11
        pop %rcx
        mov user_rsp, %rsp
        sysretq
1:      mov kernel_rsp, %rsp
        pop %r15
        pop %r14
        pop %r13
        pop %r12
        pop %rbp
        pop %rbx
        mov $16, %eax
        mov %eax, %ss
        ret
        .size system_call_entry, . - system_call_entry

        .globl machine_user
        .type machine_user, @function
machine_user:
        push %rbx
        push %rbp
        push %r12
        push %r13
        push %r14
        push %r15
        mov %rsp, kernel_rsp
        pushq $0x23
        pushq $user_stack_top
        pushq $2
        pushq $0x2b
        pushq $user_start
        iretq
        .size machine_user, . - machine_user

        .globl user_start
        .type user_start, @function
user_start:
        call *%rdi
        mov $2, %eax
        syscall
        .size user_start, . - user_start

        .globl machine_system_call
        .type machine_system_call, @function
machine_system_call:
        mov %rdi, %rax
        syscall
        ret
        .size machine_system_call, . - machine_system_call

        .globl machine_exception
        .type machine_exception, @function
machine_exception:
        ud2
        ret
        .size machine_exception, . - machine_exception

        .globl machine_scratch
        .type machine_scratch, @function
machine_scratch:
        jmp machine_scratch.cold
.Lscratch:
        push %rbp
        lea 17(%rdi), %rbp
        call leaf
        add %rbp, %rax
        mov $1, %ebp
        add %rbp, %rax
        pop %rbp
        ret
        .size machine_scratch, . - machine_scratch

        .type machine_scratch.cold, @function
machine_scratch.cold:
        jmp .Lscratch
        .size machine_scratch.cold, . - machine_scratch.cold

        .globl machine_setjmp
        .type machine_setjmp, @function
machine_setjmp:
        mov (%rsp), %rax
        mov %rax, 0(%rdi)
        lea 8(%rsp), %rax
        mov %rax, 8(%rdi)
        mov %rbx, 16(%rdi)
        mov %rbp, 24(%rdi)
        mov %r12, 32(%rdi)
        mov %r13, 40(%rdi)
        mov %r14, 48(%rdi)
        mov %r15, 56(%rdi)
        xor %eax, %eax
        ret
        .size machine_setjmp, . - machine_setjmp

        .globl machine_longjmp
        .type machine_longjmp, @function
machine_longjmp:
        mov 16(%rdi), %rbx
        mov 24(%rdi), %rbp
        mov 32(%rdi), %r12
        mov 40(%rdi), %r13
        mov 48(%rdi), %r14
        mov 56(%rdi), %r15
        mov 8(%rdi), %rsp
        mov %esi, %eax
        jmp *0(%rdi)
        .size machine_longjmp, . - machine_longjmp

// The second processor: real mode at 0x8000 (copied there), then the same page tables.
        .globl trampoline, trampoline_end
        .code16
trampoline:
        cli
        xor %ax, %ax
        mov %ax, %ds
        lgdtl trampoline_gdt - trampoline + 0x8000
        mov $0x20, %eax
        mov %eax, %cr4
        mov $pml4, %eax
        mov %eax, %cr3
        mov $0xc0000080, %ecx
        rdmsr
        or $0x101, %eax
        wrmsr
        mov $0x80000011, %eax
        mov %eax, %cr0
        ljmpl $8, $second_start
trampoline_gdt:
        .word 63
        .long gdt
trampoline_end:
        .code64
        .globl second_start
        .type second_start, @function
second_start:
        mov $16, %eax
        mov %eax, %ds
        mov %eax, %es
        mov %eax, %ss
        mov $second_stack_top, %rsp
        call second_main
1:      cli
        hlt
        jmp 1b
        .size second_start, . - second_start

        .data
        .balign 16
        .globl gdt, tss_descriptor
gdt:    .quad 0, 0x00af9b000000ffff, 0x00cf93000000ffff, 0
        .quad 0x00cff3000000ffff, 0x00affb000000ffff
tss_descriptor:
        .quad 0, 0
gdt_pointer:
        .word 63
        .quad gdt
idt_pointer:
        .word 4095
        .quad idt
        .balign 8
kernel_rsp: .quad 0
user_rsp:   .quad 0

        .bss
        .balign 4096
        .globl idt, interrupt_stack_top
pml4:   .skip 4096
pdpt:   .skip 4096
page_directories: .skip 16384
idt:    .skip 4096
        .skip 262144
stack_top:
        .skip 16384
system_stack_top:
        .skip 16384
interrupt_stack_top:
        .skip 16384
user_stack_top:
        .skip 16384
second_stack_top:
