/* The summary at the end of a run. */
#include "train/summary.h"

#include "base/size.h"
#include "base/text.h"
#include "show/words.h"

void zn_summary_step(struct zn_summary *s, const struct zn_step_report *step)
{
    if (step->step == 0)
        return;
    if (s->first_step == 0)
        s->first_step = step->step;
    s->last_step = step->step;
    s->step_seconds += step->seconds;
    s->tokens += (double)step->tokens;
    s->targets += (double)step->targets;
    s->sent += (double)step->comm_bytes;
    s->read += (double)step->nvme_read_bytes;
    s->written += (double)step->nvme_write_bytes;
    s->last = *step;
}

static const char *size(double n_bytes, char text[ZN_SIZE_TEXT])
{
    return zn_size_text((size_t)n_bytes, text);
}

static void add_memory(zn_text *t, const struct zn_summary *s, const struct zn_run *run)
{
    char text[ZN_SIZE_TEXT];
    zn_text_add(t, "  memory  at most: device %s", size((double)s->last.device_bytes, text));
    zn_text_add(t, ", host %s", size((double)s->last.host_bytes, text));
    zn_text_add(t, ", nvme %s", size((double)s->last.nvme_bytes, text));
    zn_text_add(t, "\n          the process %s", size((double)s->last.resident_bytes, text));
    zn_text_add(t, " of %s\n", size((double)run->memory_limit, text));
}

/* Every rank writes as much as this one. */
static void add_wear(zn_text *t, const struct zn_summary *s, int n_ranks)
{
    double written = s->written * n_ranks + s->saved;
    char text[ZN_SIZE_TEXT];
    zn_text_add(t, "  drives  %s written in all", size(written, text));
    zn_text_add(t, " (swap %s", size(s->written * n_ranks, text));
    zn_text_add(t, ", checkpoints and model %s)", size(s->saved, text));
    zn_text_add(t, "\n          %.2g%% of what a drive of 1 TB endures, at an assumed %d TBW\n", 100 * written / (ZN_DRIVE_TBW * 1e12),
                (int)ZN_DRIVE_TBW);
}

void zn_summary_add(zn_text *t, const struct zn_summary *s, const struct zn_run *run)
{
    int n_ranks = zn_comm_n_ranks(run->comm);
    double seconds = zn_clock_now(&run->clock) - s->began;
    char text[ZN_WORDS];
    if (s->first_step == 0)
        return;
    zn_text_add(t, "steps %lld to %lld cost\n", (long long)s->first_step, (long long)s->last_step);
    zn_text_add(t, "  time    %s", zn_words_seconds(seconds, text));
    zn_text_add(t, ", %s of them in steps\n", zn_words_seconds(s->step_seconds, text));
    zn_text_add(t, "  tokens  %s", zn_words_count(s->tokens, text));
    zn_text_add(t, ", %s trained", zn_words_count(s->targets, text));
    if (s->step_seconds > 0)
        zn_text_add(t, "; %s tokens/s", zn_words_count(s->tokens / s->step_seconds, text));
    zn_text_add(t, "\n");
    add_memory(t, s, run);
    zn_text_add(t, "  moved   %s between ranks", size(s->sent * n_ranks, text));
    zn_text_add(t, ", %s read from swap", size(s->read * n_ranks, text));
    zn_text_add(t, ", %s written to it%s\n", size(s->written * n_ranks, text), n_ranks > 1 ? ", by all ranks" : "");
    add_wear(t, s, n_ranks);
}
