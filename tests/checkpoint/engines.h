/* Engines with known states on ranks that are threads, without training: what is saved and loaded is a function of parameter,
 * state and element. */
#ifndef ZN_TESTS_CHECKPOINT_ENGINES_H
#define ZN_TESTS_CHECKPOINT_ENGINES_H

#include <pthread.h>

#include "base/rng.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"
#include "optim/registry.h"
#include "tensor/half.h"
#include "train/run.h"

struct engine_job {
    /* What to do on a rank whose engine is ready. */
    zn_status (*work)(struct engine_job *job, struct zn_run *run);
    const char *model, *folder;
    zn_dtype type, dtype; /* of the parameters and of the weights in files */
    const zn_optimizer *optimizer;
    int stage;
    zn_tier tier;      /* of all states */
    size_t tile_bytes; /* 0: no tiles */
    uint64_t file_bytes;
    int64_t step;
    zn_comm *comm;
    zn_status status;
    char message[1024];
};

/* Some bits that every type of 16 bits rounds; of a state that is kept in fewer, what it can have. */
static inline float state_value(const zn_engine *engine, const zn_param *p, zn_state state, int64_t i)
{
    double uniform = zn_random_uniform(zn_random_key((uint64_t)state, p->name), (uint64_t)i);
    switch ((int)zn_engine_state_type(engine, state)) {
    case ZN_U8:
        return (float)(int)(uniform * 256);
    case ZN_BF16:
        return zn_bf16_to_float(zn_float_to_bf16((float)(uniform * 2 - 1)));
    }
    return (float)(uniform * 2 - 1);
}

/* Writes a value that this rank brings, or holds it to the function above. */
static inline zn_status visit_value(zn_engine *engine, const zn_param *p, zn_state state, int64_t i, bool writes)
{
    float value = state_value(engine, p, state, i);
    if (writes)
        return zn_engine_write_state(engine, p, state, i, &value, 1);
    ZN_TRY(zn_engine_read_state(engine, p, state, i, &value, 1));
    if (value != state_value(engine, p, state, i))
        return zn_fail(ZN_ERR_INTERNAL, "%s of %s differs at %lld", zn_engine_state_name(engine, state), p->name, (long long)i);
    return ZN_OK;
}

static inline zn_status visit_states(zn_engine *engine, const zn_module *module, bool writes)
{
    for (int k = 0; k < ZN_N_STATES; k++) {
        int64_t grain = zn_engine_state_grain(engine, (zn_state)k);
        for (int i = 0; i < module->n_params && zn_engine_state_name(engine, (zn_state)k); i++) {
            const zn_param *p = &module->params[i];
            for (struct zn_range own = zn_engine_owned_range(engine, p, 0); own.n > 0;
                 own = zn_engine_owned_range(engine, p, own.first + grain))
                ZN_TRY(visit_value(engine, p, (zn_state)k, own.first / grain, writes));
        }
    }
    return ZN_OK;
}

/* Writes what this rank brings. */
static inline zn_status fill_states(zn_engine *engine, const zn_module *module)
{
    ZN_TRY(visit_states(engine, module, true));
    zn_engine_set_updates(engine, 7);
    return zn_engine_publish(engine);
}

/* Every element that this rank brings is what the function says. */
static inline zn_status check_states(zn_engine *engine, const zn_module *module)
{
    ZN_TRY(visit_states(engine, module, false));
    return zn_engine_updates(engine) == 7 ? ZN_OK : zn_fail(ZN_ERR_INTERNAL, "updates differ");
}

static inline zn_status start_engine(struct engine_job *job, struct zn_run *run)
{
    int64_t seq_len = 16;
    struct zn_engine_options options = {.trains = true, .type = job->type, .optimizer = job->optimizer, .micro_batch = 1,
                                        .seq_len = 16, .accumulate = 1, .delay_after = -1,
                                        .hyperparameters = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
    ZN_TRY(zn_run_hold_files(run, job->model));
    ZN_TRY(zn_run_open_model(run, job->model, false, &seq_len));
    ZN_TRY(zn_run_measure(run, 1, 0));
    run->style.dtype = job->dtype;
    struct zn_choices choices = zn_choices_open();
    choices.stage = job->stage;
    choices.optimizer = (int)job->tier;
    choices.gradients = choices.parameters = (int)(job->stage == 3 ? job->tier : ZN_TIER_DEVICE);
    choices.tile_bytes = job->tile_bytes;
    ZN_TRY(zn_run_plan(run, &options, &choices));
    const char *const paths[] = {"/tmp"};
    const struct zn_swap_paths swap = {.paths = paths, .n_paths = 1, .allow_buffered = true};
    return zn_run_start(run, &options, &swap, 1);
}

static inline void *run_engine(void *self)
{
    struct engine_job *job = self;
    struct zn_run run;
    zn_run_init(&run, job->comm, &(struct zn_train_listener){0});
    job->status = zn_comm_agree(job->comm, start_engine(job, &run));
    if (job->status == ZN_OK)
        job->status = zn_comm_agree(job->comm, job->work(job, &run));
    if (job->status != ZN_OK)
        snprintf(job->message, sizeof job->message, "%s", zn_error_message());
    zn_run_fini(&run);
    zn_comm_destroy(job->comm);
    return NULL;
}

/* Does the work on n ranks; the status and message are those of rank 0. */
static inline zn_status on_ranks(const struct engine_job *what, int n_ranks)
{
    enum { MAX_RANKS = 8 };
    zn_clock clock;
    zn_comm *comms[MAX_RANKS];
    pthread_t threads[MAX_RANKS];
    struct engine_job jobs[MAX_RANKS];
    zn_clock_init_real(&clock);
    ZN_TRY(zn_comm_create_threads(&clock, n_ranks, comms));
    for (int r = 0; r < n_ranks; r++) {
        jobs[r] = *what;
        jobs[r].comm = comms[r];
        pthread_create(&threads[r], NULL, run_engine, &jobs[r]);
    }
    for (int r = 0; r < n_ranks; r++)
        pthread_join(threads[r], NULL);
    return jobs[0].status == ZN_OK ? ZN_OK : zn_fail_text(jobs[0].status, jobs[0].message);
}

static inline zn_status save_engine(struct engine_job *job, struct zn_run *run, bool fill)
{
    zn_save *save;
    if (fill)
        ZN_TRY(fill_states(run->engine, run->model->module));
    const struct zn_save_options options = {
        .engine = run->engine, .comm = run->comm, .model = run->model, .style = &run->style,
        .hub = run->hub, .folder = job->folder, .configuration = "{}", .file_bytes = job->file_bytes,
        .state = {.step = job->step, .updates = 7, .n_windows = 137, .consumed = 40, .seq_len = 16, .seed = 1,
                  .scale = 1, .last_overflow = -1, .optimizer = job->optimizer->name,
                  .precision = zn_dtype_name(job->type)}};
    ZN_TRY(zn_save_begin(&options, &save));
    zn_status status = zn_save_publish(save, zn_save_settle(save));
    zn_save_destroy(save);
    return status;
}

static inline zn_status save_work(struct engine_job *job, struct zn_run *run)
{
    return save_engine(job, run, true);
}

static inline void no_note(void *self, const char *text)
{
    (void)self, (void)text;
}

static inline zn_status load_work(struct engine_job *job, struct zn_run *run)
{
    zn_checkpoint *found;
    ZN_TRY(zn_checkpoint_find(run->comm, job->folder, no_note, NULL, &found));
    if (!found)
        return zn_fail(ZN_ERR_INPUT, "no checkpoint found");
    zn_status status = zn_checkpoint_load(found, run->engine, run->model);
    zn_checkpoint_close(found);
    status = zn_comm_agree(run->comm, status);
    if (status == ZN_OK)
        status = zn_engine_publish(run->engine);
    return status == ZN_OK ? check_states(run->engine, run->model->module) : status;
}

#endif
