/* Each pattern is compiled twice: as it is, and with the recent characters in its classes. The
 * second is much slower and used only for texts that hold such a character. */
#include "text/tokenizer_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/tokenizer_unicode.h"

/* A real pattern takes a few steps for each character; these end one that explodes. */
enum {
    MATCH_STEPS = 20000000,
    MATCH_DEPTH = 1000000,
    MATCH_HEAP_KIB = 256 * 1024,
    JIT_STACK_MAX = 16 * 1024 * 1024,
    MAX_PATTERN = 20000
};

struct tok_regex {
    pcre2_code *code[2]; /* [1]: with the recent characters */
    bool jit[2];
    bool may_be_empty; /* a match may have no characters */
    struct zn_shown shown; /* the pattern, for messages */
};

struct tok_matcher {
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

tok_matcher *matcher_create(void)
{
    tok_matcher *matcher = calloc(1, sizeof *matcher);
    if (!matcher)
        return NULL;
    matcher->data = pcre2_match_data_create(1, NULL);
    matcher->context = pcre2_match_context_create(NULL);
    matcher->stack = pcre2_jit_stack_create(64 * 1024, JIT_STACK_MAX, NULL);
    if (!matcher->data || !matcher->context) {
        matcher_destroy(matcher);
        return NULL;
    }
    pcre2_set_match_limit(matcher->context, MATCH_STEPS);
    pcre2_set_depth_limit(matcher->context, MATCH_DEPTH);
    pcre2_set_heap_limit(matcher->context, MATCH_HEAP_KIB);
    if (matcher->stack) /* none where PCRE2 is built without JIT */
        pcre2_jit_stack_assign(matcher->context, NULL, matcher->stack);
    return matcher;
}

void matcher_destroy(tok_matcher *matcher)
{
    if (!matcher)
        return;
    pcre2_jit_stack_free(matcher->stack);
    pcre2_match_context_free(matcher->context);
    pcre2_match_data_free(matcher->data);
    free(matcher);
}

static pcre2_code *compile(const char *pattern, bool recent, char error[TOK_REGEX_ERROR])
{
    int code;
    PCRE2_SIZE offset;
    pcre2_code *compiled = NULL;
    pcre2_compile_context *context = NULL;
    char *translated = regex_translate(pattern, recent, error);
    if (!translated)
        return NULL;
    context = pcre2_compile_context_create(NULL);
    if (!context) {
        snprintf(error, TOK_REGEX_ERROR, "out of memory");
        goto done;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    pcre2_set_bsr(context, PCRE2_BSR_UNICODE);
    compiled = pcre2_compile((PCRE2_SPTR)translated, PCRE2_ZERO_TERMINATED,
                             PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &offset, context);
    if (!compiled) {
        PCRE2_UCHAR text[128];
        pcre2_get_error_message(code, text, sizeof text);
        snprintf(error, TOK_REGEX_ERROR, "the pattern does not compile: %s", (const char *)text);
    }
done:
    pcre2_compile_context_free(context);
    free(translated);
    return compiled;
}

tok_regex *regex_create(const char *pattern, char error[TOK_REGEX_ERROR])
{
    if (strlen(pattern) > MAX_PATTERN) {
        snprintf(error, TOK_REGEX_ERROR, "a pattern of more than %d bytes", (int)MAX_PATTERN);
        return NULL;
    }
    tok_regex *regex = calloc(1, sizeof *regex);
    if (!regex) {
        snprintf(error, TOK_REGEX_ERROR, "out of memory");
        return NULL;
    }
    regex->shown = zn_shown(pattern);
    for (int recent = 0; recent < 2; recent++) {
        regex->code[recent] = compile(pattern, recent, error);
        if (!regex->code[recent]) {
            regex_destroy(regex);
            return NULL;
        }
        /* Without JIT (a system that forbids it) the interpreter gives the same. */
        regex->jit[recent] = pcre2_jit_compile(regex->code[recent], PCRE2_JIT_COMPLETE) == 0;
    }
    uint32_t empty = 1;
    pcre2_pattern_info(regex->code[0], PCRE2_INFO_MATCHEMPTY, &empty);
    regex->may_be_empty = empty;
    return regex;
}

void regex_destroy(tok_regex *regex)
{
    if (!regex)
        return;
    for (int i = 0; i < 2; i++)
        pcre2_code_free(regex->code[i]);
    free(regex);
}

static int match_at(const tok_regex *regex, tok_matcher *matcher, const char *text, size_t n_bytes, bool recent,
                    size_t from)
{
    const pcre2_code *code = regex->code[recent];
    PCRE2_SPTR subject = (PCRE2_SPTR)text;
    if (regex->jit[recent]) {
        int found = pcre2_jit_match(code, subject, n_bytes, from, PCRE2_NO_UTF_CHECK, matcher->data,
                                    matcher->context);
        if (found != PCRE2_ERROR_JIT_STACKLIMIT)
            return found;
    }
    return pcre2_match(code, subject, n_bytes, from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, matcher->data,
                       matcher->context);
}

bool regex_next(const tok_regex *regex, tok_matcher *matcher, const char *text, size_t n_bytes, bool recent,
                struct regex_search *search, size_t *start, size_t *end, zn_status *status)
{
    while (!search->ended) {
        size_t from = search->from;
        if (from == n_bytes && !regex->may_be_empty)
            break;
        int found = match_at(regex, matcher, text, n_bytes, recent, from);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0) {
            PCRE2_UCHAR why[128];
            pcre2_get_error_message(found, why, sizeof why);
            *status = zn_fail(ZN_ERR_INPUT, "the tokenizer's pattern '%s' fails at byte %zu of the text: %s",
                              regex->shown.text, from, (const char *)why);
            break;
        }
        const PCRE2_SIZE *at = pcre2_get_ovector_pointer(matcher->data);
        if (at[0] == at[1] && search->matched && at[0] == from) {
            /* An empty match right after a match is none: look on behind the next character. */
            size_t length = 1;
            if (from < n_bytes)
                utf8_at(text + from, &length);
            search->from += length;
            search->ended = search->from > n_bytes;
            search->matched = false;
            continue;
        }
        *start = at[0];
        *end = at[1];
        search->from = at[1];
        search->matched = true;
        return true;
    }
    search->ended = true;
    return false;
}
