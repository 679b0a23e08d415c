/* The optimizer and the scheduler of DeepSpeed's configuration. */
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "settings/deepspeed.h"

static const struct optimizer_type {
    const char *type; /* in any case */
    const char *name; /* ours; NULL: refused */
    double lr;        /* DeepSpeed's default; 0: it has none */
} optimizers[] = {
    {"Adam", "adamw", 1e-3},   {"AdamW", "adamw", 1e-3}, {"SGD", "sgd", 1e-3},     {"Lion", "lion", 1e-3},
    {"Adagrad", "adagrad", 0}, {"Muon", "muon", 0},      {"Lamb", NULL, 0},        {"OneBitAdam", NULL, 0},
    {"ZeroOneAdam", NULL, 0},  {"OneBitLamb", NULL, 0},  {"MuAdam", NULL, 0},      {"MuAdamW", NULL, 0},
    {"MuSGD", NULL, 0},
};

typedef enum scheduler { NO_SCHEDULER = 0, WARMUP = 1, DECAY = 2, COSINE = 4 } scheduler;

/* An object below `name`, and its parameters, which may be missing. */
struct block {
    zn_json *object, *params;
    const char *type; /* NULL: there is no such block */
};

static zn_status find_block(const struct deepspeed *d, const char *name, struct block *block)
{
    *block = (struct block){0};
    ZN_TRY(zn_json_get_object_or_null(d->root, name, &block->object));
    if (!block->object)
        return ZN_OK;
    ZN_TRY(zn_json_get_object_or_null(block->object, "params", &block->params));
    ZN_TRY(zn_json_get_string_or(block->object, "type", NULL, &block->type));
    return block->type ? ZN_OK : deepspeed_fail(d, name, "has no \"type\"");
}

static const struct optimizer_type *find_optimizer(const char *type)
{
    for (size_t i = 0; i < sizeof optimizers / sizeof optimizers[0]; i++)
        if (strcasecmp(type, optimizers[i].type) == 0)
            return &optimizers[i];
    return NULL;
}

static scheduler find_scheduler(const char *type)
{
    return strcmp(type, "WarmupLR") == 0         ? WARMUP
           : strcmp(type, "WarmupDecayLR") == 0  ? DECAY
           : strcmp(type, "WarmupCosineLR") == 0 ? COSINE
                                                 : NO_SCHEDULER;
}

zn_status deepspeed_check_types(const struct deepspeed *d)
{
    struct block optimizer, schedule;
    ZN_TRY(find_block(d, "optimizer", &optimizer));
    const struct optimizer_type *type = optimizer.type ? find_optimizer(optimizer.type) : NULL;
    if (optimizer.type && (!type || !type->name))
        return deepspeed_fail(d, "optimizer.type", "%s: not in this build", zn_shown(optimizer.type).text);
    ZN_TRY(find_block(d, "scheduler", &schedule));
    if (schedule.type && !find_scheduler(schedule.type))
        return deepspeed_fail(d, "scheduler.type", "%s: not in this build, which has WarmupLR, WarmupDecayLR and WarmupCosineLR",
                              zn_shown(schedule.type).text);
    return ZN_OK;
}

/* ---- The learning rate ---- */

static zn_status get_number(zn_json *params, const char *member, bool *has, double *value)
{
    *has = params && zn_json_has(params, member) && !deepspeed_is_auto(params, member);
    return *has ? zn_json_get_number(params, member, value) : ZN_OK;
}

/* The value of the flag on the command line. */
static double line_number(const struct deepspeed *d, const char *flag)
{
    const struct zn_command *command = d->line->command;
    for (size_t i = 0; i < command->n_options; i++)
        if (strcmp(command->options[i].name, flag) == 0)
            return *(const double *)(const void *)((const char *)d->target + command->options[i].offset);
    return 0;
}

zn_status deepspeed_get_lr(const struct deepspeed *d, bool *has_lr, double *lr)
{
    struct block optimizer;
    *has_lr = deepspeed_line_has(d, "--lr");
    if (*has_lr)
        *lr = line_number(d, "--lr");
    if (*has_lr)
        return ZN_OK;
    ZN_TRY(find_block(d, "optimizer", &optimizer));
    return get_number(optimizer.params, "lr", has_lr, lr);
}

/* Whether the scheduler says what the learning rate is, so that the optimizer's has no effect. */
static zn_status scheduler_has_lr(const struct deepspeed *d, bool *has)
{
    struct block schedule;
    ZN_TRY(find_block(d, "scheduler", &schedule));
    scheduler kind = schedule.type && !deepspeed_line_has(d, "--lr-schedule") ? find_scheduler(schedule.type) : NO_SCHEDULER;
    bool is_there = schedule.params && zn_json_has(schedule.params, "warmup_max_lr");
    *has = kind == DECAY || (kind == WARMUP && is_there);
    return ZN_OK;
}

/* Muon's two parts have one rate here. */
static zn_status read_muon(const struct deepspeed *d, zn_json *params)
{
    const char *eps = "optimizer.params.eps";
    static const char *const members[] = {"muon_lr", "adam_lr"};
    static const char *const paths[] = {"optimizer.params.muon_lr", "optimizer.params.adam_lr"};
    double lr = 0, other = 0;
    bool has_lr, has_other;
    ZN_TRY(get_number(params, "lr", &has_lr, &lr));
    for (int i = 0; i < 2; i++) {
        ZN_TRY(get_number(params, members[i], &has_other, &other));
        if (has_other && (!has_lr || other != lr))
            return deepspeed_fail(d, paths[i], "is not lr: one rate is for both parts");
    }
    ZN_TRY(deepspeed_give_text(d, "optimizer.type", "muon-scale", "original"));
    if (params && zn_json_has(params, "eps"))
        return ZN_OK;
    ZN_TRY(deepspeed_give_number(d, eps, "eps", 1e-10));
    return deepspeed_note(d, eps, "is not there: 1e-10, DeepSpeed's default");
}

static zn_status read_lr(const struct deepspeed *d, zn_json *params, const struct optimizer_type *type)
{
    bool from_scheduler;
    bool is_there = params && zn_json_has(params, "lr");
    ZN_TRY(scheduler_has_lr(d, &from_scheduler));
    if (from_scheduler && is_there && !deepspeed_is_auto(params, "lr"))
        return deepspeed_note(d, "optimizer.params.lr", "has no effect: the scheduler's warmup_max_lr is the learning rate");
    if (from_scheduler || deepspeed_line_has(d, "--lr"))
        return ZN_OK;
    if (is_there)
        return deepspeed_give(d, params, "lr", "optimizer.params.lr", "lr");
    if (type->lr == 0)
        return deepspeed_fail(d, "optimizer.params", "has no \"lr\"");
    ZN_TRY(deepspeed_give_number(d, "optimizer.params.lr", "lr", type->lr));
    return deepspeed_note(d, "optimizer.params.lr", "is not there: %g, DeepSpeed's default", type->lr);
}

/* ---- The optimizer ---- */

static zn_status read_betas(const struct deepspeed *d, zn_json *params, const struct optimizer_type *type)
{
    const char *path = "optimizer.params.betas";
    zn_json *betas;
    double beta[2];
    if (!params || !zn_json_has(params, "betas")) {
        double beta2 = strcmp(type->type, "Lion") == 0 ? 0.999 : strcmp(type->type, "Muon") == 0 ? 0.95 : 0;
        if (beta2 == 0)
            return ZN_OK;
        ZN_TRY(deepspeed_give_number(d, path, "beta2", beta2));
        return deepspeed_note(d, path, "is not there: 0.9 and %g, DeepSpeed's default", beta2);
    }
    if (deepspeed_is_auto(params, "betas")) {
        ZN_TRY(deepspeed_note_auto(d, path, "beta1"));
        return deepspeed_note_auto(d, path, "beta2");
    }
    if (zn_json_type_at(params, "betas") != ZN_JSON_ARRAY)
        return deepspeed_fail(d, path, "is a list of two numbers");
    ZN_TRY(zn_json_get_array(params, "betas", &betas));
    if (zn_json_n_items(betas) != 2)
        return deepspeed_fail(d, path, "is a list of two numbers");
    ZN_TRY(zn_json_item_number(betas, 0, &beta[0]));
    ZN_TRY(zn_json_item_number(betas, 1, &beta[1]));
    ZN_TRY(deepspeed_give_number(d, path, "beta1", beta[0]));
    return deepspeed_give_number(d, path, "beta2", beta[1]);
}

/* Adam decays as AdamW does unless it is told otherwise. */
static zn_status read_name(const struct deepspeed *d, zn_json *params, const struct optimizer_type *type)
{
    const char *path = "optimizer.params.adam_w_mode";
    bool is_coupled = false, is_adam = strcmp(type->type, "Adam") == 0;
    if (params && zn_json_has(params, "adam_w_mode")) {
        bool is_on, is_auto;
        ZN_TRY(deepspeed_get_switch(d, params, "adam_w_mode", path, &is_on, &is_auto));
        is_coupled = !is_on && !is_auto;
        if (!is_adam)
            ZN_TRY(deepspeed_note(d, path, "has no effect: it is Adam's, and the type is %s", type->type));
    }
    return deepspeed_give_text(d, "optimizer.type", "optimizer", is_adam && is_coupled ? "adam" : type->name);
}

zn_status deepspeed_read_optimizer(const struct deepspeed *d)
{
    struct block optimizer;
    bool has_decay;
    double decay = 0;
    ZN_TRY(find_block(d, "optimizer", &optimizer));
    if (!optimizer.type)
        return ZN_OK;
    const struct optimizer_type *type = find_optimizer(optimizer.type);
    ZN_TRY(read_name(d, optimizer.params, type));
    if (strcmp(type->type, "Muon") == 0)
        ZN_TRY(read_muon(d, optimizer.params));
    ZN_TRY(get_number(optimizer.params, "weight_decay", &has_decay, &decay));
    if (decay != 0)
        ZN_TRY(deepspeed_note(d, "optimizer.params.weight_decay", "is on parameters of two or more dimensions"));
    ZN_TRY(read_betas(d, optimizer.params, type));
    return read_lr(d, optimizer.params, type);
}

/* ---- The scheduler ---- */

/* A parameter, the schedulers that have it, and its setting. */
static const struct scheduler_parameter {
    const char *name, *path;
    unsigned schedulers;
    const char *flag;    /* NULL: a ratio, which is read apart */
    const char *initial; /* DeepSpeed's default; NULL: ours, or it must be there */
} parameters[] = {
    {"warmup_min_lr", "scheduler.params.warmup_min_lr", WARMUP | DECAY, "warmup-min-lr", NULL},
    {"warmup_max_lr", "scheduler.params.warmup_max_lr", WARMUP | DECAY, "lr", NULL},
    {"warmup_num_steps", "scheduler.params.warmup_num_steps", WARMUP | DECAY | COSINE, "warmup", "1000"},
    {"warmup_type", "scheduler.params.warmup_type", WARMUP | DECAY | COSINE, "warmup-type", "log"},
    {"total_num_steps", "scheduler.params.total_num_steps", DECAY | COSINE, "decay-steps", NULL},
    {"warmup_min_ratio", "scheduler.params.warmup_min_ratio", COSINE, NULL, NULL},
    {"cos_min_ratio", "scheduler.params.cos_min_ratio", COSINE, "min-lr-ratio", "0.0001"},
};

static zn_status give_initial(const struct deepspeed *d, const struct scheduler_parameter *p)
{
    if (strcmp(p->name, "warmup_type") == 0)
        ZN_TRY(deepspeed_give_text(d, p->path, p->flag, p->initial));
    else
        ZN_TRY(deepspeed_give_number(d, p->path, p->flag, strcmp(p->initial, "1000") == 0 ? 1000 : 0.0001));
    return deepspeed_note(d, p->path, "is not there: %s, DeepSpeed's default", p->initial);
}

static zn_status read_ratio(const struct deepspeed *d, zn_json *params, const struct scheduler_parameter *p)
{
    bool has_ratio, has_lr;
    double ratio = 0, lr = 0;
    ZN_TRY(get_number(params, p->name, &has_ratio, &ratio));
    if (!has_ratio || ratio == 0)
        return ZN_OK;
    ZN_TRY(deepspeed_get_lr(d, &has_lr, &lr));
    if (!has_lr)
        return deepspeed_fail(d, p->path, "needs the learning rate: give --lr");
    return deepspeed_give_number(d, p->path, "warmup-min-lr", ratio * lr);
}

static zn_status read_parameter(const struct deepspeed *d, const struct block *schedule, scheduler kind,
                                const struct scheduler_parameter *p)
{
    bool is_there = schedule->params && zn_json_has(schedule->params, p->name);
    if (!(p->schedulers & (unsigned)kind))
        return is_there ? deepspeed_fail(d, p->path, "%s does not have it", schedule->type) : ZN_OK;
    if (!p->flag)
        return read_ratio(d, schedule->params, p);
    if (strcmp(p->flag, "min-lr-ratio") == 0 && deepspeed_line_has(d, "--min-lr"))
        return ZN_OK;
    if (is_there)
        return deepspeed_give(d, schedule->params, p->name, p->path, p->flag);
    if (p->initial)
        return give_initial(d, p);
    if (strcmp(p->name, "total_num_steps") == 0)
        return deepspeed_fail(d, "scheduler", "%s needs \"total_num_steps\" in its params", schedule->type);
    if (strcmp(p->name, "warmup_max_lr") == 0 && kind == DECAY && !deepspeed_line_has(d, "--lr")) {
        ZN_TRY(deepspeed_give_number(d, p->path, p->flag, 0.001));
        return deepspeed_note(d, p->path, "is not there: 0.001, DeepSpeed's default");
    }
    return ZN_OK;
}

zn_status deepspeed_read_scheduler(const struct deepspeed *d)
{
    struct block schedule;
    ZN_TRY(find_block(d, "scheduler", &schedule));
    if (!schedule.type)
        return ZN_OK;
    if (deepspeed_line_has(d, "--lr-schedule"))
        return deepspeed_note(d, "scheduler", "has no effect: --lr-schedule is given");
    ZN_TRY(deepspeed_give_text(d, "scheduler.type", "lr-schedule", schedule.type));
    for (size_t i = 0; i < sizeof parameters / sizeof parameters[0]; i++)
        ZN_TRY(read_parameter(d, &schedule, find_scheduler(schedule.type), &parameters[i]));
    return ZN_OK;
}
