/* Work-items as fibers of one thread. A fiber runs items one after the other; where one comes to a barrier, another fiber goes on with the
 * items that have not begun. Kernels without barriers so run in one fiber, as a plain loop. */
#include <stdlib.h>
#include <sys/mman.h>

#include "standin/standin.h"

enum { MAX_FIBERS = 256, STACK_BYTES = 128 * 1024 };

_Thread_local long long zn_group;
_Thread_local int zn_item;
void zn_barrier(void);

struct fiber {
    void *stack_pointer;
    char *stack;
    bool is_alive;
};

struct machine {
    struct fiber fibers[MAX_FIBERS];
    void *home;
    int current, next_item;
    const struct CUfunc_st *function;
    const void *args;
};
static _Thread_local struct machine *machine;

#if defined(__x86_64__)
void standin_switch(void **from, void *to);
__asm__(".text\n"
        ".type standin_switch, @function\n"
        ".hidden standin_switch\n"
        ".globl standin_switch\n"
        "standin_switch:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n    popq %rbp\n"
        "    ret\n"
        ".size standin_switch, .-standin_switch\n");
enum { N_SAVED = 6 };
/* As if the fiber had called standin_switch from the beginning of `run`. */
static void *first_frame(char *stack, void (*run)(void))
{
    void **top = (void **)(void *)(stack + STACK_BYTES);
    *--top = NULL;
    *--top = (void *)(uintptr_t)run;
    for (int i = 0; i < N_SAVED; i++)
        *--top = NULL;
    return top;
}
#elif defined(__aarch64__)
void standin_switch(void **from, void *to);
__asm__(".text\n"
        ".type standin_switch, %function\n"
        ".hidden standin_switch\n"
        ".globl standin_switch\n"
        "standin_switch:\n"
        "    sub sp, sp, #160\n"
        "    stp x19, x20, [sp]\n    stp x21, x22, [sp, #16]\n    stp x23, x24, [sp, #32]\n    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n    stp d10, d11, [sp, #112]\n    stp d12, d13, [sp, #128]\n    stp d14, d15, [sp, #144]\n"
        "    mov x9, sp\n    str x9, [x0]\n    mov sp, x1\n"
        "    ldp x19, x20, [sp]\n    ldp x21, x22, [sp, #16]\n    ldp x23, x24, [sp, #32]\n    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n    ldp d10, d11, [sp, #112]\n    ldp d12, d13, [sp, #128]\n    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #160\n"
        "    ret\n"
        ".size standin_switch, .-standin_switch\n");
static void *first_frame(char *stack, void (*run)(void))
{
    void **frame = (void **)(void *)(stack + STACK_BYTES - 160);
    for (int i = 0; i < 20; i++)
        frame[i] = NULL;
    frame[11] = (void *)(uintptr_t)run; /* x30 */
    return frame;
}
#else
#error "fibers: a processor without a switch of stacks"
#endif

static void go_home(struct machine *m)
{
    standin_switch(&m->fibers[m->current].stack_pointer, m->home);
}

static void run_fiber(struct machine *m, int at)
{
    m->current = at;
    standin_switch(&m->home, m->fibers[at].stack_pointer);
}

void zn_barrier(void)
{
    int own = zn_item;
    go_home(machine);
    zn_item = own;
}

static void run_items(void)
{
    struct machine *m = machine;
    while (m->next_item < m->function->n_items) {
        zn_item = m->next_item++;
        m->function->run(m->args);
    }
    m->fibers[m->current].is_alive = false;
    go_home(m);
    abort(); /* nobody comes back to a fiber that has ended */
}

static void start_fiber(struct machine *m, int at)
{
    struct fiber *f = &m->fibers[at];
    if (!f->stack)
        f->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (f->stack == MAP_FAILED)
        abort();
    f->stack_pointer = first_frame(f->stack, run_items);
    f->is_alive = true;
    run_fiber(m, at);
}

static void run_group(struct machine *m)
{
    int n = 0;
    m->next_item = 0;
    while (m->next_item < m->function->n_items)
        start_fiber(m, n++);
    for (bool any = true; any;) { /* once round for each barrier */
        any = false;
        for (int i = 0; i < n; i++)
            if (m->fibers[i].is_alive) {
                run_fiber(m, i);
                any = true;
            }
    }
}

void run_groups(const struct CUfunc_st *function, const void *args, int64_t n_groups)
{
    if (!machine && !(machine = calloc(1, sizeof *machine)))
        abort();
    machine->function = function;
    machine->args = args;
    for (zn_group = 0; zn_group < n_groups; zn_group++)
        run_group(machine);
}

void end_items(void)
{
    for (int i = 0; machine && i < MAX_FIBERS; i++)
        if (machine->fibers[i].stack)
            munmap(machine->fibers[i].stack, STACK_BYTES);
    free(machine);
    machine = NULL;
}
