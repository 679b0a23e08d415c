/* Status codes. Every function of libzinc that can fail returns one; the text of the
 * last failure on the calling thread is zn_error_message(). */
#ifndef ZINC_STATUS_H
#define ZINC_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ZN_API __attribute__((visibility("default")))
#else
#define ZN_API
#endif

/* One list holds the codes and their short texts. */
#define ZN_STATUS_LIST(X)                                                                          \
    X(ZN_OK, 0, "ok")                                                                              \
    X(ZN_ERR_USAGE, 1, "wrong usage")                                                              \
    X(ZN_ERR_INPUT, 2, "bad input")                                                                \
    X(ZN_ERR_IO, 3, "input or output failed")                                                      \
    X(ZN_ERR_MEMORY, 4, "out of memory")                                                           \
    X(ZN_ERR_UNSUPPORTED, 5, "not supported")                                                      \
    X(ZN_ERR_NUMERIC, 6, "not a finite number")                                                    \
    X(ZN_ERR_INTERRUPTED, 7, "interrupted")                                                        \
    X(ZN_ERR_INTERNAL, 8, "internal error")

typedef enum zn_status {
#define ZN_STATUS_ENUM(name, value, text) name = value,
    ZN_STATUS_LIST(ZN_STATUS_ENUM)
#undef ZN_STATUS_ENUM
} zn_status;

/* Short fixed text of a code; never NULL. */
ZN_API const char *zn_status_text(zn_status status);

/* Text of the last failure on this thread: what is wrong, where, and what to do. Owned by the
 * library and valid until the next failing call on this thread. */
ZN_API const char *zn_error_message(void);

/* The version of the library, "MAJOR.MINOR.PATCH". What is removed or changes its meaning raises MAJOR, what is added MINOR; while MAJOR
 * is 0, MINOR stands for both. */
ZN_API const char *zn_version(void);

/* The same as a number to compare: 10000 × MAJOR + 100 × MINOR + PATCH. */
ZN_API int zn_version_number(void);

/* Frees what a function of the library says is freed with it: texts and lists that it returned. NULL is legal. */
ZN_API void zn_free(void *memory);

#ifdef __cplusplus
}
#endif
#endif
