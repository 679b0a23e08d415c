/* A template as a row of tokens. */
#ifndef ZN_TEXT_TEMPLATE_LEX_H
#define ZN_TEXT_TEMPLATE_LEX_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum token_kind {
    TOKEN_TEXT,        /* outside of tags */
    TOKEN_PRINT,       /* {{ */
    TOKEN_PRINT_END,   /* }} */
    TOKEN_BLOCK,       /* {% */
    TOKEN_BLOCK_END,   /* %} */
    TOKEN_NAME,
    TOKEN_STRING,      /* its value, without quotes and escapes */
    TOKEN_INTEGER,
    TOKEN_OPERATOR,
    TOKEN_END          /* of the template, once */
} token_kind;

struct token {
    token_kind kind;
    int line;
    const char *text; /* in the template's memory; not NUL-terminated */
    size_t n_bytes;
    int64_t integer;
};

struct template {
    char *source;  /* with uniform line ends */
    char *strings; /* values of the string literals */
    struct token *tokens;
    size_t n_tokens, capacity;
};

zn_status template_lex(struct template *compiled);

#endif
