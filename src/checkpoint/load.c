/* Filling an engine: file after file, each tensor's own part in pieces of bounded size. */
#include "checkpoint/load.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"

enum { PIECE = 1 << 20 }; /* elements */

/* Where values go, and what has come. */
struct loading {
    const zn_checkpoint *checkpoint;
    const zn_model *model;
    struct zn_weights_style style;
    zn_engine *engine;       /* NULL: values are handed to take */
    zn_take_values take;
    void *self;
    float *piece;
    bool *seen; /* by state and parameter */
    const char *wanted[ZN_N_STATES]; /* states by name, or NULL */
};

static zn_status put(const struct loading *l, const zn_param *p, zn_state state, int64_t first, int64_t n)
{
    if (!l->engine)
        return l->take(l->self, p, first, l->piece, n);
    return zn_engine_write_state(l->engine, p, state, first, l->piece, n);
}

/* What is to be read from element `from` on. */
static struct zn_range next_range(const struct loading *l, const zn_param *p, int64_t from)
{
    return l->engine ? zn_engine_owned_range(l->engine, p, from) : (struct zn_range){from, p->n_elements - from};
}

static zn_status load_tensor(const struct loading *l, const zn_st_file *file, const struct zn_st_tensor *t,
                             const zn_param *p, zn_state state)
{
    struct zn_range range = next_range(l, p, 0);
    while (range.n > 0) {
        int64_t n = range.n < PIECE ? range.n : PIECE;
        ZN_TRY(zn_st_read_f32(file, t, range.first, n, l->piece));
        ZN_TRY(put(l, p, state, range.first, n));
        range = next_range(l, p, range.first + n);
    }
    l->seen[(int)state * l->model->module->n_params + p->index] = true;
    return ZN_OK;
}

/* The wanted state of this name; ZN_N_STATES: it is not wanted. */
static zn_state wanted_state(const struct loading *l, const char *name)
{
    int k = 0;
    while (k < ZN_N_STATES && (!l->wanted[k] || strcmp(l->wanted[k], name) != 0))
        k++;
    return (zn_state)k;
}

/* The parameter and state that a tensor of the optimizer's files is named after; the state is ZN_N_STATES where the
 * checkpoint has it and nobody wants it. */
static const zn_param *param_of(const struct loading *l, const char *name, zn_state *state)
{
    const zn_module *module = l->model->module;
    const char *dot = strrchr(name, '.');
    if (!dot || zn_run_state_find(&l->checkpoint->state, dot + 1) == ZN_N_STATES)
        return NULL;
    *state = wanted_state(l, dot + 1);
    size_t length = (size_t)(dot - name);
    for (int i = 0; i < module->n_params; i++) {
        struct zn_st_spec spec = zn_weights_spec(l->model, &l->style, &module->params[i]);
        if (strlen(spec.name) == length && strncmp(spec.name, name, length) == 0)
            return &module->params[i];
    }
    return NULL;
}

static zn_status load_optimizer_tensor(const struct loading *l, const zn_st_file *file, const struct zn_st_tensor *t)
{
    zn_state state;
    const zn_param *p = param_of(l, t->name, &state);
    if (!p)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' belongs to no parameter of the model", zn_st_path(file),
                       zn_shown(t->name).text);
    char is[ZN_SHAPE_TEXT], wanted[ZN_SHAPE_TEXT];
    if (t->n_dims != p->ndim || memcmp(t->dims, p->dims, (size_t)p->ndim * sizeof p->dims[0]) != 0)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' has shape %s, not %s", zn_st_path(file), zn_shown(t->name).text,
                       zn_shape_text(t->n_dims, t->dims, is), zn_shape_text(p->ndim, p->dims, wanted));
    if (t->dtype != ZN_ST_F32)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' is of type %s, not F32", zn_st_path(file), zn_shown(t->name).text,
                       zn_st_dtype_name(t->dtype));
    bool goes_in = state != ZN_N_STATES && (!l->engine || zn_engine_has_state(l->engine, p, state));
    return goes_in ? load_tensor(l, file, t, p, state) : ZN_OK;
}

static zn_status load_optimizer_file(const struct loading *l, const char *name)
{
    char *path;
    zn_st_file *file;
    ZN_TRY(zn_path_join(l->checkpoint->folder, name, &path));
    zn_status status = zn_st_open(path, &file);
    free(path);
    ZN_TRY(status);
    for (size_t i = 0; i < zn_st_n_tensors(file) && status == ZN_OK; i++)
        status = load_optimizer_tensor(l, file, zn_st_tensor_at(file, i));
    zn_st_close(file);
    return status;
}

static zn_status load_model(const struct loading *l, const zn_model_files *files)
{
    const zn_module *module = l->model->module;
    for (int i = 0; i < module->n_params; i++) {
        struct zn_model_tensor found;
        ZN_TRY(zn_weights_find(l->model, files, &l->style, &module->params[i], &found));
        ZN_TRY(load_tensor(l, found.file, found.tensor, &module->params[i], ZN_STATE_MASTER));
    }
    return ZN_OK;
}

static bool is_seen(const struct loading *l, int param, zn_state state)
{
    return l->seen[(int)state * l->model->module->n_params + param];
}

/* A parameter that was frozen has no states in the checkpoint; where it is trained from now on, they begin at zero. */
static bool is_wanted(const struct loading *l, int param, zn_state state)
{
    bool has_any = zn_run_state_find(&l->checkpoint->state, l->wanted[state]) == ZN_N_STATES;
    if (state == ZN_STATE_MASTER)
        return true;
    for (int k = ZN_STATE_OPTIMIZER; k < ZN_N_STATES; k++)
        has_any = has_any || is_seen(l, param, (zn_state)k);
    return has_any && (!l->engine || zn_engine_has_state(l->engine, &l->model->module->params[param], state));
}

static zn_status check_seen(const struct loading *l)
{
    const zn_module *module = l->model->module;
    for (int k = 0; k < ZN_N_STATES; k++) {
        for (int i = 0; i < module->n_params && l->wanted[k]; i++)
            if (is_wanted(l, i, (zn_state)k) && !is_seen(l, i, (zn_state)k))
                return zn_fail(ZN_ERR_INPUT, "%s: has no %s of '%s'", l->checkpoint->folder,
                               l->wanted[k], module->params[i].name);
    }
    return ZN_OK;
}

static void ignore_name(void *self, const char *tensor)
{
    (void)self, (void)tensor;
}

static zn_status load_all(struct loading *l)
{
    const zn_contents *contents = &l->checkpoint->contents;
    zn_model_files *files;
    ZN_TRY(zn_model_files_open(l->checkpoint->folder, &files));
    zn_status status = zn_weights_check(l->model, files, ignore_name, NULL, &l->style);
    if (status == ZN_OK && l->checkpoint->state.masters_in_model)
        status = load_model(l, files);
    zn_model_files_close(files);
    for (size_t i = 0; i < contents->n_files && status == ZN_OK; i++)
        if (strncmp(contents->files[i].name, "optimizer-", 10) == 0)
            status = load_optimizer_file(l, contents->files[i].name);
    return status == ZN_OK ? check_seen(l) : status;
}

static zn_status run(struct loading *l)
{
    l->piece = malloc(PIECE * sizeof *l->piece);
    l->seen = calloc((size_t)l->model->module->n_params * ZN_N_STATES, sizeof *l->seen);
    zn_status status = l->piece && l->seen ? load_all(l)
                                           : zn_fail(ZN_ERR_MEMORY, "no memory to load a checkpoint");
    free(l->seen);
    free(l->piece);
    return status;
}

zn_status zn_checkpoint_load(const zn_checkpoint *checkpoint, zn_engine *engine, const zn_model *model)
{
    struct loading l = {.checkpoint = checkpoint, .model = model, .engine = engine};
    ZN_TRY(zn_engine_set_pending(engine, &checkpoint->state.pending));
    for (int k = 0; k < ZN_N_STATES; k++)
        l.wanted[k] = zn_engine_state_name(engine, (zn_state)k);
    ZN_TRY(run(&l));
    zn_engine_set_updates(engine, checkpoint->state.updates);
    return ZN_OK;
}

zn_status zn_checkpoint_stream_masters(const zn_checkpoint *checkpoint, const zn_model *model, zn_take_values take,
                                       void *self)
{
    struct loading l = {.checkpoint = checkpoint, .model = model, .take = take, .self = self,
                        .wanted = {[ZN_STATE_MASTER] = "master"}};
    return run(&l);
}
