/* After the first steps nothing large is allocated and memory does not grow, with every state on NVMe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "optim/registry.h"
#include "train/run.h"
#include "zero/ranks.h"

#define MODEL ZN_TEST_DATA "/parity/gpt2"

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-steady-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void steps_allocate_nothing_large(void **state)
{
    (void)state;
    enum { TIME = 16 };
    const char *paths[] = {folder};
    const struct zn_swap_paths swap = {.paths = paths, .n_paths = 1, .allow_buffered = true};
    struct zn_choices choices = zn_choices_open();
    choices.optimizer = choices.parameters = choices.activations = ZN_TIER_NVME;
    for (int in_backward = 0; in_backward < 2; in_backward++) {
        struct zn_run run;
        zn_clock clock;
        zn_comm *comm;
        int64_t seq_len = TIME;
        struct zn_engine_options o = {.trains = true, .type = ZN_BF16, .micro_batch = 1, .seq_len = TIME, .accumulate = 1,
                                      .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                      .delay_after = -1,
                                      .in_backward = in_backward == 1, .clip = in_backward ? 0 : 1};
        zn_clock_init_real(&clock);
        assert_int_equal(zn_comm_create_self(&clock, &comm), ZN_OK);
        zn_run_init(&run, comm, &(struct zn_train_listener){0});
        assert_int_equal(zn_run_open_model(&run, MODEL, false, &seq_len), ZN_OK);
        assert_int_equal(zn_run_measure(&run, 1, 0), ZN_OK);
        assert_int_equal(zn_run_plan(&run, &o, &choices), ZN_OK);
        assert_int_equal(zn_run_start(&run, &o, &swap, 1), ZN_OK);
        int32_t tokens[TIME] = {0};
        const struct zn_micro_batch batch = {.ids = tokens, .targets = tokens};
        const struct zn_step step = {.batches = &batch, .scale = 1.0f / TIME, .lr = 1e-4, .loss_scale = 1};
        struct zn_verdict verdict;
        zn_ledger before;
        for (int i = 0; i < 20; i++) {
            assert_int_equal(zn_zero_step(run.engine, &step, &verdict), ZN_OK);
            if (i == 0)
                before = run.ledger;
        }
        assert_memory_equal(&before, &run.ledger, sizeof before);
        zn_run_fini(&run);
        zn_comm_destroy(comm);
    }
}

#if !IS_SANITIZED /* the address sanitizer keeps what is freed */
/* The process's peak, as the log has it at each step. */
static double resident_at(const char *output, int step)
{
    size_t n;
    char line[32], *log = slurp(output, "metrics.jsonl", &n);
    assert_non_null(log);
    snprintf(line, sizeof line, "{\"step\":%d,", step);
    const char *at = strstr(log, line);
    assert_non_null(at);
    at = strstr(at, "\"resident\":");
    assert_non_null(at);
    double bytes = atof(at + strlen("\"resident\":"));
    free(log);
    return bytes;
}

static void resident_memory_does_not_grow(void **state)
{
    (void)state;
    static const char *const data[] = {ZN_TEST_DATA "/parity/tokens.bin"};
    char output[96];
    struct zn_train_options o;
    snprintf(output, sizeof output, "%s/run", folder);
    zn_train_options_init(&o);
    ZN_SET(o, model, MODEL);
    ZN_SET_WORDS(o, data, data, 1);
    ZN_SET(o, output, output);
    ZN_SET(o, steps, 200);
    ZN_SET(o, seq_len, 16);
    ZN_SET(o, threads, 1);
    ZN_SET(o, precision, "bf16");
    ZN_SET(o, allow_buffered_swap, true);
    ZN_SET(o, offload_optimizer, "nvme");
    ZN_SET(o, offload_param, "nvme");
    ZN_SET(o, offload_activations, "nvme");
    assert_int_equal(train_on_ranks(&o, 1), ZN_OK);
    double early = resident_at(output, 10), late = resident_at(output, 200);
    if (late > early + 256 * 1024)
        fail_msg("resident at step 10: %.0f, at step 200: %.0f", early, late);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
#if !IS_SANITIZED
        cmocka_unit_test(resident_memory_does_not_grow),
#endif
        cmocka_unit_test(steps_allocate_nothing_large),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
