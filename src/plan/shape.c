/* Shapes of models, by size and by interpolation. */
#include "plan/shape.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "plan/paper.h"

enum { HIDDEN_MULTIPLE = 128, HEAD_MULTIPLE = 8 };

/* A parameter and all its states, and room for sums of them. */
static const double STATE_BYTES = 64;

zn_status zn_count_parse(const char *text, const char *what, double *count)
{
    static const struct {
        const char *suffix;
        double factor;
    } units[] = {{"", 1}, {"K", 1e3}, {"M", 1e6}, {"B", 1e9}, {"G", 1e9}, {"T", 1e12}};
    char *end = NULL;
    double value = 0;
    /* strtod would also take hexadecimal numbers, where "B" is a digit. */
    if (isdigit((unsigned char)text[0]) && !strpbrk(text, "xX"))
        value = strtod(text, &end);
    for (size_t i = 0; end && i < sizeof units / sizeof units[0]; i++) {
        if (strcasecmp(end, units[i].suffix) != 0)
            continue;
        if (!(value > 0) || !isfinite(value * units[i].factor))
            break;
        *count = value * units[i].factor;
        return ZN_OK;
    }
    return zn_fail(ZN_ERR_USAGE, "%s: '%s' is not a number above 0 (examples: 124M, 1.5B, 1T)", what,
                   zn_shown(text).text);
}

static double positions_of(int64_t seq_len)
{
    return seq_len > 1024 ? (double)seq_len : 1024;
}

static double inner_of(const struct zn_shape *s)
{
    return s->inner ? (double)s->inner : 4.0 * (double)s->hidden;
}

double zn_shape_parameters(const struct zn_shape *s, int64_t seq_len)
{
    double h = (double)s->hidden, inner = inner_of(s);
    double block = 4 * h * h + 2 * h * inner + 9 * h + inner;
    return (double)s->layers * block + ((double)s->vocabulary + positions_of(seq_len) + 2) * h;
}

/* ---- By the number of parameters ---- */

enum { N_SMALL = 4, N_ANCHORS = N_SMALL + ZN_PAPER_SHAPES };

struct anchor {
    double layers, hidden, heads, log_parameters;
};

/* GPT-2's and GPT-3's below the papers' own. */
static void list_anchors(int64_t vocabulary, struct anchor anchors[N_ANCHORS])
{
    static const struct anchor small[N_SMALL] = {
        {12, 768, 12, 0}, {24, 2048, 16, 0}, {32, 4096, 32, 0}, {40, 5120, 40, 0}};
    for (int i = 0; i < N_ANCHORS; i++) {
        const struct zn_paper_shape *p = i < N_SMALL ? NULL : &zn_paper_shapes[i - N_SMALL];
        struct anchor *a = &anchors[i];
        *a = p ? (struct anchor){p->layers, p->hidden, p->heads, 0} : small[i];
        struct zn_shape shape = {(int64_t)a->layers, (int64_t)a->hidden, (int64_t)a->heads, 0, vocabulary};
        a->log_parameters = log(zn_shape_parameters(&shape, 0));
    }
}

static double between(double a, double b, double share)
{
    return exp(log(a) + share * (log(b) - log(a)));
}

/* The multiple of 128 whose number of parameters is nearest. */
static int64_t nearest_hidden(double n_parameters, int64_t layers, int64_t vocabulary)
{
    double a = 12 * (double)layers, b = 13 * (double)layers + (double)vocabulary + positions_of(0) + 2;
    double hidden = (sqrt(b * b + 4 * a * n_parameters) - b) / (2 * a);
    int64_t low = (int64_t)(hidden / HIDDEN_MULTIPLE) * HIDDEN_MULTIPLE, high = low + HIDDEN_MULTIPLE;
    if (low == 0)
        return high;
    struct zn_shape below = {layers, low, 1, 0, vocabulary}, above = {layers, high, 1, 0, vocabulary};
    bool up = zn_shape_parameters(&above, 0) - n_parameters < n_parameters - zn_shape_parameters(&below, 0);
    return up ? high : low;
}

/* The number of heads nearest to `wanted` whose size is a multiple of 8, and which is a multiple of `step`; `step` where there is none. */
static int64_t nearest_heads(int64_t hidden, double wanted, int64_t step)
{
    int64_t most = hidden / HEAD_MULTIPLE, best = step;
    for (int64_t heads = step; heads <= most; heads += step)
        if (most % heads == 0 && fabs(log((double)heads / wanted)) < fabs(log((double)best / wanted)))
            best = heads;
    return best;
}

zn_status zn_shape_near(double n_parameters, int64_t vocabulary, struct zn_shape *shape)
{
    struct anchor anchors[N_ANCHORS];
    double wanted = log(n_parameters);
    int i = 0;
    list_anchors(vocabulary, anchors);
    while (i < N_ANCHORS - 2 && anchors[i + 1].log_parameters < wanted)
        i++;
    const struct anchor *a = &anchors[i], *b = &anchors[i + 1];
    for (const struct anchor *own = a; own <= b; own++) {
        if (fabs(own->log_parameters - wanted) < 0.02) {
            *shape = (struct zn_shape){(int64_t)own->layers, (int64_t)own->hidden, (int64_t)own->heads, 0, vocabulary};
            return ZN_OK;
        }
    }
    double share = (wanted - a->log_parameters) / (b->log_parameters - a->log_parameters);
    double layers = round(between(a->layers, b->layers, share));
    struct zn_shape s = {.layers = layers < 1 ? 1 : layers < ZN_SHAPE_LAYERS ? (int64_t)layers : ZN_SHAPE_LAYERS,
                         .vocabulary = vocabulary};
    if (n_parameters * STATE_BYTES >= 0x1p63)
        return zn_fail(ZN_ERR_USAGE, "%.4g parameters have states beyond 2^63 bytes", n_parameters);
    s.hidden = nearest_hidden(n_parameters, s.layers, vocabulary);
    s.heads = nearest_heads(s.hidden, between(a->heads, b->heads, share), 1);
    double got = zn_shape_parameters(&s, 0);
    if (got > 1.5 * n_parameters || got < n_parameters / 1.5)
        return zn_fail(ZN_ERR_USAGE, "%.4g parameters: the nearest shape with a vocabulary of %lld has %.4g",
                       n_parameters, (long long)vocabulary, got);
    *shape = s;
    return ZN_OK;
}

zn_status zn_shape_share(struct zn_shape *shape, int64_t n_slices)
{
    if (n_slices < 2 || shape->heads % n_slices == 0)
        return ZN_OK;
    int64_t heads = nearest_heads(shape->hidden, (double)shape->heads, n_slices);
    if (shape->hidden % heads != 0)
        return zn_fail(ZN_ERR_USAGE, "--tensor-parallel %lld: no number of heads of a model with hidden %lld divides by it",
                       (long long)n_slices, (long long)shape->hidden);
    shape->heads = heads;
    return ZN_OK;
}

/* ---- The model ---- */

static zn_status check(const struct zn_shape *s, int64_t seq_len)
{
    if (s->layers < 1 || s->layers > ZN_SHAPE_LAYERS)
        return zn_fail(ZN_ERR_USAGE, "--layers %lld: from 1 to %d", (long long)s->layers, ZN_SHAPE_LAYERS);
    if (s->hidden < 1 || s->hidden > INT32_MAX || s->heads < 1 || s->inner < 0 || s->inner > INT32_MAX ||
        s->vocabulary < 1 || s->vocabulary > INT32_MAX || seq_len < 1 || seq_len > INT32_MAX)
        return zn_fail(ZN_ERR_USAGE, "sizes of a shape are from 1 to %d", INT32_MAX);
    if (s->hidden % s->heads != 0)
        return zn_fail(ZN_ERR_USAGE, "--heads %lld does not divide --hidden %lld", (long long)s->heads,
                       (long long)s->hidden);
    double n = zn_shape_parameters(s, seq_len);
    if (n * STATE_BYTES >= 0x1p63)
        return zn_fail(ZN_ERR_USAGE, "--layers %lld --hidden %lld: %.4g parameters have states beyond 2^63 bytes",
                       (long long)s->layers, (long long)s->hidden, n);
    return ZN_OK;
}

zn_status zn_shape_model(const struct zn_shape *s, int64_t seq_len, zn_model **model)
{
    return zn_shape_model_sliced(s, seq_len, 1, model);
}

zn_status zn_shape_model_sliced(const struct zn_shape *s, int64_t seq_len, int64_t n_slices, zn_model **model)
{
    zn_json *config;
    zn_text text;
    ZN_TRY(check(s, seq_len));
    zn_text_init(&text);
    zn_text_add(&text, "{\"model_type\":\"gpt2\",\"vocab_size\":%lld,\"n_embd\":%lld,\"n_layer\":%lld,\"n_head\":%lld",
                (long long)s->vocabulary, (long long)s->hidden, (long long)s->layers, (long long)s->heads);
    zn_text_add(&text, ",\"n_positions\":%.0f,\"embd_pdrop\":0,\"attn_pdrop\":0,\"resid_pdrop\":0", positions_of(seq_len));
    if (s->inner)
        zn_text_add(&text, ",\"n_inner\":%lld", (long long)s->inner);
    zn_text_add(&text, "}");
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_json_load_buffer(text.data, text.n_bytes, "the shape", &config);
    if (status == ZN_OK) {
        status = zn_model_create_sliced(config, seq_len, (struct zn_tensor_rank){0, n_slices > 1 ? (int)n_slices : 1}, model);
        zn_json_destroy(config);
    }
    zn_text_fini(&text);
    return status;
}
