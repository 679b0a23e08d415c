/* The part of Jinja that chat templates are written in, run as the transformers library runs it
 * (trim_blocks and lstrip_blocks on).
 *
 *   statements   if elif else, for … in … [if …] else, break, continue, set, generation
 *   operators    or and not == != < <= > >= in is + - * // % ~ [] . | and a if b else c
 *   values       strings, integers, true, false, none, lists, mappings, namespace(…)
 *   the rest     the filters, tests, methods and functions in template_calls.c
 *
 * Anything else is refused with its line and name. There are no macros, no other files and nothing of the
 * machine, so the text depends on the input alone. Work, memory and depth are bounded whatever
 * the template says. */
#ifndef ZN_TEXT_TEMPLATE_H
#define ZN_TEXT_TEMPLATE_H

#include "base/text.h"
#include "text/chat.h"

enum { TEMPLATE_MAX_BYTES = 1024 * 1024 };

struct template; /* const once compiled */

/* The source is copied. */
zn_status template_compile(const char *source, struct template **compiled);
void template_destroy(struct template *compiled); /* NULL is legal */

struct template_input {
    const struct zn_chat_message *messages;
    size_t n_messages;
    bool add_generation_prompt;
    const char *bos, *eos; /* NULL: undefined in the template */
};

/* Whether it says with {% generation %} what the assistant generates. */
bool template_has_generation(const struct template *compiled);

/* Where a byte of the output comes from; MARK_GENERATION is added to it in a {% generation %} block. */
enum { MARK_TEMPLATE = 0, MARK_OTHER = 1, MARK_ASSISTANT = 2, MARK_GENERATION = 4 };

/* The text and, for each of its bytes, one of marks. Both are the caller's, initialised, and finished by
 * the caller also after a failure. */
zn_status template_render(const struct template *compiled, const struct template_input *input, zn_text *text,
                          zn_text *marks);

#endif
