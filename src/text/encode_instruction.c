/* Rows of Alpaca's form. Where the folder has a chat template they are conversations, as that is how its model is spoken to;
 * else completions of the prompt that Alpaca was trained with. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "text/encode_private.h"

static zn_status encode_as_chat(zn_encoder *encoder, const struct zn_row *row, const char *user, const char *place,
                                struct zn_document *document)
{
    const struct zn_chat_message messages[] = {{.role = "system", .content = row->system},
                                               {.role = "user", .content = user},
                                               {.role = "assistant", .content = row->output}};
    size_t first = row->system ? 0 : 1;
    const struct zn_row chat = {.kind = ZN_ROW_MESSAGES, .messages = messages + first, .n_messages = 3 - first};
    return encode_messages(encoder, &chat, place, document);
}

static zn_status encode_as_completion(zn_encoder *encoder, const struct zn_row *row, const char *prompt,
                                      const char *place, struct zn_document *document)
{
    const struct zn_row completion = {.kind = ZN_ROW_COMPLETION, .prompt = prompt, .completion = row->output};
    return zn_encode_row(encoder, &completion, place, document);
}

/* The user's words of a conversation: the instruction and, on the next line, the input. */
static void add_words(zn_text *text, const struct zn_row *row)
{
    zn_text_add(text, "%s%s%s", row->instruction, *row->input ? "\n" : "", row->input);
}

/* Alpaca's prompt; a system prompt takes the place of its first sentences. */
static void add_prompt(zn_text *text, const struct zn_row *row)
{
    const char *preface = *row->input ? "Below is an instruction that describes a task, paired with an input that provides "
                                        "further context. Write a response that appropriately completes the request."
                                      : "Below is an instruction that describes a task. Write a response that "
                                        "appropriately completes the request.";
    zn_text_add(text, "%s\n\n### Instruction:\n%s\n\n", row->system ? row->system : preface, row->instruction);
    if (*row->input)
        zn_text_add(text, "### Input:\n%s\n\n", row->input);
    zn_text_add(text, "### Response:\n");
}

zn_status encode_instruction(zn_encoder *encoder, const struct zn_row *row, const char *place,
                             struct zn_document *document)
{
    bool is_chat = encoder_has_template(encoder);
    zn_text text;
    zn_text_init(&text);
    if (is_chat)
        add_words(&text, row);
    else
        add_prompt(&text, row);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = is_chat ? encode_as_chat(encoder, row, text.data, place, document)
                         : encode_as_completion(encoder, row, text.data, place, document);
    zn_text_fini(&text);
    if (status == ZN_OK)
        atomic_fetch_add(&encoder->n_instructions, 1);
    return status;
}
