/* From text to ids. A long text is cut in pieces by one thread, the others encode them: pieces are
 * independent, and their ids are put together in their order, so threads change nothing. */
#include <stdlib.h>
#include <string.h>

#include "base/team.h"
#include "text/tokenizer_private.h"
#include "text/tokenizer_unicode.h"

enum {
    LARGE = 1 << 18, /* bytes of a piece that is worth sharing */
    CHUNK = 1 << 14, /* bytes of pieces that a thread takes at once */
    WINDOW = 64      /* chunks under way */
};

/* One text. */
struct run {
    const zn_tokenizer *t;
    struct tok_scratch *scratch;
    bool recent;
    struct tok_buffer normalized[2];
    const char *text; /* all of it */
    size_t n;
    struct zn_ids *ids;
};

/* ---- Pieces of any size, by one thread ---- */

struct at_op {
    const zn_tokenizer *t;
    struct tok_scratch *scratch;
    bool recent;
    size_t op; /* the next operation */
    struct zn_ids *ids;
};

static zn_status encode_rest(void *self, struct tok_piece piece)
{
    const struct at_op *at = self;
    const struct tok_ops *ops = &at->t->splitters;
    for (size_t k = at->op; k < ops->n; k++) {
        const struct tok_op *op = &ops->op[k];
        if (op->kind == TOK_SPLIT) {
            struct at_op next = *at;
            next.op = k + 1;
            return split_piece(op, at->scratch->matcher, at->recent, piece, encode_rest, &next);
        }
        /* Each operation has its own buffer: the one before may hold the text of several pieces. */
        ZN_TRY(change_piece(op, at->scratch->matcher, at->recent, &piece, &at->scratch->step[k]));
        if (piece.n == 0)
            return ZN_OK;
    }
    return bpe_word(&at->t->model, at->scratch, piece.text, piece.n, at->ids);
}

/* ---- Large pieces, by a team ---- */

struct chunk {
    struct tok_piece *piece;
    size_t n, capacity, n_bytes;
    struct zn_ids ids;
};

/* The pieces of one large piece on their way to other threads. */
struct sharing {
    struct run *run;
    size_t op;      /* what is still to be done to them */
    bool are_parts; /* nothing but bpe_part */
    zn_team *team;
    struct chunk chunk[WINDOW];
    struct chunk *open; /* the one that is being filled; NULL: none is */
};

static zn_status encode_chunk(void *self, void *job)
{
    const struct sharing *s = self;
    struct chunk *c = job;
    const zn_tokenizer *t = s->run->t;
    struct tok_scratch *scratch = pool_take(t->pool);
    if (!scratch)
        return zn_fail(ZN_ERR_MEMORY, "out of memory to encode");
    struct at_op at = {.t = t, .scratch = scratch, .recent = s->run->recent, .op = s->op, .ids = &c->ids};
    zn_status status = ZN_OK;
    c->ids.n = 0;
    for (size_t i = 0; status == ZN_OK && i < c->n; i++) {
        if (s->are_parts)
            status = bpe_part(&t->model, scratch, c->piece[i].text, c->piece[i].n, &c->ids);
        else
            status = encode_rest(&at, c->piece[i]);
    }
    pool_give(t->pool, scratch);
    return status;
}

static zn_status take_chunk(void *self, void *job)
{
    const struct sharing *s = self;
    const struct chunk *c = job;
    return ids_append(s->run->ids, c->ids.id, c->ids.n);
}

static void submit(struct sharing *s)
{
    zn_team_submit(s->team);
    s->open = NULL;
}

/* Waits for all chunks. */
static zn_status drain(struct sharing *s)
{
    if (s->open)
        submit(s);
    return zn_team_finish(s->team);
}

static zn_status open_chunk(struct sharing *s)
{
    void *job;
    ZN_TRY(zn_team_next(s->team, &job));
    s->open = job;
    s->open->n = s->open->n_bytes = 0;
    return ZN_OK;
}

static zn_status encode_large(struct run *r, size_t op, struct tok_piece piece);

static zn_status share_piece(void *self, struct tok_piece piece)
{
    struct sharing *s = self;
    if (piece.n >= LARGE && !s->are_parts) {
        ZN_TRY(drain(s));
        return encode_large(s->run, s->op, piece);
    }
    if (!s->open)
        ZN_TRY(open_chunk(s));
    struct chunk *c = s->open;
    if (c->n == c->capacity) {
        size_t capacity = 2 * c->capacity + 256;
        struct tok_piece *grown = realloc(c->piece, capacity * sizeof *grown);
        if (!grown)
            return zn_fail(ZN_ERR_MEMORY, "out of memory for %zu pieces", capacity);
        c->piece = grown;
        c->capacity = capacity;
    }
    c->piece[c->n++] = piece;
    c->n_bytes += piece.n;
    if (c->n_bytes >= CHUNK)
        submit(s);
    return ZN_OK;
}

/* A word of this size is cut where no merge can cross. */
static zn_status share_parts(struct sharing *s, struct tok_piece piece)
{
    const struct tok_model *model = &s->run->t->model;
    if (piece.n <= model->vocab.longest) /* the word may be a token */
        return bpe_word(model, s->run->scratch, piece.text, piece.n, s->run->ids);
    s->are_parts = true;
    for (size_t n; piece.n > 0; piece.text += n, piece.n -= n) {
        n = bpe_part_length(model, piece.text, piece.n);
        ZN_TRY(share_piece(s, (struct tok_piece){.text = piece.text, .n = n}));
    }
    return ZN_OK;
}

/* Cuts the piece by the next operation that cuts, and shares what it gives. */
static zn_status share(struct sharing *s, size_t op, struct tok_piece piece, struct tok_buffer changed[2])
{
    const struct run *r = s->run;
    const struct tok_ops *ops = &r->t->splitters;
    for (; op < ops->n && ops->op[op].kind != TOK_SPLIT; op++)
        ZN_TRY(change_piece(&ops->op[op], r->scratch->matcher, r->recent, &piece,
                            &changed[piece.text == changed[0].data]));
    s->op = op + 1;
    if (op < ops->n)
        ZN_TRY(split_piece(&ops->op[op], r->scratch->matcher, r->recent, piece, share_piece, s));
    else
        ZN_TRY(share_parts(s, piece));
    return drain(s);
}

static zn_status encode_large(struct run *r, size_t op, struct tok_piece piece)
{
    struct tok_buffer changed[2] = {0};
    struct sharing *s = calloc(1, sizeof *s);
    if (!s)
        return zn_fail(ZN_ERR_MEMORY, "out of memory to encode");
    s->run = r;
    const struct zn_team_work work = {.self = s, .run = encode_chunk, .take = take_chunk};
    zn_status status = zn_team_create(r->t->n_threads, &work, s->chunk, sizeof s->chunk[0], WINDOW, &s->team);
    if (status == ZN_OK)
        status = share(s, op, piece, changed);
    zn_team_destroy(s->team); /* first: its threads use what is freed here */
    for (size_t i = 0; i < WINDOW; i++) {
        free(s->chunk[i].piece);
        zn_ids_fini(&s->chunk[i].ids);
    }
    free(s);
    buffer_fini(&changed[0]);
    buffer_fini(&changed[1]);
    return status;
}

/* ---- The text ---- */

static zn_status encode_piece(struct run *r, struct tok_piece piece)
{
    if (piece.n == 0)
        return ZN_OK;
    if (piece.n >= LARGE && r->t->n_threads > 1)
        return encode_large(r, 0, piece);
    struct at_op at = {.t = r->t, .scratch = r->scratch, .recent = r->recent, .ids = r->ids};
    return encode_rest(&at, piece);
}

/* The parts of a normalised piece between its added tokens. */
struct between {
    struct run *run;
    struct tok_piece piece;
};

static zn_status normalized_part(void *self, size_t start, size_t end, int32_t id)
{
    const struct between *b = self;
    if (id >= 0)
        return zn_ids_add(b->run->ids, id);
    size_t n_first = b->piece.n_first > start ? b->piece.n_first - start : 0;
    return encode_piece(b->run, (struct tok_piece){.text = b->piece.text + start, .n = end - start,
                                                   .n_first = n_first < end - start ? n_first : end - start});
}

static zn_status text_part(void *self, size_t start, size_t end, int32_t id)
{
    struct run *r = self;
    const zn_tokenizer *t = r->t;
    if (id >= 0)
        return zn_ids_add(r->ids, id);
    struct between b = {.run = r, .piece = {.text = r->text + start, .n = end - start}};
    if (start == 0)
        utf8_at(r->text, &b.piece.n_first);
    ZN_TRY(normalize_piece(&t->normalizers, r->scratch->matcher, r->recent, &b.piece, r->normalized));
    return added_cut(&t->added, true, r->scratch->matcher, b.piece.text, b.piece.n, normalized_part, &b);
}

static zn_status encode_text(struct run *r, bool add_special)
{
    const zn_tokenizer *t = r->t;
    for (size_t i = 0; add_special && i < t->n_before; i++)
        ZN_TRY(zn_ids_add(r->ids, t->before[i]));
    ZN_TRY(added_cut(&t->added, false, r->scratch->matcher, r->text, r->n, text_part, r));
    for (size_t i = 0; add_special && i < t->n_behind; i++)
        ZN_TRY(zn_ids_add(r->ids, t->behind[i]));
    return ZN_OK;
}

/* A copy with U+FFFD for what is not UTF-8, when there is such a thing. */
static zn_status repair(struct run *r, struct tok_buffer *repaired)
{
    size_t skip, valid = utf8_valid(r->text, r->n, &skip, &r->recent);
    if (valid == r->n)
        return ZN_OK;
    const char *text = r->text;
    size_t n = r->n;
    for (;;) {
        ZN_TRY(buffer_add(repaired, text, valid));
        if (skip == 0)
            break;
        ZN_TRY(buffer_add(repaired, "\xef\xbf\xbd", 3));
        text += valid + skip;
        n -= valid + skip;
        valid = utf8_valid(text, n, &skip, &r->recent);
    }
    r->text = repaired->data;
    r->n = repaired->n;
    return ZN_OK;
}

static zn_status encode(struct run *r, bool add_special)
{
    const zn_tokenizer *t = r->t;
    struct tok_buffer repaired = {0};
    zn_status status;
    r->scratch = pool_take(t->pool);
    if (!r->scratch)
        return zn_fail(ZN_ERR_MEMORY, "out of memory to encode");
    status = repair(r, &repaired);
    if (status == ZN_OK)
        status = encode_text(r, add_special);
    buffer_fini(&repaired);
    buffer_fini(&r->normalized[0]);
    buffer_fini(&r->normalized[1]);
    pool_give(t->pool, r->scratch);
    return status;
}

zn_status zn_tokenizer_encode(const zn_tokenizer *tokenizer, const char *text, size_t n_bytes, bool add_special,
                              struct zn_ids *ids)
{
    struct run run = {.t = tokenizer, .text = text, .n = n_bytes, .ids = ids};
    size_t before = ids->n;
    zn_status status = encode(&run, add_special);
    if (status != ZN_OK)
        ids->n = before;
    return status;
}
