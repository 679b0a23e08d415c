/* JSON that is more than a strict reader takes, rewritten into what it does take.
 *
 *   numbers   an integer beyond 64 bits becomes a real: ".0" is put behind it
 *   Python    besides, what json.dumps writes that is no JSON: NaN, Infinity, -Infinity and numbers beyond a double
 *             become null; \u0000 and halves of surrogate pairs become \ufffd
 *
 * Anything else stays as it is, also what is wrong: the reader finds it. */
#ifndef ZN_BASE_JSON_REPAIR_H
#define ZN_BASE_JSON_REPAIR_H

#include <stdint.h>

#include "base/text.h"

typedef enum json_repair_kind { JSON_REPAIR_NUMBERS, JSON_REPAIR_PYTHON } json_repair_kind;

/* Appends the rewritten document to `out`. *n_replaced counts the characters that became \ufffd. */
zn_status json_repair(const char *data, size_t n_bytes, json_repair_kind kind, zn_text *out, int64_t *n_replaced);

/* The byte of the document that byte `at` of the rewritten one stands for. */
size_t json_repair_origin(const char *data, size_t n_bytes, json_repair_kind kind, size_t at);

#endif
