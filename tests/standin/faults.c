/* What goes wrong, and the error that stays. */
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "standin/standin.h"

static mtx_t lock; /* guards all below; zero is a plain one */
static enum fault fault;
static long due_at, n_asked;
static zn_cu_enum sticky;

static enum fault fault_of(const char *text, size_t n)
{
    static const struct {
        const char *name;
        enum fault fault;
    } names[] = {
#define NAME(name) {#name, FAULT_##name},
        FAULTS(NAME)
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i].name) == n && memcmp(names[i].name, text, n) == 0)
            return names[i].fault;
    abort(); /* a test that misspells it would pass */
}

void standin_start(void)
{
    const char *text = getenv("ZINC_STANDIN_FAULT");
    mtx_lock(&lock);
    size_t n = text ? strcspn(text, ":") : 0;
    fault = n ? fault_of(text, n) : FAULT_NONE;
    due_at = n && text[n] ? atol(text + n + 1) : 1;
    n_asked = 0;
    sticky = 0;
    mtx_unlock(&lock);
}

bool fault_is_set(enum fault asked)
{
    mtx_lock(&lock);
    bool is_set = fault == asked;
    mtx_unlock(&lock);
    return is_set;
}

bool fault_is_due(enum fault asked)
{
    mtx_lock(&lock);
    bool is_due = fault == asked && ++n_asked == due_at;
    mtx_unlock(&lock);
    return is_due;
}

zn_cu_enum sticky_error(void)
{
    mtx_lock(&lock);
    zn_cu_enum error = sticky;
    mtx_unlock(&lock);
    return error;
}

void set_sticky_error(zn_cu_enum error)
{
    mtx_lock(&lock);
    if (!sticky)
        sticky = error;
    mtx_unlock(&lock);
}
