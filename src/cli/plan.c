/* `zinc plan`: the flags, and which of its ways is taken. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/commands.h"
#include "cli/plan.h"
#include "cli/plan_simulated.h"
#include "optim/registry.h"

#define AT(field) offsetof(struct plan_flags, field)

#define TIER(flag, field, default_is, what)                                                        \
    {.name = flag, .kind = ZN_OPTION_CHOICE, .offset = AT(field), .value = "TIER", .otherwise = default_is,           \
     .choices = "none cpu nvme", .help = "Tier of " what "."}

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .otherwise = "a shape",
     .help = "Hub folder; config.json is enough."},
    {.name = "--params", .kind = ZN_OPTION_STRING, .offset = AT(params), .value = "X", .otherwise = "none",
     .help = "A shape near the papers' with this many parameters: 124M, 1.5B, 1T."},
    {.name = "--layers", .kind = ZN_OPTION_INT, .offset = AT(layers), .value = "N", .range = "[1, 1000]",
     .otherwise = "none", .help = "A shape of this many blocks, with --hidden and --heads."},
    {.name = "--hidden", .kind = ZN_OPTION_INT, .offset = AT(hidden), .value = "N", .range = "[1, 2147483647]",
     .otherwise = "none", .help = "Its width."},
    {.name = "--heads", .kind = ZN_OPTION_INT, .offset = AT(heads), .value = "N", .range = "[1, 2147483647]",
     .otherwise = "none", .help = "Its attention heads."},
    {.name = "--vocab", .kind = ZN_OPTION_INT, .offset = AT(vocabulary), .value = "N", .initial = "50257",
     .range = "[1, 2147483647]", .help = "Vocabulary of a shape."},
    {.name = "--ffn", .kind = ZN_OPTION_INT, .offset = AT(ffn), .value = "N", .range = "[1, 2147483647]",
     .otherwise = "4 × hidden", .help = "Width of a shape's feed-forward part."},
    {.name = "--cluster", .kind = ZN_OPTION_STRING, .offset = AT(cluster), .value = "NAME|FILE.json",
     .initial = "this-machine",
     .help = "Where it would run: this-machine, dgx2-v100, dgx-a100, dgx-h100, desktop-24gb, cpu-server or a file."},
    {.name = "--ranks", .kind = ZN_OPTION_INT, .offset = AT(ranks), .value = "N", .range = "[1, 1048576]",
     .otherwise = "all devices of the cluster, or of --nodes; of this-machine 1", .help = "Ranks of the job."},
    {.name = "--nodes", .kind = ZN_OPTION_INT, .offset = AT(nodes), .value = "N", .range = "[1, 1048576]",
     .otherwise = "as few as hold the ranks", .help = "Nodes they are on."},
    {.name = "--stage", .kind = ZN_OPTION_CHOICE, .offset = AT(stage), .value = "N", .choices = "0 1 2 3",
     .otherwise = "as training chooses: the fastest that fits", .help = "ZeRO stage."},
    {.name = "--tensor-parallel", .kind = ZN_OPTION_INT, .offset = AT(tensor_parallel), .value = "T", .initial = "1",
     .range = "[1, 4096]", .help = "Ranks that share each layer."},
    {.name = "--partition-activations", .kind = ZN_OPTION_FLAG, .offset = AT(partition_activations),
     .help = "They keep a part of each activation checkpoint (P_a); needs recompute."},
    {.name = "--micro-batch", .kind = ZN_OPTION_INT, .offset = AT(micro_batch), .value = "B", .range = "[1, 1048576]",
     .otherwise = "the best that fits; on processors 1, and with --fit the best", .help = "Windows computed at once."},
    {.name = "--accumulate", .kind = ZN_OPTION_INT, .offset = AT(accumulate), .value = "A", .initial = "1",
     .range = "[1, 1048576]", .help = "Micro-batches of a step."},
    {.name = "--seq-len", .kind = ZN_OPTION_INT, .offset = AT(seq_len), .value = "T", .range = "[1, 2147483647]",
     .otherwise = "min(1024, the model's maximum)", .help = "Tokens of a window."},
    {.name = "--precision", .kind = ZN_OPTION_CHOICE, .offset = AT(precision), .value = "TYPE", .choices = "fp32 bf16 fp16",
     .otherwise = "of a folder as in training; of a shape bf16, or fp16 where devices lack it",
     .help = "Working precision."},
    {.name = "--recompute", .kind = ZN_OPTION_CHOICE, .offset = AT(recompute), .value = "HOW", .choices = "on off keep=N",
     .otherwise = "as training chooses", .help = "Compute activations again in backward, but for the last N segments."},
    {.name = "--keep-logits", .kind = ZN_OPTION_CHOICE, .offset = AT(keep_logits), .value = "on|off", .choices = "on off",
     .otherwise = "as training chooses", .help = "Keep the logits of a chunk of tokens for their gradient."},
    {.name = "--reduce", .kind = ZN_OPTION_CHOICE, .offset = AT(reduce), .value = "WHEN", .choices = "every last",
     .otherwise = "last at stages 0 and 1, else every", .help = "Sum gradients over ranks every micro-batch or once a step."},
    {.name = "--optimizer", .kind = ZN_OPTION_CHOICE, .offset = AT(optimizer), .value = "NAME", .initial = "adamw",
     .choices = ZN_OPTIMIZER_NAMES, .help = "The update rule."},
    {.name = "--lora-rank", .kind = ZN_OPTION_INT, .offset = AT(lora_rank), .value = "R", .range = "[1, 65536]", .otherwise = "none",
     .help = "Adapters of this rank are trained, over a frozen base."},
    {.name = "--lora-targets", .kind = ZN_OPTION_LIST, .offset = AT(lora_targets), .value = "NAME", .otherwise = "all",
     .help = "Linear layers with an adapter: all, attention, mlp, or globs over their names."},
    {.name = "--base-quantize", .kind = ZN_OPTION_CHOICE, .offset = AT(base_quantize), .value = "TYPE", .initial = "none",
     .choices = "none int8 nf4", .help = "With --lora-rank: the base's matrices are kept in 8 or 4 bits."},
    {.name = "--memory-limit", .kind = ZN_OPTION_SIZE, .offset = AT(memory_limit), .value = "SIZE",
     .otherwise = "what the cluster's devices have", .help = "What a rank may hold on its device."},
    {.name = "--prefetch-bytes", .kind = ZN_OPTION_SIZE, .offset = AT(prefetch_bytes), .value = "SIZE",
     .otherwise = "twice the largest unit, less where memory is short",
     .help = "Stage 3: how far gathers run ahead of their use."},
    {.name = "--persist-below", .kind = ZN_OPTION_SIZE, .offset = AT(persist_below), .value = "SIZE", .initial = "64KiB",
     .help = "Stage 3: units up to this size stay gathered."},
    {.name = "--fit", .kind = ZN_OPTION_OPTIONAL, .offset = AT(fit), .value = "FILE", .otherwise = "off; zinc-fit.json",
     .help = "Search for the fastest that fits, and write it as a configuration for training."},
    {.name = "--largest", .kind = ZN_OPTION_FLAG, .offset = AT(largest),
     .help = "Search for the largest model that fits: of the papers' shapes, or of --hidden and --heads in layers."},
    {.name = "--paper", .kind = ZN_OPTION_CHOICE, .offset = AT(paper), .value = "NAME",
     .choices = "zero-table1 zero-table2 infinity-fig2a infinity-bandwidth offload-strategies", .otherwise = "none",
     .help = "A table of the ZeRO papers, recomputed beside the print."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "Print one JSON object instead of text."},
    TIER("--offload-optimizer", off_optimizer, "as training chooses", "the optimizer states"),
    TIER("--offload-param", off_param, "as training chooses", "the parameters; other than none needs stage 3"),
    TIER("--offload-gradients", off_gradients, "that of the optimizer", "the gradients"),
    TIER("--offload-activations", off_activations, "as training chooses", "activation checkpoints"),
    {.name = "--tile-limit", .kind = ZN_OPTION_SIZE, .offset = AT(tile_limit), .value = "SIZE",
     .otherwise = "as training chooses", .help = "Split parameters above this size into tiles; 0: none."},
    {.name = "--host-cache", .kind = ZN_OPTION_SIZE, .offset = AT(host_cache), .value = "SIZE", .otherwise = "what --memory-limit leaves",
     .help = "Optimizer states on NVMe that stay in memory."},
    {.name = "--schedule", .kind = ZN_OPTION_CHOICE, .offset = AT(schedule), .value = "NAME", .initial = "horizontal",
     .choices = "horizontal vertical auto", .help = "Order of segments and micro-batches; auto: vertical where it saves "
     "fetching parameters and fits."},
    {.name = "--optimizer-in-backward", .kind = ZN_OPTION_FLAG, .offset = AT(in_backward),
     .help = "Update each unit as soon as its gradient is complete; without clipping."},
    {.name = "--delayed-update", .kind = ZN_OPTION_OPTIONAL, .offset = AT(delayed_update), .value = "AFTER",
     .otherwise = "off; 40 where no number is given", .help = "Apply updates one step late after so many steps."},
    {.name = "--simulate", .kind = ZN_OPTION_FLAG, .offset = AT(simulate),
     .help = "Show a step of the engine on simulated devices, links and drives, in virtual time."},
    {.name = "--program", .kind = ZN_OPTION_FLAG, .offset = AT(program),
     .help = "Print the program of a step instead, one instruction a line."},
    {.name = "--trace", .kind = ZN_OPTION_STRING, .offset = AT(trace), .value = "FILE", .otherwise = "none",
     .help = "Write the time line of that step, for Perfetto; with --simulate or without."},
};

static const struct zn_command command = {
    .name = "zinc plan",
    .summary = "where every byte and second of a run goes, before it runs",
    .usage = "--model DIR | --params X | --layers N --hidden N --heads N | --paper NAME [flags]",
    .example = "zinc plan --params 1.5B --cluster dgx2-v100 --ranks 16 --stage 2 --micro-batch 4",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

static zn_status show_paper(const struct plan_flags *f)
{
    static struct zn_paper paper;
    ZN_TRY(zn_paper_compute(f->paper, &paper));
    plan_show_paper(&paper, f->json);
    return ZN_OK;
}

static zn_status refuse_unfit(const struct plan *p)
{
    if (p->prediction.fits)
        return ZN_OK;
    return zn_fail(ZN_ERR_MEMORY, "--fit: nothing fits on %d ranks of %s; %s", p->setup.n_ranks, p->cluster.name,
                   p->advice.text);
}

static zn_status search(struct plan *p, const struct plan_flags *f)
{
    if (f->largest) {
        struct zn_family family = {f->hidden, f->heads, f->ffn, f->vocabulary};
        p->has_shape = true;
        ZN_TRY(zn_plan_largest(&p->setup, &p->choices, &family, &p->shape, &p->model, &p->prediction));
    } else {
        ZN_TRY(zn_plan_choose(&p->setup, &p->choices, &p->prediction));
    }
    return zn_predict_time(&p->setup, &p->prediction);
}

static zn_status run(const struct plan_flags *f, const struct zn_options *given)
{
    struct plan p = {0};
    bool fits = zn_options_given(given, "--fit");
    const char *config = f->fit ? f->fit : "zinc-fit.json";
    zn_status status = plan_prepare(&p, f, given);
    if (status == ZN_OK)
        status = search(&p, f);
    if (status == ZN_OK)
        zn_plan_advise(&p.setup, &p.prediction, &p.advice);
    if (status == ZN_OK && fits)
        status = refuse_unfit(&p);
    if (status == ZN_OK && fits)
        status = plan_write_config(&p, config);
    if (status == ZN_OK && f->trace)
        status = plan_write_trace(&p, f->trace);
    if (status == ZN_OK && f->program)
        status = plan_show_program(&p);
    else if (status == ZN_OK && f->json)
        status = plan_show_json(&p);
    else if (status == ZN_OK)
        plan_show_text(&p);
    if (status == ZN_OK && fits)
        fprintf(f->json ? stderr : stdout, "wrote %s\n", config);
    if (status == ZN_OK && f->trace)
        fprintf(f->json ? stderr : stdout, "wrote %s\n", f->trace);
    if (status == ZN_OK && !p.prediction.fits)
        status = zn_fail(ZN_ERR_MEMORY, "does not fit: too little %s memory; %s", zn_tier_name(p.prediction.short_of),
                         p.advice.text);
    plan_fini(&p);
    return status;
}

int zn_cli_plan(int argc, char **argv)
{
    struct plan_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        char *found = NULL;
        zn_status status = plan_check_flags(&f, &given);
        if (status == ZN_OK && f.model)
            status = zn_cli_find_model(&command, &f.model, &found);
        if (status == ZN_OK)
            status = f.paper ? show_paper(&f) : run(&f, &given);
        if (status == ZN_OK && fflush(stdout) != 0)
            status = zn_fail(ZN_ERR_IO, "cannot write to standard output");
        code = zn_cli_end(&command, status);
        free(found);
    }
    zn_options_fini(&given, &f);
    return code;
}
