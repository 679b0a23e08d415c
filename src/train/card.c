/* Writing of the card: front matter as the hub reads it, then Markdown. The last line holds a hash of the others, by which a card that
 * nobody edited is known. */
#include "train/card.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/elementary.h"
#include "base/files.h"
#include "base/rng.h"
#include "show/words.h"
#include "text/tokenizer_unicode.h"
#include "train/adapters.h"
#include "settings/write.h"

#define SIGN "\n<!-- zinc card "
#define SIGN_END ": the next run into this folder replaces it, unless it was edited -->\n"
enum { MAX_CARD_BYTES = 16 * 1024 * 1024 };

/* ---- Losses ---- */

static void note_loss(struct zn_card_loss *first, struct zn_card_loss *last, int64_t step, double loss)
{
    *last = (struct zn_card_loss){step, loss, true};
    if (!first->is_known)
        *first = *last;
}

void zn_card_step(struct zn_card *c, const struct zn_step_report *s)
{
    if (s->step > 0 && !s->skipped)
        note_loss(&c->first, &c->last, s->step, s->loss);
    if (s->evaluated && isfinite(s->eval_loss))
        note_loss(&c->first_held, &c->last_held, s->step, s->eval_loss);
    c->targets += (double)s->targets;
}

/* ---- Text from outside ---- */

/* A character as it may stand between backticks in one line. */
static char plain(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c == '`' ? '\'' : c;
}

/* As UTF-8 in which no Markdown is found; `before_bar` goes before each bar, which would end a cell of a table. */
static void add_plain(zn_text *t, const char *string, const char *before_bar)
{
    size_t n = strlen(string);
    for (size_t i = 0; i < n;) {
        size_t skip = 0;
        bool recent;
        size_t valid = utf8_valid(string + i, n - i, &skip, &recent);
        for (size_t k = i; k < i + valid; k++)
            zn_text_add(t, "%s%c", string[k] == '|' ? before_bar : "", plain(string[k]));
        i += valid;
        if (i < n) {
            zn_text_add(t, "\xef\xbf\xbd");
            i += skip > 0 ? skip : 1;
        }
    }
}

static void add_code(zn_text *t, const char *string)
{
    add_plain(t, string, "");
}

/* The name alone: where a file lies on this machine is nobody's business. */
static const char *name_of(const char *path, char name[512])
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    size_t begin = n;
    while (begin > 0 && path[begin - 1] != '/')
        begin--;
    snprintf(name, 512, "%.*s", (int)(n - begin), path + begin);
    return name;
}

static void add_names(zn_text *t, const struct zn_words *paths, const char *what)
{
    char name[512];
    for (size_t i = 0; i < paths->n; i++) {
        zn_text_add(t, "- `");
        add_code(t, name_of(paths->word[i], name));
        zn_text_add(t, "`%s\n", what);
    }
}

/* ---- Parts ---- */

static const char *base_of(const struct zn_run *run, const struct zn_settings *o)
{
    return o->from_scratch ? NULL : zn_hub_files_name(run->hub);
}

static void add_front_matter(zn_text *t, const struct zn_run *run, const struct zn_settings *o)
{
    bool has_adapters = zn_run_has_adapters(run);
    const char *base = base_of(run, o);
    zn_text_add(t, "---\nlibrary_name: %s\n", has_adapters ? "peft" : "transformers");
    if (base)
        zn_text_add(t, "base_model: \"%s\"\n", base); /* a name on the hub has nothing to escape */
    if (!o->from_scratch)
        zn_text_add(t, "%s", zn_hub_files_license(run->hub));
    zn_text_add(t, "pipeline_tag: text-generation\ntags:\n- zinc\n%s---\n\n", has_adapters ? "- lora\n" : "");
}

static void add_head(zn_text *t, const struct zn_run *run, const struct zn_settings *o)
{
    char name[512], count[ZN_WORDS], *output = realpath(o->output, NULL); /* "." has a name, too */
    const char *base = base_of(run, o);
    zn_text_add(t, "# ");
    add_code(t, name_of(output ? output : o->output, name));
    free(output);
    zn_text_add(t, "\n\n%s `", o->from_scratch             ? "A model with random weights at first, of the shape of"
                               : zn_run_has_adapters(run) ? "LoRA adapters over"
                                                          : "Fine-tuned from");
    add_code(t, base ? base : name_of(o->model, name));
    zn_text_add(t, "` (%s, %s parameters", run->model->architecture,
                zn_words_count((double)(zn_model_n_elements(run->model) -
                                        (zn_run_has_adapters(run) ? zn_model_n_written(run->model) : 0)), count));
    if (zn_run_has_adapters(run))
        zn_text_add(t, ", %s of adapters", zn_words_count((double)zn_model_n_written(run->model), count));
    zn_text_add(t, ").\n\n");
}

static void add_loss(zn_text *t, const char *what, const struct zn_card_loss *loss, bool has_pairs)
{
    if (loss->step > 0)
        zn_text_add(t, "| %s, step %lld ", what, (long long)loss->step);
    else
        zn_text_add(t, "| %s, before step 1 ", what);
    zn_text_add(t, "| %.4f |", loss->loss);
    if (!has_pairs)
        zn_text_add(t, " %.4g |", zn_exp_f64(loss->loss));
    zn_text_add(t, "\n");
}

/* The loss of pairs has no perplexity. */
static void add_losses(zn_text *t, const struct zn_card *c, bool has_pairs)
{
    if (!c->last.is_known && !c->last_held.is_known)
        return;
    zn_text_add(t, "## Losses\n\n%s", has_pairs ? "| | loss |\n|---|---|\n" : "| | loss | perplexity |\n|---|---|---|\n");
    if (c->last.is_known)
        add_loss(t, "training", &c->first, has_pairs);
    if (c->last.is_known && c->last.step != c->first.step)
        add_loss(t, "training", &c->last, has_pairs);
    if (c->last_held.is_known)
        add_loss(t, "held out", &c->first_held, has_pairs);
    if (c->last_held.is_known && c->last_held.step != c->first_held.step)
        add_loss(t, "held out", &c->last_held, has_pairs);
    zn_text_add(t, "\n");
}

/* What the result depends on: a few settings always, others of the same sections where they were given. */
static bool is_told(const struct zn_settings *o, size_t i)
{
    static const char *const sections[] = {ZN_SECTION_MODEL, ZN_SECTION_DATA, ZN_SECTION_BATCH, ZN_SECTION_OPTIMIZER,
                                           ZN_SECTION_PRECISION};
    static const char always[] = " steps micro_batch accumulate seq_len optimizer lr lr_schedule precision seed lora_rank lora_alpha ",
                      never[] = " model adapter data eval_data epochs global_batch ";
    const struct zn_setting *s = &zn_settings_table[i];
    char word[64];
    bool is_of_result = false;
    snprintf(word, sizeof word, " %s ", s->field);
    for (size_t k = 0; k < sizeof sections / sizeof sections[0]; k++)
        is_of_result |= strcmp(s->section, sections[k]) == 0;
    if (!(s->commands & ZN_FOR_TRAIN) || !is_of_result || strstr(never, word))
        return false;
    zn_origin origin = zn_settings_origin(o, i);
    return origin >= ZN_ORIGIN_FILE || (origin != ZN_ORIGIN_NONE && strstr(always, word));
}

static void add_settings(zn_text *t, const struct zn_run *run, const struct zn_settings *o)
{
    zn_text value;
    zn_text_add(t, "## Settings\n\n| setting | value |\n|---|---|\n");
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        if (!is_told(o, i))
            continue;
        zn_text_init(&value);
        zn_setting_add_text(&value, &zn_settings_table[i], zn_settings_value(o, i));
        zn_text_add(t, "| `%s` | ", zn_settings_table[i].name);
        add_plain(t, value.data ? value.data : "yes", "\\");
        zn_text_add(t, " |\n");
        zn_text_fini(&value);
    }
    zn_text_add(t, "| ranks | %d |\n\n", zn_comm_n_ranks(run->comm));
}

static void add_card(zn_text *t, const struct zn_card *c, const struct zn_run *run, const struct zn_settings *o)
{
    char count[ZN_WORDS];
    add_front_matter(t, run, o);
    add_head(t, run, o);
    zn_text_add(t, "## Data\n\n");
    add_names(t, &o->data, "");
    add_names(t, &o->eval_data, " (held out)");
    zn_text_add(t, "\n");
    if (c->targets > 0)
        zn_text_add(t, "%s tokens trained.\n\n", zn_words_count(c->targets, count));
    add_losses(t, c, run->rows.pairs);
    add_settings(t, run, o);
    zn_text_add(t, "## How it was made\n\n");
    if (run->origin.command_line) {
        zn_text_add(t, "```sh\n");
        add_code(t, run->origin.command_line);
        zn_text_add(t, "\n```\n\n");
    }
    zn_text_add(t, "zinc %s; `run.json` has every setting, `metrics.jsonl` every step.\n", zn_version());
    uint64_t hash = zn_random_key(0, t->data ? t->data : "");
    zn_text_add(t, SIGN "%016llx" SIGN_END, (unsigned long long)hash);
}

/* ---- What is there already ---- */

/* Whether it is a card that no one edited. */
static bool is_own(char *text)
{
    char *sign = NULL;
    for (char *at = text; (at = strstr(at, SIGN)); at++)
        sign = at;
    if (!sign)
        return false;
    char *end;
    unsigned long long said = strtoull(sign + sizeof SIGN - 1, &end, 16);
    *sign = '\0';
    return strcmp(end, SIGN_END) == 0 && zn_random_key(0, text) == said;
}

/* Whether the path is free for a card, or has an old one. What cannot be read is the person's. */
static zn_status look(const char *path, bool *is_free, bool *is_old)
{
    bool found;
    char *text = NULL;
    size_t n_bytes;
    *is_old = false;
    ZN_TRY(zn_path_look(path, &found));
    *is_free = !found;
    if (found && zn_file_exists(path) && zn_file_read(path, MAX_CARD_BYTES, &text, &n_bytes) == ZN_OK)
        *is_old = is_own(text);
    free(text);
    return ZN_OK;
}

static zn_status write_card(const char *path, const struct zn_card *card, const struct zn_run *run, const struct zn_settings *o)
{
    zn_text text;
    zn_text_init(&text);
    add_card(&text, card, run, o);
    zn_status status = zn_text_status(&text);
    if (status == ZN_OK)
        status = zn_file_write(path, text.data, text.n_bytes);
    zn_text_fini(&text);
    return status;
}

zn_status zn_card_write(const struct zn_card *card, const struct zn_run *run, const struct zn_settings *o)
{
    char *path;
    bool is_free, is_old;
    ZN_TRY(zn_path_join(o->output, "README.md", &path));
    zn_status status = look(path, &is_free, &is_old);
    if (status == ZN_OK && o->card && (is_free || is_old))
        status = write_card(path, card, run, o);
    else if (status == ZN_OK && o->card)
        zn_run_note(run, "%s was not written by zinc, or was edited: it stays as it is, and no model card is written", path);
    else if (status == ZN_OK && is_old && unlink(path) != 0) /* it would tell of another run */
        status = zn_fail(ZN_ERR_IO, "%s: %s", path, strerror(errno));
    free(path);
    return status;
}
