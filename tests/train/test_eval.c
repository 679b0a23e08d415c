/* `zinc eval` from inside: the loss is the same to the last bit wherever one rank's parameters are, and on several ranks but
 * for the order in which the sums of windows are added. Ranks are threads. */
#include "files.h"

#include <math.h>
#include <pthread.h>

#include "train/train.h"

enum { MOST_RANKS = 3 };

static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
static const char *const paths[] = {"."};

struct job {
    struct zn_eval_options options;
    struct zn_eval_result result;
    zn_comm *comm;
    zn_status status;
    char message[512];
};

static void *run_rank(void *arg)
{
    struct job *j = arg;
    j->status = zn_eval_as_rank(&j->options, j->comm, &j->result);
    snprintf(j->message, sizeof j->message, "%s", j->status == ZN_OK ? "" : zn_error_message());
    zn_comm_destroy(j->comm);
    return NULL;
}

/* All ranks have the same, and one of them shows it. */
static struct zn_eval_result evaluate(const struct zn_eval_options *options, int n_ranks)
{
    struct job jobs[MOST_RANKS];
    zn_comm *comms[MOST_RANKS];
    pthread_t threads[MOST_RANKS];
    zn_clock clock;
    int n_shown = 0;
    zn_clock_init_real(&clock);
    OK(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = (struct job){.options = *options, .comm = comms[r]};
        pthread_create(&threads[r], NULL, run_rank, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    for (int r = 0; r < n_ranks; r++) {
        if (jobs[r].status != ZN_OK)
            fail_msg("rank %d of %d: %s", r, n_ranks, jobs[r].message);
        assert_memory_equal(&jobs[r].result.loss, &jobs[0].result.loss, sizeof(double));
        n_shown += jobs[r].result.is_shown;
    }
    assert_int_equal(n_shown, 1);
    return jobs[0].result;
}

static struct zn_eval_options options_of(const char *model)
{
    struct zn_eval_options o;
    zn_eval_options_init(&o);
    ZN_SET(o, model, model);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, seq_len, 32);
    ZN_SET(o, threads, 1);
    ZN_SET_WORDS(o, nvme_path, paths, 1);
    ZN_SET(o, allow_buffered_swap, true);
    return o;
}

static void the_loss_does_not_depend_on_places_and_ranks(void **state)
{
    (void)state;
    static const char *const models[] = {ZN_TEST_DATA "/parity/gpt2", ZN_TEST_DATA "/parity/qwen3-window"};
    static const char *const tiers[] = {"none", "cpu", "nvme"};
    for (int m = 0; m < 2; m++) {
        struct zn_eval_options o = options_of(models[m]);
        struct zn_eval_result want = evaluate(&o, 1);
        for (int n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++) {
            for (int t = 0; t < 3; t++) {
                ZN_SET(o, offload_param, tiers[t]);
                struct zn_eval_result got = evaluate(&o, n_ranks);
                assert_int_equal(got.windows, want.windows);
                assert_int_equal(got.tokens, want.tokens);
                if (n_ranks == 1)
                    assert_memory_equal(&got.loss, &want.loss, sizeof got.loss);
                assert_true(fabs(got.loss - want.loss) <= 1e-12 * want.loss);
            }
        }
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    struct zn_eval_result result;
    struct zn_eval_options o = options_of(ZN_TEST_DATA "/parity/gpt2");
    ZN_SET(o, offload_param, "disk");
    FAILS(zn_eval(&o, &result), ZN_ERR_USAGE, "--offload-param", "none cpu nvme");
    ZN_UNSET(o, offload_param);
    ZN_SET(o, memory_limit, 1 << 20);
    FAILS(zn_eval(&o, &result), ZN_ERR_MEMORY, "at the least", "the limit is 1.00 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_does_not_depend_on_places_and_ranks),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
