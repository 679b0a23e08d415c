/* Rows to tokens. */
#include "text/encode.h"

#include <stdlib.h>
#include <string.h>

#include "text/encode_private.h"

/* ---- Documents ---- */

void zn_document_fini(struct zn_document *document)
{
    zn_ids_fini(&document->ids);
    free(document->counts);
    *document = (struct zn_document){0};
}

static zn_status check_ids(const zn_encoder *encoder, const struct zn_document *document, const char *place)
{
    int64_t limit = encoder->options.vocab_size;
    for (size_t i = document->n_counts; limit > 0 && i < document->ids.n; i++)
        if (document->ids.id[i] >= limit)
            return zn_fail(ZN_ERR_INPUT, "%s: the tokenizer gives id %d, the model's vocabulary has %lld", place,
                           document->ids.id[i], (long long)limit);
    return ZN_OK;
}

zn_status document_count(const zn_encoder *encoder, struct zn_document *document, bool counts, const char *place)
{
    size_t n = document->ids.n;
    ZN_TRY(check_ids(encoder, document, place));
    if (n > document->capacity) {
        size_t capacity = 2 * n;
        uint8_t *larger = realloc(document->counts, capacity);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu tokens", place, capacity);
        document->counts = larger;
        document->capacity = capacity;
    }
    if (n > document->n_counts)
        memset(document->counts + document->n_counts, counts, n - document->n_counts);
    document->n_counts = n;
    return ZN_OK;
}

zn_status document_add(const zn_encoder *encoder, struct zn_document *document, const struct zn_ids *ids,
                       bool counts, const char *place)
{
    for (size_t i = 0; i < ids->n; i++)
        ZN_TRY(zn_ids_add(&document->ids, ids->id[i]));
    return document_count(encoder, document, counts, place);
}

zn_status document_end(const zn_encoder *encoder, struct zn_document *document, bool counts, const char *place)
{
    if (encoder->options.end_of_text < 0)
        return ZN_OK;
    ZN_TRY(zn_ids_add(&document->ids, encoder->options.end_of_text));
    return document_count(encoder, document, counts, place);
}

/* ---- The encoder ---- */

zn_status encode_plain(const zn_encoder *encoder, const char *text, size_t n_bytes, struct zn_ids *ids)
{
    if (encoder->options.tokenizer)
        return zn_tokenizer_encode(encoder->options.tokenizer, text, n_bytes, false, ids);
    for (size_t i = 0; i < n_bytes; i++)
        ZN_TRY(zn_ids_add(ids, (unsigned char)text[i]));
    return ZN_OK;
}

/* The post-processor puts the same tokens around every text: those that it puts around this one. */
static zn_status find_around(zn_encoder *e)
{
    struct zn_ids plain = {0}, whole = {0};
    size_t begin = 0;
    zn_status status = zn_tokenizer_encode(e->options.tokenizer, "a", 1, false, &plain);
    if (status == ZN_OK)
        status = zn_tokenizer_encode(e->options.tokenizer, "a", 1, true, &whole);
    if (status == ZN_OK && (plain.n == 0 || plain.n > whole.n))
        status = zn_fail(ZN_ERR_UNSUPPORTED, "tokenizer.json: the post-processor does not keep the text");
    while (status == ZN_OK && memcmp(whole.id + begin, plain.id, plain.n * sizeof *plain.id) != 0)
        if (++begin + plain.n > whole.n)
            status = zn_fail(ZN_ERR_UNSUPPORTED, "tokenizer.json: the post-processor does not keep the text");
    for (size_t i = 0; i < begin && status == ZN_OK; i++)
        status = zn_ids_add(&e->before, whole.id[i]);
    for (size_t i = begin + plain.n; i < whole.n && status == ZN_OK; i++)
        status = zn_ids_add(&e->after, whole.id[i]);
    /* The end of text follows anyway, once. */
    if (e->after.n > 0 && e->after.id[e->after.n - 1] == e->options.end_of_text)
        e->after.n--;
    zn_ids_fini(&plain);
    zn_ids_fini(&whole);
    return status;
}

zn_status zn_config_end_of_text(zn_json *config, int32_t *id)
{
    int64_t value = -1;
    zn_json *list;
    if (zn_json_type_at(config, "eos_token_id") == ZN_JSON_ARRAY) {
        ZN_TRY(zn_json_get_array(config, "eos_token_id", &list));
        if (zn_json_n_items(list) > 0)
            ZN_TRY(zn_json_item_int(list, 0, 0, INT32_MAX, &value));
    } else {
        ZN_TRY(zn_json_get_int_or(config, "eos_token_id", 0, INT32_MAX, -1, &value));
    }
    *id = (int32_t)value;
    return ZN_OK;
}

zn_status zn_encoder_create(const struct zn_encoder_options *options, zn_encoder **encoder)
{
    ZN_TRY(zn_row_options_check(&options->rows));
    zn_encoder *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for an encoder");
    e->options = *options;
    pthread_mutex_init(&e->lock, NULL);
    zn_status status = options->tokenizer ? find_around(e) : ZN_OK;
    if (status != ZN_OK) {
        zn_encoder_destroy(e);
        return status;
    }
    *encoder = e;
    return ZN_OK;
}

void zn_encoder_destroy(zn_encoder *encoder)
{
    if (!encoder)
        return;
    zn_chat_close(encoder->chat);
    free(encoder->stop);
    pthread_mutex_destroy(&encoder->lock);
    zn_ids_fini(&encoder->before);
    zn_ids_fini(&encoder->after);
    free(encoder);
}

/* ---- Rows ---- */

static zn_status add_text(const zn_encoder *e, const char *text, bool counts, const char *place,
                          struct zn_document *document)
{
    ZN_TRY(encode_plain(e, text, strlen(text), &document->ids));
    return document_count(e, document, counts, place);
}

zn_status zn_encode_row(zn_encoder *encoder, const struct zn_row *row, const char *place,
                        struct zn_document *document)
{
    if (row->kind == ZN_ROW_MESSAGES)
        return encode_messages(encoder, row, place, document);
    if (row->kind == ZN_ROW_INSTRUCTION)
        return encode_instruction(encoder, row, place, document);
    bool is_text = row->kind == ZN_ROW_TEXT;
    ZN_TRY(document_add(encoder, document, &encoder->before, is_text, place));
    if (is_text) {
        ZN_TRY(add_text(encoder, row->text, true, place, document));
    } else {
        ZN_TRY(add_text(encoder, row->prompt, false, place, document));
        ZN_TRY(add_text(encoder, row->completion, true, place, document));
    }
    ZN_TRY(document_add(encoder, document, &encoder->after, true, place));
    return document_end(encoder, document, true, place);
}

bool zn_row_is_example(const struct zn_row *row)
{
    return row->kind != ZN_ROW_TEXT;
}

static zn_status encode_example(zn_encoder *encoder, const struct zn_row *row, const char *place, struct encode_part *part);

/* Two examples, one behind the other; neither is empty, which a list of examples would not have. */
static zn_status encode_pair(zn_encoder *encoder, const struct zn_row *pair, const char *place, struct encode_part *part)
{
    const struct zn_row_answer *const answers[] = {&pair->chosen, &pair->rejected};
    for (int i = 0; i < 2; i++) {
        const struct zn_row_answer *answer = answers[i];
        struct zn_row row = {.kind = answer->text ? ZN_ROW_COMPLETION : ZN_ROW_MESSAGES,
                             .prompt = pair->prompt,
                             .completion = answer->text,
                             .messages = answer->messages,
                             .n_messages = answer->n_messages,
                             .n_prompt = pair->n_prompt};
        size_t before = part->examples.ids.n;
        ZN_TRY(encode_example(encoder, &row, place, part));
        if (part->examples.ids.n == before)
            return zn_fail(ZN_ERR_INPUT, "%s: the prompt and the %s answer are empty", place, i ? "rejected" : "chosen");
    }
    return ZN_OK;
}

static zn_status encode_example(zn_encoder *encoder, const struct zn_row *row, const char *place, struct encode_part *part)
{
    if (row->kind == ZN_ROW_PAIR)
        return encode_pair(encoder, row, place, part);
    ZN_TRY(zn_encode_row(encoder, row, place, &part->examples));
    if (part->n_examples == part->borders_capacity) {
        size_t capacity = 2 * part->borders_capacity + 64;
        size_t *larger = realloc(part->borders, capacity * sizeof *larger);
        if (!larger)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu examples", place, capacity);
        part->borders = larger;
        part->borders_capacity = capacity;
    }
    part->borders[part->n_examples++] = part->examples.ids.n;
    return ZN_OK;
}

zn_status encode_lines(zn_encoder *encoder, struct encode_part *part)
{
    zn_jsonl *rows;
    const struct zn_row *row = NULL;
    const struct zn_jsonl_part lines = {.path = part->path, .first_line = part->first_line, .data = part->data,
                                        .n_bytes = part->n, .array = part->array, .is_last = part->ends};
    ZN_TRY(zn_jsonl_open_part(&lines, &encoder->options.rows, &rows));
    zn_status status;
    while ((status = zn_jsonl_next(rows, &row)) == ZN_OK && row) {
        status = part->keeps_examples && zn_row_is_example(row)
                     ? encode_example(encoder, row, zn_jsonl_place(rows), part)
                     : zn_encode_row(encoder, row, zn_jsonl_place(rows), &part->document);
        if (status != ZN_OK)
            break;
    }
    atomic_fetch_add(&encoder->n_replaced, zn_jsonl_n_replaced(rows));
    zn_jsonl_close(rows);
    return status;
}
