/* Filling an engine: file after file, each tensor's own part in pieces of bounded size. */
#include "checkpoint/load.h"

#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/text.h"
#include "checkpoint/peft.h"

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
    return l->engine ? zn_engine_owned_range(l->engine, p, from) : (struct zn_range){from, zn_param_n_whole(p) - from};
}

static zn_status load_tensor(const struct loading *l, const zn_st_file *file, const struct zn_st_tensor *t,
                             const zn_param *p, zn_state state)
{
    int64_t grain = l->engine ? zn_engine_state_grain(l->engine, state) : 1;
    zn_status (*read)(const zn_st_file *, const struct zn_st_tensor *, int64_t, int64_t, float *) =
        t->dtype == ZN_ST_U8 ? zn_st_read_codes : zn_st_read_f32;
    struct zn_range range = next_range(l, p, 0);
    while (range.n > 0) {
        int64_t n = range.n < PIECE ? range.n : PIECE;
        ZN_TRY(read(file, t, range.first / grain, zn_state_values(n, grain), l->piece));
        ZN_TRY(put(l, p, state, range.first / grain, zn_state_values(n, grain)));
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

static const zn_param *find_param(const struct loading *l, const char *name, size_t length)
{
    const zn_module *module = l->model->module;
    for (int i = 0; i < module->n_params; i++) {
        struct zn_st_spec spec = zn_weights_spec(l->model, &l->style, &module->params[i]);
        if (strlen(spec.name) == length && strncmp(spec.name, name, length) == 0)
            return &module->params[i];
    }
    return NULL;
}

/* The parameter and state that a tensor of the optimizer's files is named after; the state is ZN_N_STATES where the
 * checkpoint has it and nobody wants it. */
static const zn_param *param_of(const struct loading *l, const char *name, zn_state *state)
{
    size_t length = strlen(name);
    for (int k = 0; k < ZN_N_STATES; k++) {
        const char *end = l->checkpoint->state.states[k];
        size_t n = end ? strlen(end) : length;
        if (n + 1 >= length || name[length - n - 1] != '.' || strcmp(name + length - n, end) != 0)
            continue;
        *state = wanted_state(l, end);
        return find_param(l, name, length - n - 1);
    }
    return NULL;
}

/* The shape and type of a state that goes into the engine, or of a master that is handed out. */
static zn_status check_tensor(const struct loading *l, const zn_st_file *file, const struct zn_st_tensor *t, const zn_param *p,
                              zn_state state)
{
    static const zn_st_dtype types[] = {[ZN_F32] = ZN_ST_F32, [ZN_BF16] = ZN_ST_BF16, [ZN_U8] = ZN_ST_U8};
    char is[ZN_SHAPE_TEXT], wanted[ZN_SHAPE_TEXT];
    zn_st_dtype type = l->engine ? types[zn_engine_state_type(l->engine, state)] : ZN_ST_F32;
    int64_t n_scales = l->engine ? zn_state_values(zn_param_n_whole(p), zn_engine_state_grain(l->engine, state)) : 0;
    int n_dims = state < ZN_STATE_SCALES ? p->ndim : 1;
    const int64_t *dims = state < ZN_STATE_SCALES ? zn_param_shape(p) : &n_scales;
    if (t->n_dims != n_dims || memcmp(t->dims, dims, (size_t)n_dims * sizeof dims[0]) != 0)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' has shape %s, not %s", zn_st_path(file), zn_shown(t->name).text,
                       zn_shape_text(t->n_dims, t->dims, is), zn_shape_text(n_dims, dims, wanted));
    if (t->dtype != type)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' is of type %s, not %s", zn_st_path(file), zn_shown(t->name).text,
                       zn_st_dtype_name(t->dtype), zn_st_dtype_name(type));
    return ZN_OK;
}

static zn_status load_optimizer_tensor(const struct loading *l, const zn_st_file *file, const struct zn_st_tensor *t)
{
    zn_state state;
    const zn_param *p = param_of(l, t->name, &state);
    if (!p)
        return zn_fail(ZN_ERR_INPUT, "%s: tensor '%s' belongs to no parameter of the model", zn_st_path(file),
                       zn_shown(t->name).text);
    if (state == ZN_N_STATES || (l->engine && !zn_engine_has_state(l->engine, p, state)))
        return ZN_OK;
    ZN_TRY(check_tensor(l, file, t, p, state));
    return load_tensor(l, file, t, p, state);
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
        for (int i = zn_model_first_written(l->model); i < module->n_params && l->wanted[k]; i++)
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

static zn_status load_model_files(struct loading *l)
{
    zn_model_files *files;
    ZN_TRY(zn_model_files_open(l->checkpoint->folder, &files));
    zn_status status = zn_weights_check(l->model, files, ignore_name, NULL, &l->style);
    if (status == ZN_OK && l->checkpoint->state.masters_in_model)
        status = load_model(l, files);
    zn_model_files_close(files);
    return status;
}

static zn_status load_adapters(const struct loading *l)
{
    char *path;
    zn_st_file *file;
    if (!l->checkpoint->state.masters_in_model)
        return ZN_OK;
    ZN_TRY(zn_path_join(l->checkpoint->folder, ZN_PEFT_WEIGHTS, &path));
    zn_status status = zn_st_open(path, &file);
    free(path);
    ZN_TRY(status);
    for (int i = zn_model_first_written(l->model); i < l->model->module->n_params && status == ZN_OK; i++) {
        const zn_param *p = &l->model->module->params[i];
        const struct zn_st_tensor *t = zn_st_find(file, p->name);
        status = t ? load_tensor(l, file, t, p, ZN_STATE_MASTER)
                   : zn_fail(ZN_ERR_INPUT, "%s: no tensor '%s'", zn_st_path(file), p->name);
    }
    zn_st_close(file);
    return status;
}

static zn_status load_all(struct loading *l)
{
    const zn_contents *contents = &l->checkpoint->contents;
    zn_status status = l->model->module->n_adapters > 0 ? load_adapters(l) : load_model_files(l);
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
