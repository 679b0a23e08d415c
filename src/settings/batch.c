/* The windows of a step: micro-batch × accumulation × ranks. */
#include "settings/settings.h"

static zn_status refuse(const struct zn_settings *s, int64_t n_ranks)
{
    return zn_fail(ZN_ERR_USAGE, "--global-batch %lld is not --micro-batch %lld × --accumulate %lld × %lld rank%s",
                   (long long)s->global_batch, (long long)s->micro_batch, (long long)s->accumulate, (long long)n_ranks,
                   n_ranks == 1 ? "" : "s");
}

/* How often `per` goes into the batch. */
static zn_status divide(int64_t batch, int64_t per, const char *what, int64_t *value)
{
    if (batch % per != 0 || batch / per > 1048576)
        return zn_fail(ZN_ERR_USAGE, "--global-batch %lld: no %s gives it, as all else is %lld windows a step", (long long)batch,
                       what, (long long)per);
    *value = batch / per;
    return ZN_OK;
}

zn_status zn_settings_solve_batch(struct zn_settings *s, int64_t n_ranks)
{
    bool has_micro = ZN_GIVEN(s, micro_batch), has_accumulate = ZN_GIVEN(s, accumulate);
    int64_t value = 0;
    if (ZN_GIVEN(s, global_batch) && has_micro && !has_accumulate) {
        ZN_TRY(divide(s->global_batch, s->micro_batch * n_ranks, "--accumulate", &value));
        ZN_CHOOSE(s, accumulate, value);
    } else if (ZN_GIVEN(s, global_batch) && !has_micro) {
        ZN_TRY(divide(s->global_batch, s->accumulate * n_ranks, "--micro-batch", &value));
        ZN_CHOOSE(s, micro_batch, value);
    } else if (ZN_GIVEN(s, global_batch) && s->global_batch != s->micro_batch * s->accumulate * n_ranks) {
        return refuse(s, n_ranks);
    }
    ZN_CHOOSE(s, global_batch, s->micro_batch * s->accumulate * n_ranks);
    return ZN_OK;
}
