/* A CUDA device that fails in the middle of training: every rank ends with the cause, none waits for ever. Each case is a process of its
 * own on the stand-in (standin/standin.h). */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "device/on_cuda.h"
#include "zero/discrete_job.h"

struct rank {
    struct job job;
    zn_status status;
    char message[256];
};

/* Three steps, or as many as succeed. */
static zn_status train(struct job *job, struct zn_world *world, zn_engine_plan *plan, zn_engine **engine)
{
    int32_t ids[2][TIME] = {{0}};
    const struct zn_micro_batch batches[] = {{.ids = ids[0], .targets = ids[0]}, {.ids = ids[1], .targets = ids[1]}};
    struct zn_verdict verdict;
    ZN_TRY(zn_zero_create(world, job->model->module, &job->options, plan, engine));
    for (int i = 0; i < job->model->module->n_params; i++)
        ZN_TRY(zn_engine_init_param(*engine, &job->model->module->params[i], 5));
    ZN_TRY(zn_engine_publish(*engine));
    for (int s = 0; s < STEPS; s++)
        ZN_TRY(zn_zero_step(*engine, &(struct zn_step){.batches = batches, .scale = 1.0f / TIME, .lr = 1e-3, .loss_scale = 1}, &verdict));
    return zn_zero_finish(*engine);
}

static void *run_failing_rank(void *arg)
{
    struct rank *rank = arg;
    zn_ledger ledger;
    zn_clock clock;
    zn_engine_plan plan;
    zn_engine *engine = NULL;
    struct zn_world world = {.comm = rank->job.comm};
    zn_ledger_init(&ledger);
    zn_clock_init_real(&clock);
    WORLD_OK(zn_dry_run(rank->job.model->module, &rank->job.options, zn_comm_n_ranks(world.comm), &plan));
    WORLD_OK(zn_device_create_cpu(&ledger, &clock, 1, NULL, &world.host));
    rank->status = zn_device_create_cuda(job_opened, &ledger, &clock, &world.device);
    if (rank->status == ZN_OK)
        rank->status = train(&rank->job, &world, &plan, &engine);
    if (rank->status != ZN_OK)
        zn_comm_abort(world.comm, rank->status);
    snprintf(rank->message, sizeof rank->message, "%s", zn_error_message());
    zn_zero_destroy(engine);
    zn_comm_destroy(world.comm);
    zn_device_destroy(world.device);
    zn_device_destroy(world.host);
    zn_engine_plan_fini(&plan);
    return NULL;
}

/* In a process of its own: whether the ranks end, all with `cause` or, where it is NULL, all well. */
static bool ends_with(const char *cause, bool is_offloaded)
{
    enum { N_RANKS = 3 };
    zn_json *json;
    zn_clock clock;
    zn_comm *comms[N_RANKS];
    pthread_t threads[N_RANKS];
    static struct rank ranks[N_RANKS];
    zn_model *model = new_model(config, TIME, &json);
    struct zn_engine_options o = options_of(3, 2);
    bool is_right = true;
    o.is_discrete = o.stages_comm = true;
    if (is_offloaded)
        o.offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST, .activations = ZN_TIER_HOST};
    if (on_cuda.open(&job_opened) != ZN_OK)
        return false;
    zn_clock_init_real(&clock);
    WORLD_OK(zn_comm_create_threads(&clock, N_RANKS, comms));
    for (int r = 0; r < N_RANKS; r++) {
        ranks[r].job = (struct job){.options = o, .model = model, .comm = comms[r]};
        pthread_create(&threads[r], NULL, run_failing_rank, &ranks[r]);
    }
    for (int r = 0; r < N_RANKS; r++) {
        pthread_join(threads[r], NULL);
        bool is_so = cause ? ranks[r].status != ZN_OK && strstr(ranks[r].message, cause) : ranks[r].status == ZN_OK;
        if (!is_so)
            fprintf(stderr, "rank %d: status %d, '%s'\n", r, ranks[r].status, ranks[r].message);
        is_right = is_right && is_so;
    }
    zn_cuda_close(job_opened);
    zn_model_destroy(model);
    zn_json_destroy(json);
    return is_right;
}

static void in_child(const char *fault, const char *cause, bool is_offloaded)
{
    int state = 0;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        snprintf(running, sizeof running, "%s", fault ? fault : "no fault");
        sigaction(SIGALRM, &(struct sigaction){.sa_handler = bark}, NULL);
        alarm(PATIENCE);
        if (fault)
            setenv("ZINC_STANDIN_FAULT", fault, 1);
        _exit(ends_with(cause, is_offloaded) ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &state, 0), child);
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0)
        fail_msg("%s, optimizer on the %s", fault ? fault : "no fault", is_offloaded ? "host" : "device");
}

static void no_fault_trains(void **state)
{
    (void)state;
    in_child(NULL, NULL, false);
    in_child(NULL, NULL, true);
}

static void a_fault_in_backward_ends_every_rank(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char fault[32];
        snprintf(fault, sizeof fault, "kernel:%d", 1 + 11 * i); /* 18 each step: 3 ranks, 2 micro-batches, 3 layers */
        in_child(fault, "LAUNCH_FAILED", i % 2);
    }
}

static void a_failed_copy_ends_every_rank(void **state)
{
    (void)state;
    in_child("copy:40", "ECC_UNCORRECTABLE", true);
    in_child("copy:300", "ECC_UNCORRECTABLE", true);
    in_child("copy:60", "ECC_UNCORRECTABLE", false);
}

static void a_refused_launch_ends_every_rank(void **state)
{
    (void)state;
    in_child("launch:500", "LAUNCH_OUT_OF_RESOURCES", false);
    in_child("launch:900", "LAUNCH_OUT_OF_RESOURCES", true);
}

static void no_memory_ends_every_rank(void **state)
{
    (void)state;
    in_child("alloc:1", "has no memory for", false);
    in_child("alloc:17", "has no memory for", true);
}

/* Copies through staging give no failure at all. */
static void memory_that_cannot_be_pinned_trains(void **state)
{
    (void)state;
    in_child("pin", NULL, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_fault_trains),
        cmocka_unit_test(a_fault_in_backward_ends_every_rank),
        cmocka_unit_test(a_failed_copy_ends_every_rank),
        cmocka_unit_test(a_refused_launch_ends_every_rank),
        cmocka_unit_test(no_memory_ends_every_rank),
        cmocka_unit_test(memory_that_cannot_be_pinned_trains),
    };
    on_cuda_skip_without_ptx();
    setenv("ZINC_STANDIN_LAG", "5", 0);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
