/* The text of the last failure, one for each thread. */
#include "base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ZN_VERSION
#define ZN_VERSION "0.0.0"
#endif

enum { MESSAGE_BYTES = 2048 };

static _Thread_local char last_message[MESSAGE_BYTES];

const char *zn_status_text(zn_status status)
{
    switch (status) {
#define ZN_STATUS_CASE(name, value, text)                                                          \
    case name:                                                                                     \
        return text;
        ZN_STATUS_LIST(ZN_STATUS_CASE)
#undef ZN_STATUS_CASE
    }
    return "unknown status";
}

const char *zn_error_message(void)
{
    return last_message;
}

const char *zn_version(void)
{
    return ZN_VERSION;
}

int zn_version_number(void)
{
    int major = 0, minor = 0, patch = 0;
    sscanf(ZN_VERSION, "%d.%d.%d", &major, &minor, &patch);
    return 10000 * major + 100 * minor + patch;
}

void zn_free(void *memory)
{
    free(memory);
}

zn_status zn_fail(zn_status code, const char *format, ...)
{
    /* The arguments may point into last_message, so it is written last. */
    char text[MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return zn_fail_text(code, text);
}

zn_status zn_add_context(zn_status code, const char *format, ...)
{
    char text[2 * MESSAGE_BYTES + 4]; /* both whole; zn_fail_text cuts */
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, MESSAGE_BYTES, format, args);
    va_end(args);
    if (n >= 0 && n < MESSAGE_BYTES)
        snprintf(text + n, sizeof text - (size_t)n, ": %s", last_message);
    return zn_fail_text(code, text);
}

zn_status zn_fail_text(zn_status code, const char *text)
{
    size_t n = strnlen(text, MESSAGE_BYTES - 1);
    memmove(last_message, text, n);
    last_message[n] = '\0';
    return code;
}
