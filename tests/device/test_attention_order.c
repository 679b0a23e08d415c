/* Attention in the constant order of device/kernels.h, written as plain loops over one query and one key at a time: every
 * instruction set and number of threads gives these bits. */
#include "device/cpu/fastmath.h"
#include "device/variants.h"

VARIANTS(attention_forward)
VARIANTS(attention_backward)

enum { TILE = ZN_ATTENTION_TILE, LANES = 16 };

struct shape {
    int64_t batch, seq_len, past, heads, kv_heads, head_dim, window;
    int64_t example; /* other than 0: examples of so many tokens, the first of each sequence longer by its index */
};

/* One problem: q and what has its shape in rows of heads × head_dim, k and v in rows of kv_heads × head_dim. */
struct problem {
    struct shape s;
    int32_t *position_ids;
    float *q, *k, *v, *d_out;
    float *out, *lse, *dq, *dk, *dv;
};

static int64_t n_queries(const struct shape *s)
{
    return s->batch * s->seq_len;
}

static int64_t n_keys(const struct shape *s)
{
    return s->batch * (s->past + s->seq_len);
}

static struct problem problem_init(struct shape s)
{
    int64_t q = n_queries(&s) * s.heads * s.head_dim, kv = n_keys(&s) * s.kv_heads * s.head_dim;
    struct problem p = {
        .s = s,
        .position_ids = malloc((size_t)n_queries(&s) * sizeof(int32_t)),
        .q = random_floats("q", q, 1.5),
        .k = random_floats("k", kv, 1.5),
        .v = random_floats("v", kv, 1.0),
        .d_out = random_floats("d_out", q, 1.0),
        .out = filled_floats(q, NAN),
        .lse = filled_floats(n_queries(&s) * s.heads, NAN),
        .dq = filled_floats(q, NAN),
        .dk = filled_floats(kv, NAN),
        .dv = filled_floats(kv, NAN),
    };
    for (int64_t i = 0; i < n_queries(&s); i++) {
        int64_t b = i / s.seq_len, t = i % s.seq_len;
        p.position_ids[i] = (int32_t)(s.example == 0 ? t : t < s.example + b ? t : (t - s.example - b) % s.example);
    }
    return p;
}

static void problem_fini(struct problem *p)
{
    float *all[] = {p->q, p->k, p->v, p->d_out, p->out, p->lse, p->dq, p->dk, p->dv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    free(p->position_ids);
}

/* ---- the order ---- */

/* One head of one sequence; rows of q lie q_row apart, rows of k and v kv_row. */
struct head {
    const struct problem *p;
    const float *q, *k, *v, *d_out;
    float *out, *lse;
    int64_t batch, q_row, kv_row;
    float scale;
};

static struct head head_of(const struct problem *p, int64_t batch, int64_t head)
{
    const struct shape *s = &p->s;
    int64_t q_row = s->heads * s->head_dim, kv_row = s->kv_heads * s->head_dim;
    int64_t q = batch * s->seq_len * q_row + head * s->head_dim;
    int64_t kv = batch * (s->past + s->seq_len) * kv_row + head / (s->heads / s->kv_heads) * s->head_dim;
    return (struct head){.p = p,
                         .q = p->q + q,
                         .k = p->k + kv,
                         .v = p->v + kv,
                         .d_out = p->d_out + q,
                         .out = p->out + q,
                         .lse = p->lse + (batch * s->heads + head) * s->seq_len,
                         .batch = batch,
                         .q_row = q_row,
                         .kv_row = kv_row,
                         .scale = (float)(1.0 / sqrt((double)s->head_dim))};
}

static bool sees(const struct head *h, int64_t query, int64_t key)
{
    const struct shape *s = &h->p->s;
    int64_t place = s->past + query;
    return key <= place && (s->window == 0 || place - key < s->window) &&
           (s->past > 0 || key >= query - h->p->position_ids[h->batch * s->seq_len + query]);
}

static float chain(const float *a, const float *b, int64_t n)
{
    float sum = 0.0f;
    for (int64_t i = 0; i < n; i++)
        sum = fmaf(a[i], b[i], sum);
    return sum;
}

static float score_of(const struct head *h, int64_t query, int64_t key)
{
    return h->scale * chain(h->q + query * h->q_row, h->k + key * h->kv_row, h->p->s.head_dim);
}

/* Keys first … first+TILE for one query, of which it sees some. */
static void forward_block(const struct head *h, int64_t query, int64_t first, float *max, float *sum)
{
    const struct shape *s = &h->p->s;
    int64_t end = first + TILE < s->past + s->seq_len ? first + TILE : s->past + s->seq_len;
    float before = *max, weights[TILE] = {0}, total = 0.0f, *out = h->out + query * h->q_row;
    for (int64_t key = first; key < end; key++)
        if (sees(h, query, key) && score_of(h, query, key) > *max)
            *max = score_of(h, query, key);
    float factor = zn_exp(before - *max);
    for (int64_t key = first; key < end; key++)
        if (sees(h, query, key))
            total += weights[key - first] = zn_exp(score_of(h, query, key) - *max);
    *sum = fmaf(*sum, factor, total);
    for (int64_t i = 0; i < s->head_dim; i++) {
        float added = 0.0f;
        for (int64_t key = first; key < end; key++)
            added = fmaf(weights[key - first], h->v[key * h->kv_row + i], added);
        out[i] = fmaf(out[i], factor, added);
    }
}

static void forward_query(const struct head *h, int64_t query)
{
    const struct shape *s = &h->p->s;
    float max = -INFINITY, sum = 0.0f, *out = h->out + query * h->q_row;
    for (int64_t i = 0; i < s->head_dim; i++)
        out[i] = 0.0f;
    for (int64_t first = 0; first < s->past + s->seq_len; first += TILE)
        for (int64_t key = first; key < first + TILE && key < s->past + s->seq_len; key++)
            if (sees(h, query, key)) {
                forward_block(h, query, first, &max, &sum);
                break;
            }
    for (int64_t i = 0; i < s->head_dim; i++)
        out[i] *= 1.0f / sum;
    h->lse[query] = max + zn_log(sum);
}

static void reference_forward(struct problem *p)
{
    for (int64_t b = 0; b < p->s.batch; b++)
        for (int64_t i = 0; i < p->s.heads; i++) {
            struct head h = head_of(p, b, i);
            for (int64_t query = 0; query < p->s.seq_len; query++)
                forward_query(&h, query);
        }
}

static float lane_dot(const float *a, const float *b, int64_t n)
{
    float lanes[LANES] = {0};
    for (int64_t i = 0; i < n; i++)
        lanes[i % LANES] += a[i] * b[i];
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int l = 0; l < width; l++)
            lanes[l] += lanes[l + width];
    return lanes[0];
}

/* weights and d_scores (seq_len, seq_len) of one head. */
static void backward_scores(const struct head *h, float *weights, float *d_scores)
{
    const struct shape *s = &h->p->s;
    for (int64_t query = 0; query < s->seq_len; query++) {
        const float *d_out = h->d_out + query * h->q_row;
        float delta = lane_dot(d_out, h->out + query * h->q_row, s->head_dim);
        for (int64_t key = 0; key < s->seq_len; key++) {
            float weight = sees(h, query, key) ? zn_exp(score_of(h, query, key) - h->lse[query]) : 0.0f;
            float d_weight = chain(d_out, h->v + key * h->kv_row, s->head_dim);
            weights[query * s->seq_len + key] = weight;
            d_scores[query * s->seq_len + key] = sees(h, query, key) ? weight * (d_weight - delta) * h->scale : 0.0f;
        }
    }
}

/* sum(n) over blocks of `count` terms: the chains of factor[i·step]·x[i·row], one block added after the other. */
static void add_blocks(float *sum, const float *factor, int64_t step, const float *x, int64_t row, int64_t count, int64_t n)
{
    for (int64_t d = 0; d < n; d++) {
        sum[d] = 0.0f;
        for (int64_t first = 0; first < count; first += TILE) {
            float added = 0.0f;
            for (int64_t i = first; i < first + TILE && i < count; i++)
                added = fmaf(factor[i * step], x[i * row + d], added);
            sum[d] += added;
        }
    }
}

static void backward_head(struct problem *p, int64_t batch, int64_t head, float *weights, float *d_scores, float *sum)
{
    const struct shape *s = &p->s;
    struct head h = head_of(p, batch, head);
    bool first_of_group = head % (s->heads / s->kv_heads) == 0;
    backward_scores(&h, weights, d_scores);
    for (int64_t t = 0; t < s->seq_len; t++) {
        float *dk = p->dk + (h.k - p->k) + t * h.kv_row, *dv = p->dv + (h.v - p->v) + t * h.kv_row;
        add_blocks(p->dq + (h.q - p->q) + t * h.q_row, d_scores + t * s->seq_len, 1, h.k, h.kv_row, s->seq_len, s->head_dim);
        add_blocks(sum, d_scores + t, s->seq_len, h.q, h.q_row, s->seq_len, s->head_dim);
        for (int64_t i = 0; i < s->head_dim; i++)
            dk[i] = first_of_group ? sum[i] : dk[i] + sum[i];
        add_blocks(sum, weights + t, s->seq_len, h.d_out, h.q_row, s->seq_len, s->head_dim);
        for (int64_t i = 0; i < s->head_dim; i++)
            dv[i] = first_of_group ? sum[i] : dv[i] + sum[i];
    }
}

static void reference_backward(struct problem *p)
{
    const struct shape *s = &p->s;
    size_t n = (size_t)(s->seq_len * s->seq_len);
    float *weights = malloc(n * sizeof(float)), *d_scores = malloc(n * sizeof(float)), *sum = filled_floats(s->head_dim, 0.0f);
    for (int64_t b = 0; b < s->batch; b++)
        for (int64_t head = 0; head < s->heads; head++)
            backward_head(p, b, head, weights, d_scores, sum);
    free(weights);
    free(d_scores);
    free(sum);
}

/* ---- the kernels ---- */

static void run_forward(struct problem *p, const struct variant *variant, int n_threads)
{
    const struct shape *s = &p->s;
    int64_t q_row = s->heads * s->head_dim, kv_row = s->kv_heads * s->head_dim;
    struct zn_attention_forward_args f = {.out = address_of(p->out),
                                          .lse = address_of(p->lse),
                                          .q = address_of(p->q),
                                          .k = address_of(p->k),
                                          .v = address_of(p->v),
                                          .position_ids = s->example ? address_of(p->position_ids) : 0,
                                          .batch = s->batch,
                                          .seq_len = s->seq_len,
                                          .past = s->past,
                                          .heads = s->heads,
                                          .kv_heads = s->kv_heads,
                                          .head_dim = s->head_dim,
                                          .q_stride = q_row,
                                          .k_stride = kv_row,
                                          .v_stride = kv_row,
                                          .out_stride = q_row,
                                          .window = s->window,
                                          .scale = (float)(1.0 / sqrt((double)s->head_dim))};
    run_variant(variant, n_threads, &f);
}

static void run_backward(struct problem *p, const struct variant *variant, int n_threads)
{
    const struct shape *s = &p->s;
    int64_t q_row = s->heads * s->head_dim, kv_row = s->kv_heads * s->head_dim;
    float *delta = filled_floats(n_queries(s) * s->heads, NAN), *partial = filled_floats(2 * n_queries(s) * q_row, NAN);
    struct zn_attention_backward_args b = {.dq = address_of(p->dq),
                                           .dk = address_of(p->dk),
                                           .dv = address_of(p->dv),
                                           .d_out = address_of(p->d_out),
                                           .out = address_of(p->out),
                                           .lse = address_of(p->lse),
                                           .q = address_of(p->q),
                                           .k = address_of(p->k),
                                           .v = address_of(p->v),
                                           .delta = address_of(delta),
                                           .partial = address_of(partial),
                                           .position_ids = s->example ? address_of(p->position_ids) : 0,
                                           .batch = s->batch,
                                           .seq_len = s->seq_len,
                                           .heads = s->heads,
                                           .kv_heads = s->kv_heads,
                                           .head_dim = s->head_dim,
                                           .q_stride = q_row,
                                           .k_stride = kv_row,
                                           .v_stride = kv_row,
                                           .out_stride = q_row,
                                           .dq_stride = q_row,
                                           .dk_stride = kv_row,
                                           .dv_stride = kv_row,
                                           .window = s->window,
                                           .scale = (float)(1.0 / sqrt((double)s->head_dim))};
    run_variant(variant, n_threads, &b);
    free(delta);
    free(partial);
}

/* Backward only without a past. */
static void check(struct shape s)
{
    struct problem want = problem_init(s);
    int64_t q = n_queries(&s) * s.heads * s.head_dim, kv = n_keys(&s) * s.kv_heads * s.head_dim;
    reference_forward(&want);
    if (s.past == 0)
        reference_backward(&want);
    for (int v = 0; attention_forward_variants[v].isa; v++) {
        const struct variant *forward = &attention_forward_variants[v];
        for (int n_threads = 1; n_threads <= 3 && variant_runs_here(forward); n_threads += 2) {
            struct problem got = problem_init(s);
            run_forward(&got, forward, n_threads);
            assert_same_bits("out", want.out, got.out, q);
            assert_same_bits("lse", want.lse, got.lse, n_queries(&s) * s.heads);
            if (s.past == 0) {
                run_backward(&got, &attention_backward_variants[v], n_threads);
                assert_same_bits("dq", want.dq, got.dq, q);
                assert_same_bits("dk", want.dk, got.dk, kv);
                assert_same_bits("dv", want.dv, got.dv, kv);
            }
            problem_fini(&got);
        }
    }
    problem_fini(&want);
}

static void every_length(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 3, 5, 16, 17, 63, 64, 65, 100, 128, 150};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        check((struct shape){.batch = 1, .seq_len = lengths[i], .heads = 1, .kv_heads = 1, .head_dim = 16});
}

static void every_head_size(void **state)
{
    (void)state;
    static const int64_t sizes[] = {1, 8, 15, 20, 32, 64, 80};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        check((struct shape){.batch = 1, .seq_len = 70, .heads = 2, .kv_heads = 2, .head_dim = sizes[i]});
}

static void every_window(void **state)
{
    (void)state;
    static const int64_t windows[] = {1, 7, 16, 63, 64, 65, 100, 149, 1000};
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++)
        check((struct shape){.batch = 1, .seq_len = 150, .heads = 1, .kv_heads = 1, .head_dim = 8, .window = windows[i]});
}

static void examples_side_by_side(void **state)
{
    (void)state;
    static const int64_t examples[] = {1, 5, 16, 33, 64, 70, 140};
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        for (int64_t window = 0; window <= 20; window += 20)
            check((struct shape){
                .batch = 2, .seq_len = 150, .heads = 1, .kv_heads = 1, .head_dim = 8, .window = window, .example = examples[i]});
}

static void grouped_heads(void **state)
{
    (void)state;
    for (int64_t group = 1; group <= 3; group++)
        check((struct shape){.batch = 2, .seq_len = 90, .heads = 2 * group, .kv_heads = 2, .head_dim = 12});
}

static void queries_after_a_past(void **state)
{
    (void)state;
    static const int64_t lengths[] = {1, 2, 4, 5, 20, 70};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int64_t window = 0; window <= 40; window += 20)
            check((struct shape){
                .batch = 2, .seq_len = lengths[i], .past = 130, .heads = 4, .kv_heads = 2, .head_dim = 20, .window = window});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_length), cmocka_unit_test(every_head_size),       cmocka_unit_test(every_window),
        cmocka_unit_test(grouped_heads), cmocka_unit_test(examples_side_by_side), cmocka_unit_test(queries_after_a_past),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
