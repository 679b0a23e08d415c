/* A template while it runs; shared by statements, expressions and calls. */
#ifndef ZN_TEXT_TEMPLATE_RUN_H
#define ZN_TEXT_TEMPLATE_RUN_H

#include "base/text.h"
#include "text/template_lex.h"
#include "text/template_value.h"

struct run_variable {
    const char *name;
    size_t name_bytes;
    struct value value;
    uint64_t hash; /* of the name */
    size_t prior;  /* the variable set before it in its bucket, from 1; 0: none */
};

typedef enum run_jump { JUMP_NONE, JUMP_BREAK, JUMP_CONTINUE } run_jump;

struct run {
    const struct template *t;
    size_t at; /* the next token */
    struct value_arena arena;
    struct run_variable *variables; /* innermost last */
    size_t n_variables, capacity;
    size_t *buckets, n_buckets; /* the last variable of each, from 1; a power of two */
    size_t frame; /* first variable of the innermost loop's body */
    zn_text *text, *marks;
    int depth;
    int n_generations; /* blocks of {% generation %} around this place */
    run_jump jump;
};

/* "chat template, line N: …" at the next token. */
zn_status run_fail(const struct run *r, zn_status code, const char *format, ...) ZN_PRINTF(3, 4);

/* The token's text, fit for a message. */
struct zn_shown token_shown(const struct token *token);

const struct token *run_token(const struct run *r);
bool run_is_operator(const struct run *r, const char *op);
bool run_is_name(const struct run *r, const char *name);
bool run_skip_operator(struct run *r, const char *op); /* takes it if it is next */
bool run_skip_name(struct run *r, const char *name);
zn_status run_expect(struct run *r, const char *op);

/* ---- Variables ---- */

/* Sets the variable in the innermost body. */
zn_status run_set(struct run *r, const char *name, size_t name_bytes, const struct value *value);

/* The innermost variable of the name; NULL: none. */
const struct run_variable *run_find(const struct run *r, const char *name, size_t name_bytes);

/* Forgets the variables of the innermost body. */
void run_forget(struct run *r);

void run_variables_fini(struct run *r);

/* ---- Expressions ---- */

/* Evaluates the expression at the next token. Where `live` is false it is only read over: nothing is computed,
 * *out is undefined and unknown names do no harm. */
zn_status run_expression(struct run *r, bool live, struct value *out);
zn_status run_expression_without_if(struct run *r, bool live, struct value *out); /* a or b, of `for` */

/* An operand of an operator, with its sign and, where `with_filter`, its filters and tests. */
zn_status run_operand(struct run *r, bool live, bool with_filter, struct value *out);

/* One level deeper, if there may be one; the caller takes it back from r->depth. */
zn_status run_enter(struct run *r);

/* ---- Calls ---- */

enum { MAX_ARGUMENTS = 8 };

struct arguments {
    size_t n;
    struct value values[MAX_ARGUMENTS];
    size_t n_named;
    const struct token *names[MAX_ARGUMENTS];
    struct value named[MAX_ARGUMENTS];
};

zn_status call_function(struct run *r, const struct token *name, const struct arguments *args, struct value *out);
zn_status call_method(struct run *r, const struct value *self, const struct token *name,
                      const struct arguments *args, struct value *out);
zn_status call_filter(struct run *r, const struct value *self, const struct token *name,
                      const struct arguments *args, struct value *out);
zn_status call_test(struct run *r, const struct value *self, const struct token *name,
                    const struct arguments *args, bool *out);

#endif
