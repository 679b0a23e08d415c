/* A tokenizer from its folder. */
#include "text/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/files.h"
#include "base/signature.h"
#include "base/text.h"
#include "text/tokenizer_private.h"

/* The largest files of the hub have some 30 MB. */
enum { MAX_FILE = 512 << 20, MAX_TEMPLATE = 16 << 20 };

void zn_tokenizer_close(zn_tokenizer *t)
{
    if (!t)
        return;
    ops_fini(&t->normalizers);
    ops_fini(&t->splitters);
    ops_fini(&t->decoders);
    added_fini(&t->added);
    model_fini(&t->model);
    free(t->before);
    free(t->behind);
    pool_destroy(t->pool);
    free(t->chat_template);
    free(t->name);
    free(t);
}

/* What the library would do to each encoding, and training cannot use. */
static zn_status refuse_fields(zn_json *root)
{
    static const char *const fields[] = {"truncation", "padding"};
    const char *version;
    ZN_TRY(zn_json_get_string_or(root, "version", "1.0", &version));
    if (strcmp(version, "1.0") != 0)
        return zn_json_fail(root, "the version %s is not known, only 1.0 is", zn_shown(version).text);
    for (size_t i = 0; i < 2; i++)
        if (zn_json_has(root, fields[i]))
            return zn_json_fail(root, "'%s' is not supported; set it to null", fields[i]);
    return ZN_OK;
}

static zn_status load_parts(zn_json *root, zn_tokenizer *t)
{
    zn_json *normalizer, *pre_tokenizer, *decoder, *post_processor, *model, *added;
    ZN_TRY(refuse_fields(root));
    ZN_TRY(zn_json_get_object_or_null(root, "normalizer", &normalizer));
    ZN_TRY(zn_json_get_object_or_null(root, "pre_tokenizer", &pre_tokenizer));
    ZN_TRY(zn_json_get_object_or_null(root, "decoder", &decoder));
    ZN_TRY(zn_json_get_object_or_null(root, "post_processor", &post_processor));
    ZN_TRY(zn_json_get_array_or_null(root, "added_tokens", &added));
    ZN_TRY(zn_json_get_object(root, "model", &model));
    ZN_TRY(parts_normalizer(normalizer, &t->normalizers));
    ZN_TRY(parts_pre_tokenizer(pre_tokenizer, &t->splitters));
    ZN_TRY(parts_decoder(decoder, &t->decoders));
    ZN_TRY(parts_post_processor(post_processor, t));
    t->has_decoder = decoder != NULL;
    /* Bytes that become characters last need not become any: the model takes them as they are. */
    bool bytes = t->splitters.n > 0 && t->splitters.op[t->splitters.n - 1].kind == TOK_BYTES;
    t->splitters.n -= bytes;
    ZN_TRY(model_load(model, bytes, &t->model));
    return added_load(added, &t->model.vocab, &t->normalizers, &t->added);
}

static void count_ids(zn_tokenizer *t)
{
    const struct tok_vocab *vocab = &t->model.vocab;
    int32_t last = vocab->n > 0 ? vocab->token[vocab->n - 1].id : -1;
    if (t->added.n > 0 && t->added.token[t->added.n - 1].id > last)
        last = t->added.token[t->added.n - 1].id;
    for (size_t i = 0; i < t->n_before; i++)
        last = t->before[i] > last ? t->before[i] : last;
    for (size_t i = 0; i < t->n_behind; i++)
        last = t->behind[i] > last ? t->behind[i] : last;
    t->n_ids = (int64_t)last + 1;
}

static zn_status load_root(zn_json *root, const char *name, zn_tokenizer **tokenizer)
{
    zn_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", name);
    t->name = strdup(name);
    t->pool = pool_create();
    t->n_threads = 1;
    t->bos = t->eos = -1;
    zn_status status =
        t->name && t->pool ? load_parts(root, t) : zn_fail(ZN_ERR_MEMORY, "%s: out of memory", name);
    if (status != ZN_OK) {
        zn_tokenizer_close(t);
        return status;
    }
    count_ids(t);
    *tokenizer = t;
    return ZN_OK;
}

zn_status zn_tokenizer_load(const void *json, size_t n_bytes, const char *name, zn_tokenizer **tokenizer)
{
    zn_json *root;
    ZN_TRY(zn_json_load_buffer(json, n_bytes, name, &root));
    zn_status status = load_root(root, name, tokenizer);
    zn_json_destroy(root);
    return status;
}

/* ---- tokenizer_config.json ---- */

zn_status tokenizer_named_id(zn_json *root, const char *key, const zn_tokenizer *t, int32_t *id)
{
    const char *token = NULL;
    zn_json *object;
    if (zn_json_type_at(root, key) == ZN_JSON_OBJECT) {
        ZN_TRY(zn_json_get_object(root, key, &object));
        ZN_TRY(zn_json_get_string(object, "content", &token));
    } else {
        ZN_TRY(zn_json_get_string_or(root, key, NULL, &token));
    }
    *id = token ? zn_tokenizer_id(t, token) : -1;
    return ZN_OK;
}

/* A text, or a list of named ones, of which "default" is taken. */
static zn_status chat_template(zn_json *root, const char **template)
{
    zn_json *list, *item;
    const char *name;
    if (zn_json_type_at(root, "chat_template") != ZN_JSON_ARRAY)
        return zn_json_get_string_or(root, "chat_template", NULL, template);
    ZN_TRY(zn_json_get_array(root, "chat_template", &list));
    for (size_t i = 0; i < zn_json_n_items(list); i++) {
        ZN_TRY(zn_json_item_object(list, i, &item));
        ZN_TRY(zn_json_get_string(item, "name", &name));
        if (strcmp(name, "default") == 0)
            return zn_json_get_string(item, "template", template);
    }
    return ZN_OK;
}

static zn_status read_config(zn_json *root, zn_tokenizer *t)
{
    const char *template = NULL;
    ZN_TRY(tokenizer_named_id(root, "bos_token", t, &t->bos));
    ZN_TRY(tokenizer_named_id(root, "eos_token", t, &t->eos));
    ZN_TRY(chat_template(root, &template));
    if (template && !t->chat_template && !(t->chat_template = strdup(template)))
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the chat template");
    return ZN_OK;
}

/* The two files beside tokenizer.json; neither need be there. */
static zn_status load_config(const char *folder, zn_tokenizer *t)
{
    char *path;
    zn_json *root;
    size_t n;
    zn_status status = ZN_OK;
    bool found;
    ZN_TRY(zn_path_join(folder, "chat_template.jinja", &path));
    status = zn_path_look(path, &found);
    if (status == ZN_OK && found)
        status = zn_file_read(path, MAX_TEMPLATE, &t->chat_template, &n);
    free(path);
    ZN_TRY(status);
    ZN_TRY(zn_path_join(folder, "tokenizer_config.json", &path));
    status = zn_path_look(path, &found);
    if (status == ZN_OK && found) {
        status = zn_json_load_file(path, MAX_FILE, &root);
        if (status == ZN_OK) {
            status = read_config(root, t);
            zn_json_destroy(root);
        }
    }
    free(path);
    return status;
}

zn_status zn_tokenizer_open(const char *folder, zn_tokenizer **tokenizer)
{
    char *path, *data = NULL;
    size_t n_bytes;
    zn_tokenizer *t = NULL;
    ZN_TRY(zn_path_join(folder, "tokenizer.json", &path));
    zn_status status = zn_signature_check(path);
    if (status == ZN_OK)
        status = zn_file_read(path, MAX_FILE, &data, &n_bytes);
    if (status != ZN_OK && zn_folder_exists(folder) && access(path, F_OK) != 0 && errno == ENOENT)
        status = zn_fail(ZN_ERR_INPUT, "%s: no tokenizer.json: add the model's tokenizer files; transformers writes it of others: "
                         "AutoTokenizer.from_pretrained('%s').save_pretrained('%s')", folder, folder, folder);
    if (status == ZN_OK)
        status = zn_tokenizer_load(data, n_bytes, path, &t);
    free(data);
    free(path);
    if (status == ZN_OK)
        status = load_config(folder, t);
    if (status != ZN_OK) {
        zn_tokenizer_close(t);
        return status;
    }
    *tokenizer = t;
    return ZN_OK;
}

/* ---- What it knows ---- */

void zn_tokenizer_set_threads(zn_tokenizer *tokenizer, int n_threads)
{
    tokenizer->n_threads = n_threads > 1 ? n_threads : 1;
}

int64_t zn_tokenizer_n_ids(const zn_tokenizer *tokenizer)
{
    return tokenizer->n_ids;
}

int32_t zn_tokenizer_id(const zn_tokenizer *tokenizer, const char *token)
{
    const struct tok_added *added = added_by_content(&tokenizer->added, token);
    return added ? added->id : vocab_find(&tokenizer->model.vocab, token, strlen(token));
}

bool zn_tokenizer_is_special(const zn_tokenizer *tokenizer, int32_t id)
{
    const struct tok_added *added = added_by_id(&tokenizer->added, id);
    return added && added->special;
}

int32_t zn_tokenizer_bos(const zn_tokenizer *tokenizer)
{
    return tokenizer->bos;
}

int32_t zn_tokenizer_eos(const zn_tokenizer *tokenizer)
{
    return tokenizer->eos;
}

const char *zn_tokenizer_chat_template(const zn_tokenizer *tokenizer)
{
    return tokenizer->chat_template;
}
