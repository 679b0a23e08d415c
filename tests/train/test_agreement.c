/* Ranks that were started differently, for every setting: a loop over the table, so a new row is tested as it is. */
#include "settings/rows.h"

#include <pthread.h>

#include "train/agreement.h"

struct rank {
    zn_comm *comm;
    struct zn_settings settings;
    size_t reuse_bytes;
    zn_status status;
    char message[512];
};

static void *agree(void *arg)
{
    struct rank *rank = arg;
    struct zn_run run = {.comm = rank->comm};
    const struct zn_engine_options engine = {.reuse_bytes = rank->reuse_bytes};
    const struct zn_data none = {0};
    rank->status = zn_json_load_buffer("{}", 2, "config.json", &run.config);
    if (rank->status == ZN_OK)
        rank->status = zn_agree_on_run(&run, &rank->settings, &engine, &none, &none);
    snprintf(rank->message, sizeof rank->message, "%s", rank->status == ZN_OK ? "" : zn_error_message());
    zn_json_destroy(run.config);
    zn_comm_destroy(rank->comm);
    return NULL;
}

/* Both ranks have the same outcome, and its text. */
static zn_status run_ranks(struct rank ranks[2])
{
    zn_clock clock;
    zn_comm *comms[2];
    pthread_t threads[2];
    zn_clock_init_real(&clock);
    OK(zn_comm_create_threads(&clock, 2, comms));
    for (int r = 0; r < 2; r++) {
        ranks[r].comm = comms[r];
        assert_int_equal(pthread_create(&threads[r], NULL, agree, &ranks[r]), 0);
    }
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    assert_int_equal(ranks[0].status, ranks[1].status);
    assert_string_equal(ranks[0].message, ranks[1].message);
    return ranks[0].status;
}

static void init(struct rank ranks[2])
{
    memset(ranks, 0, 2 * sizeof *ranks);
    for (int r = 0; r < 2; r++)
        zn_settings_init(&ranks[r].settings, ZN_FOR_TRAIN);
}

static void a_difference_is_found_as_the_row_says(void **state)
{
    (void)state;
    static struct rank ranks[2];
    int n_same = 0, n_any = 0;
    for (size_t i = 0; i < ZN_N_SETTINGS; i++) {
        const struct zn_setting *s = &zn_settings_table[i];
        const char *words[MAX_WORDS];
        char want[128];
        bool is_flag = s->kind == ZN_OPTION_FLAG;
        if (!is_flag && words_of(s, 1, words) < 0)
            continue; /* it has one value */
        init(ranks);
        set_row(&ranks[0].settings, i, 0);
        if (!is_flag)
            set_row(&ranks[1].settings, i, 1);
        snprintf(want, sizeof want, "rank 1 and rank 0 differ in %s", s->name);
        zn_status status = run_ranks(ranks);
        if (s->ranks == ZN_RANKS_SAME) {
            assert_int_equal(status, ZN_ERR_INPUT);
            assert_string_equal(ranks[0].message, want);
            n_same++;
        } else {
            assert_int_equal(status, ZN_OK);
            n_any++;
        }
    }
    assert_true(n_same > 40 && n_any > 10);
}

/* Also between a value and none. */
static void a_value_that_one_rank_lacks_is_found(void **state)
{
    (void)state;
    static struct rank ranks[2];
    init(ranks);
    ranks[1].settings.origin.min_lr = ZN_ORIGIN_LINE; /* 0 */
    assert_int_equal(run_ranks(ranks), ZN_ERR_INPUT);
    assert_string_equal(ranks[0].message, "rank 1 and rank 0 differ in --min-lr");
    init(ranks);
    ranks[1].reuse_bytes = 1;
    assert_int_equal(run_ranks(ranks), ZN_ERR_INPUT);
    assert_string_equal(ranks[0].message, "rank 1 and rank 0 differ in --prefetch-bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_difference_is_found_as_the_row_says),
        cmocka_unit_test(a_value_that_one_rank_lacks_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
