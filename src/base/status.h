/* Recording of failures. The function that knows the cause records it once with zn_fail and
 * returns the code; callers add context with zn_add_context only where it helps the person. */
#ifndef ZN_BASE_STATUS_H
#define ZN_BASE_STATUS_H

#include "zinc/status.h"

#if defined(__GNUC__)
#define ZN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define ZN_PRINTF(text, first)
#endif

/* Records the text and returns `code`, so that a cause reads `return zn_fail(...)`. */
zn_status zn_fail(zn_status code, const char *format, ...) ZN_PRINTF(2, 3);

/* Puts "context: " before the recorded text and returns `code`. */
zn_status zn_add_context(zn_status code, const char *format, ...) ZN_PRINTF(2, 3);

/* Records a text that was taken from another thread with zn_error_message. */
zn_status zn_fail_text(zn_status code, const char *text);

/* Returns from the enclosing function when `expression` fails. */
#define ZN_TRY(expression)                                                                         \
    do {                                                                                           \
        zn_status zn_try_status_ = (expression);                                                   \
        if (zn_try_status_ != ZN_OK)                                                               \
            return zn_try_status_;                                                                 \
    } while (0)

#endif
