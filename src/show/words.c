/* Wording of quantities and of progress. */
#include "show/words.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"

const char *zn_words_seconds(double seconds, char text[ZN_WORDS])
{
    long long s = seconds < 0 ? 0 : (long long)(seconds + 0.5);
    if (seconds < 9.95)
        snprintf(text, ZN_WORDS, "%.1f s", seconds < 0 ? 0 : seconds);
    else if (s < 60)
        snprintf(text, ZN_WORDS, "%lld s", s);
    else if (s < 3600)
        snprintf(text, ZN_WORDS, "%lld min %02lld s", s / 60, s % 60);
    else if (s < 86400)
        snprintf(text, ZN_WORDS, "%lld h %02lld min", s / 3600, s / 60 % 60);
    else
        snprintf(text, ZN_WORDS, "%lld d %02lld h", s / 86400, s / 3600 % 24);
    return text;
}

/* 1, 2 or 3 digits before the point, and as many behind it as make three. */
static const char *scaled(double n, const char *const *names, int n_names, char text[ZN_WORDS])
{
    int i = 0;
    while (n >= 999.5 && i < n_names - 1) {
        n /= 1000;
        i++;
    }
    snprintf(text, ZN_WORDS, "%.*f%s", i == 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2, n, names[i]);
    return text;
}

const char *zn_words_rate(double rate, char text[ZN_WORDS])
{
    static const char *const names[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};
    return scaled(rate, names, 5, text);
}

const char *zn_words_count(double n, char text[ZN_WORDS])
{
    static const char *const names[] = {"", " k", " M", " G", " T"};
    if (n >= 999.5 && n < 9999.5) {
        snprintf(text, ZN_WORDS, "%.0f", n);
        return text;
    }
    return scaled(n, names, 5, text);
}

const char *zn_words_done(const struct zn_activity *a, char text[ZN_WORDS])
{
    char done[ZN_SIZE_TEXT], all[ZN_SIZE_TEXT], n[2][ZN_WORDS];
    text[0] = '\0';
    if (a->total <= 0)
        return text;
    if (!a->unit)
        snprintf(text, ZN_WORDS, "%.0f%%", 100 * (double)a->done / (double)a->total);
    else if (strcmp(a->unit, "bytes") == 0)
        snprintf(text, ZN_WORDS, "%s of %s", zn_size_text((size_t)a->done, done), zn_size_text((size_t)a->total, all));
    else
        snprintf(text, ZN_WORDS, "%.40s of %.40s %s", zn_words_count((double)a->done, n[0]), zn_words_count((double)a->total, n[1]),
                 a->unit);
    return text;
}

const char *zn_words_amount(const struct zn_activity *a, char text[ZN_WORDS])
{
    char n[ZN_WORDS];
    text[0] = '\0';
    if (a->total <= 0 || !a->unit)
        return text;
    if (strcmp(a->unit, "bytes") == 0)
        return zn_size_text((size_t)a->total, text);
    snprintf(text, ZN_WORDS, "%.40s %s", zn_words_count((double)a->total, n), a->unit);
    return text;
}

const char *zn_words_place(const struct zn_step_place *p, char text[ZN_WORDS])
{
    int n = 0;
    text[0] = '\0';
    if (!p->pass)
        return text;
    if (p->n_micro_batches > 1)
        n = snprintf(text, ZN_WORDS, "micro-batch %lld of %lld, ", (long long)p->micro_batch, (long long)p->n_micro_batches);
    snprintf(text + n, (size_t)(ZN_WORDS - n), "%s, %s %lld of %lld", p->pass, strcmp(p->pass, "update") == 0 ? "chunk" : "segment",
             (long long)p->segment, (long long)p->n_segments);
    return text;
}

const char *zn_words_progress(const struct zn_progress_view *view, char text[2 * ZN_WORDS])
{
    char done[ZN_WORDS], after[ZN_WORDS];
    if (view->place.step)
        zn_words_place(&view->place, done);
    else
        zn_words_done(&view->now, done);
    zn_words_seconds(view->now.seconds, after);
    if (view->place.step)
        snprintf(text, 2 * ZN_WORDS, "step %lld: %s%safter %.40s", (long long)view->place.step, done, done[0] ? ", " : "", after);
    else
        snprintf(text, 2 * ZN_WORDS, "%s: %s%s%.40s", view->now.what, done, done[0] ? " after " : "", after);
    return text;
}
