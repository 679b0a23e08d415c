/* A submission to the communicator or the storage that fails ends the step with its cause, and nobody waits for what was never
 * submitted: each of a step in turn, with every state on NVMe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "comm/private.h"
#include "optim/registry.h"
#include "storage/private.h"
#include "train/run.h"
#include "zero/ranks.h"

#define MODEL ZN_TEST_DATA "/parity/gpt2"

enum { TIME = 16, PATIENCE = 120 /* seconds until a test that hangs is ended */ };

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/zinc-submissions-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

/* ---- Tables in which the n-th submission fails ---- */

static const struct storage_ops *storage_ops;
static const struct comm_ops *comm_ops;
static _Atomic int n_left; /* submissions until the one that fails; below 0: it has failed */

static bool is_its_turn(void)
{
    return atomic_fetch_sub(&n_left, 1) == 0;
}

static zn_status start_storage(zn_storage *storage, const struct storage_request *request)
{
    return is_its_turn() ? zn_fail(ZN_ERR_MEMORY, "no memory for the transfer") : storage_ops->start(storage, request);
}

static zn_status start_comm(zn_comm *comm, const struct comm_request *request, zn_event *done)
{
    return is_its_turn() ? zn_fail(ZN_ERR_MEMORY, "no memory for the request") : comm_ops->start(comm, request, done);
}

/* ---- Runs ---- */

struct shape {
    zn_dtype type;
    bool in_backward, vertical, fails_in_comm;
    int64_t delay_after;
};

/* Two steps, in which the n-th submission fails; whether there were as many. */
static bool fails_at(const struct shape *shape, int n)
{
    const char *paths[] = {folder};
    const struct zn_swap_paths swap = {.paths = paths, .n_paths = 1, .allow_buffered = true};
    struct zn_choices choices = zn_choices_open();
    struct zn_run run;
    zn_clock clock;
    zn_comm *comm;
    int64_t seq_len = TIME;
    struct zn_engine_options o = {.trains = true, .type = shape->type, .micro_batch = 1, .seq_len = TIME, .accumulate = 2,
                                  .optimizer = &zn_optimizer_adamw, .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
                                  .delay_after = shape->delay_after,
                                  .vertical = shape->vertical, .in_backward = shape->in_backward,
                                  .clip = shape->in_backward ? 0 : 1};
    choices.optimizer = choices.parameters = choices.gradients = choices.activations = ZN_TIER_NVME;
    zn_clock_init_real(&clock);
    assert_int_equal(zn_comm_create_self(&clock, &comm), ZN_OK);
    zn_run_init(&run, comm, &(struct zn_train_listener){0});
    assert_int_equal(zn_run_open_model(&run, MODEL, false, &seq_len), ZN_OK);
    assert_int_equal(zn_run_measure(&run, 1, 0), ZN_OK);
    if (zn_run_plan(&run, &o, &choices) != ZN_OK || zn_run_start(&run, &o, &swap, 1) != ZN_OK)
        fail_msg("%s", zn_error_message());

    storage_ops = run.storage->ops;
    comm_ops = comm->ops;
    struct storage_ops storage_table = *storage_ops;
    struct comm_ops comm_table = *comm_ops;
    storage_table.start = start_storage;
    comm_table.start = start_comm;
    atomic_store(&n_left, n);
    if (shape->fails_in_comm)
        comm->ops = &comm_table;
    else
        run.storage->ops = &storage_table;

    int32_t tokens[TIME] = {0};
    const struct zn_micro_batch batch = {.ids = tokens, .targets = tokens}, batches[] = {batch, batch};
    const struct zn_step step = {.batches = batches, .scale = 0.5f / TIME, .lr = 1e-4, .loss_scale = 1};
    struct zn_verdict verdict;
    zn_status status = ZN_OK;
    for (int i = 0; i < 2 && status == ZN_OK; i++)
        status = zn_zero_step(run.engine, &step, &verdict);
    if (status == ZN_OK)
        status = zn_zero_finish(run.engine);
    if (status != ZN_OK && !strstr(zn_error_message(), "no memory for the "))
        fail_msg("submission %d: '%s'", n, zn_error_message());
    bool failed = atomic_load(&n_left) < 0;
    assert_int_equal(status, failed ? ZN_ERR_MEMORY : ZN_OK);
    if (status != ZN_OK)
        zn_comm_abort(comm, status);
    run.storage->ops = storage_ops;
    comm->ops = comm_ops;
    zn_run_fini(&run);
    zn_comm_destroy(comm);
    return failed;
}

static void each_fails(const struct shape *shape)
{
    int n = 0;
    alarm(PATIENCE);
    while (fails_at(shape, n))
        n++;
    alarm(0);
    print_message("%d submissions\n", n);
    assert_true(n >= 4);
}

static void transfers_of_storage(void **state)
{
    (void)state;
    each_fails(&(struct shape){.type = ZN_BF16, .delay_after = -1});
    each_fails(&(struct shape){.type = ZN_F32, .delay_after = -1, .vertical = true});
}

static void transfers_of_updates_in_backward(void **state)
{
    (void)state;
    each_fails(&(struct shape){.type = ZN_BF16, .delay_after = -1, .in_backward = true});
}

static void transfers_of_delayed_updates(void **state)
{
    (void)state;
    each_fails(&(struct shape){.type = ZN_BF16, .delay_after = 0});
}

static void requests_of_ranks(void **state)
{
    (void)state;
    each_fails(&(struct shape){.type = ZN_BF16, .delay_after = -1, .fails_in_comm = true});
    each_fails(&(struct shape){.type = ZN_BF16, .delay_after = -1, .in_backward = true, .fails_in_comm = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transfers_of_storage),
        cmocka_unit_test(transfers_of_updates_in_backward),
        cmocka_unit_test(transfers_of_delayed_updates),
        cmocka_unit_test(requests_of_ranks),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
