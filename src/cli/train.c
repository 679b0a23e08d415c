/* `zinc train`: the flags, and what is shown on the way. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/size.h"
#include "cli/commands.h"
#include "cli/config.h"
#include "cli/launch.h"
#include "cli/signals.h"
#include "comm/comm.h"
#include "optim/registry.h"
#include "text/jsonl.h"
#include "zinc/train.h"

struct train_flags {
    const char *model, *output, *output_dtype, *optimizer, *lr_schedule, *precision, *recompute, *keep_logits, *log, *config;
    const char *trace;
    const char *stage, *device, *schedule, *reduce, *off_optimizer, *off_param, *off_gradients, *off_activations;
    struct zn_words data, eval_data, map, freeze;
    int64_t eval_every, steps, micro_batch, accumulate, seq_len, warmup, seed, threads;
    double epochs, lr, beta1, beta2, eps, momentum, weight_decay, min_lr, clip;
    size_t memory_limit, prefetch_bytes, persist_below, tile_limit, host_cache;
    struct zn_words nvme_path;
    const char *delayed_update;
    bool allow_buffered_swap, in_backward;
    const char *loss_scale, *mpirun;
    int64_t n_ranks;
    double loss_scale_init, loss_scale_min;
    int64_t loss_scale_window, hysteresis;
    bool from_scratch, overwrite, no_shuffle, byte_tokenizer;
    const char *save;
    int64_t checkpoint_every, keep;
    bool checkpoint_async;
    const char *resume, *packing;
    bool truncate_rows;
};

#define AT(field) offsetof(struct train_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder: config.json, safetensors and, for text, the tokenizer."},
    {.name = "--from-scratch", .kind = ZN_OPTION_FLAG, .offset = AT(from_scratch),
     .help = "Random weights from config.json alone."},
    {.name = "--data", .kind = ZN_OPTION_LIST, .offset = AT(data), .value = "PATH", .required = true,
     .help = "Text (.txt), rows (.jsonl, .json), token files (.bin), or folders of them."},
    {.name = "--byte-tokenizer", .kind = ZN_OPTION_FLAG, .offset = AT(byte_tokenizer),
     .help = "Take text as bytes where the folder has no tokenizer."},
    {.name = "--eval-data", .kind = ZN_OPTION_LIST, .offset = AT(eval_data), .value = "PATH", .otherwise = "none",
     .help = "Held-out data; its loss is taken at the end and every --eval-every steps."},
    {.name = "--map", .kind = ZN_OPTION_LIST, .offset = AT(map), .value = "NEW=OLD", .otherwise = "none",
     .help = "Read the key OLD of rows as NEW: messages=dialog."},
    {.name = "--eval-every", .kind = ZN_OPTION_INT, .offset = AT(eval_every), .value = "N", .initial = "0",
     .range = "[0, inf)", .help = "Steps between evaluations; 0: only at the end."},
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "DIR", .initial = "./zinc-out",
     .help = "Where the trained model and the log go."},
    {.name = "--overwrite", .kind = ZN_OPTION_FLAG, .offset = AT(overwrite),
     .help = "Replace the run that the output folder holds."},
    {.name = "--output-dtype", .kind = ZN_OPTION_CHOICE, .offset = AT(output_dtype), .value = "TYPE",
     .choices = "fp32 bf16 fp16", .otherwise = "that of the source, fp32 from scratch", .help = "Type of the weights written."},
    {.name = "--steps", .kind = ZN_OPTION_INT, .offset = AT(steps), .value = "N", .range = "[0, inf)",
     .otherwise = "one epoch, rounded up", .help = "Steps in all; 0 just writes the initial model."},
    {.name = "--epochs", .kind = ZN_OPTION_DOUBLE, .offset = AT(epochs), .value = "E", .initial = "1",
     .range = "(0, 1e6]", .help = "Passes over the data, where --steps is not given."},
    {.name = "--micro-batch", .kind = ZN_OPTION_INT, .offset = AT(micro_batch), .value = "B", .initial = "1",
     .range = "[1, 1048576]", .help = "Windows computed at once."},
    {.name = "--accumulate", .kind = ZN_OPTION_INT, .offset = AT(accumulate), .value = "A", .initial = "1",
     .range = "[1, 1048576]", .help = "Micro-batches of a step."},
    {.name = "--seq-len", .kind = ZN_OPTION_INT, .offset = AT(seq_len), .value = "T", .range = "[1, 2147483647]",
     .otherwise = "min(1024, the model's maximum)", .help = "Tokens of a window."},
    {.name = "--packing", .kind = ZN_OPTION_CHOICE, .offset = AT(packing), .value = "HOW", .choices = "best-fit none stream",
     .otherwise = "best-fit for rows that are examples", .help = "How examples come into windows: several, each seeing "
     "only itself; one; or joined and cut like text."},
    {.name = "--truncate-rows", .kind = ZN_OPTION_FLAG, .offset = AT(truncate_rows),
     .help = "Cut examples longer than a window at their end, instead of refusing them."},
    {.name = "--optimizer", .kind = ZN_OPTION_CHOICE, .offset = AT(optimizer), .value = "NAME", .initial = "adamw",
     .choices = ZN_OPTIMIZER_NAMES, .help = "The update rule."},
    {.name = "--momentum", .kind = ZN_OPTION_DOUBLE, .offset = AT(momentum), .value = "X", .initial = "0",
     .range = "[0, 1)", .help = "Momentum of sgd."},
    {.name = "--lr", .kind = ZN_OPTION_DOUBLE, .offset = AT(lr), .value = "X", .range = "(0, inf)",
     .otherwise = "2e-5, from scratch 3e-4", .help = "Learning rate."},
    {.name = "--beta1", .kind = ZN_OPTION_DOUBLE, .offset = AT(beta1), .value = "X", .initial = "0.9",
     .range = "[0, 1)", .help = "Adam's decay of the mean."},
    {.name = "--beta2", .kind = ZN_OPTION_DOUBLE, .offset = AT(beta2), .value = "X", .initial = "0.999",
     .range = "[0, 1)", .help = "Adam's decay of the square."},
    {.name = "--eps", .kind = ZN_OPTION_DOUBLE, .offset = AT(eps), .value = "X", .initial = "1e-8",
     .range = "(0, inf)", .help = "Adam's epsilon."},
    {.name = "--weight-decay", .kind = ZN_OPTION_DOUBLE, .offset = AT(weight_decay), .value = "X", .initial = "0",
     .range = "[0, inf)", .help = "On parameters of two or more dimensions."},
    {.name = "--lr-schedule", .kind = ZN_OPTION_CHOICE, .offset = AT(lr_schedule), .value = "NAME",
     .initial = "constant", .choices = "constant linear cosine", .help = "After the warm-up, down to --min-lr."},
    {.name = "--warmup", .kind = ZN_OPTION_INT, .offset = AT(warmup), .value = "STEPS", .initial = "0",
     .range = "[0, inf)", .help = "Steps until the full learning rate."},
    {.name = "--min-lr", .kind = ZN_OPTION_DOUBLE, .offset = AT(min_lr), .value = "X", .range = "[0, inf)",
     .otherwise = "none: towards 0, which the last step does not reach", .help = "Learning rate of the last step of a schedule that falls."},
    {.name = "--clip", .kind = ZN_OPTION_DOUBLE, .offset = AT(clip), .value = "X", .initial = "1.0",
     .range = "[0, inf)", .help = "Largest norm of the gradient; 0: off."},
    {.name = "--precision", .kind = ZN_OPTION_CHOICE, .offset = AT(precision), .value = "TYPE", .choices = "fp32 bf16 fp16",
     .otherwise = "bf16 if the folder is 16-bit, else fp32", .help = "Working precision."},
    {.name = "--memory-limit", .kind = ZN_OPTION_SIZE, .offset = AT(memory_limit), .value = "SIZE",
     .otherwise = "90% of what the cgroup and the machine leave", .help = "What this process may hold."},
    {.name = "--recompute", .kind = ZN_OPTION_CHOICE, .offset = AT(recompute), .value = "on|off", .choices = "on off",
     .otherwise = "chosen by the plan", .help = "Compute activations again in backward; changes no bits."},
    {.name = "--keep-logits", .kind = ZN_OPTION_CHOICE, .offset = AT(keep_logits), .value = "on|off", .choices = "on off",
     .otherwise = "chosen by the plan", .help = "Keep the logits of a chunk of tokens for their gradient; changes no bits."},
    {.name = "--seed", .kind = ZN_OPTION_INT, .offset = AT(seed), .value = "N", .initial = "1", .range = "[0, inf)",
     .help = "Of the data order and random weights."},
    {.name = "--no-shuffle", .kind = ZN_OPTION_FLAG, .offset = AT(no_shuffle), .help = "Take the data in its order."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores", .help = "Threads to compute with; changes no bits."},
    {.name = "--log", .kind = ZN_OPTION_STRING, .offset = AT(log), .value = "FILE", .otherwise = "OUTPUT/metrics.jsonl",
     .help = "One JSON object a step."},
    {.name = "--trace", .kind = ZN_OPTION_STRING, .offset = AT(trace), .value = "FILE", .otherwise = "none",
     .help = "Write the time line of one step of rank 0, for Perfetto: the third, or the last of fewer."},
    {.name = "--save", .kind = ZN_OPTION_CHOICE, .offset = AT(save), .value = "WHAT", .initial = "model", .choices = "model all",
     .help = "At the end: the weights alone, or a checkpoint to go on from, too."},
    {.name = "--checkpoint-every", .kind = ZN_OPTION_INT, .offset = AT(checkpoint_every), .value = "N", .initial = "0",
     .range = "[0, inf)", .help = "Steps between checkpoints; 0: only on SIGTERM, SIGINT, SIGHUP, SIGUSR1."},
    {.name = "--keep", .kind = ZN_OPTION_INT, .offset = AT(keep), .value = "K", .initial = "2", .range = "[0, inf)",
     .help = "Checkpoints that stay; 0: none is saved."},
    {.name = "--checkpoint-async", .kind = ZN_OPTION_FLAG, .offset = AT(checkpoint_async),
     .help = "Sync and hash checkpoints while training goes on."},
    {.name = "--resume", .kind = ZN_OPTION_OPTIONAL, .offset = AT(resume), .value = "DIR",
     .otherwise = "off; without DIR the newest whole checkpoint of the output folder",
     .help = "Go on from a checkpoint; --steps is the total."},
    {.name = "-n", .kind = ZN_OPTION_INT, .offset = AT(n_ranks), .value = "RANKS", .range = "[1, 1048576]",
     .not_in_file = true, .otherwise = "one process", .help = "Start mpirun with this many ranks."},
    {.name = "--mpirun", .kind = ZN_OPTION_STRING, .offset = AT(mpirun), .value = "PATH", .otherwise = "the one on PATH",
     .not_in_file = true, .help = "The mpirun that -n starts."},
    {.name = "--freeze", .kind = ZN_OPTION_LIST, .offset = AT(freeze), .value = "PATTERN", .otherwise = "none",
     .help = "Parameters whose names match the glob are not trained."},
    {.name = "--stage", .kind = ZN_OPTION_CHOICE, .offset = AT(stage), .value = "N", .choices = "0 1 2 3",
     .otherwise = "the fastest that fits",
     .help = "ZeRO stage: 1 partitions optimizer states, 2 gradients too, 3 parameters too."},
    {.name = "--reduce", .kind = ZN_OPTION_CHOICE, .offset = AT(reduce), .value = "WHEN", .choices = "every last",
     .otherwise = "last at stages 0 and 1, else every", .help = "Sum gradients over ranks every micro-batch or once a step."},
    {.name = "--prefetch-bytes", .kind = ZN_OPTION_SIZE, .offset = AT(prefetch_bytes), .value = "SIZE",
     .otherwise = "twice the largest unit, less where memory is short",
     .help = "Stage 3: how far gathers run ahead of their use."},
    {.name = "--persist-below", .kind = ZN_OPTION_SIZE, .offset = AT(persist_below), .value = "SIZE",
     .otherwise = "64 KiB", .help = "Stage 3: units up to this size stay gathered."},
    {.name = "--loss-scale", .kind = ZN_OPTION_STRING, .offset = AT(loss_scale), .value = "dynamic|X",
     .initial = "dynamic", .may_be_number = true, .help = "fp16: the loss scale."},
    {.name = "--loss-scale-init", .kind = ZN_OPTION_DOUBLE, .offset = AT(loss_scale_init), .value = "X",
     .initial = "65536", .range = "[1e-30, 1e38]", .help = "fp16: where the dynamic scale begins."},
    {.name = "--loss-scale-window", .kind = ZN_OPTION_INT, .offset = AT(loss_scale_window), .value = "STEPS",
     .initial = "1000", .range = "[1, inf)", .help = "fp16: good steps until it doubles."},
    {.name = "--hysteresis", .kind = ZN_OPTION_INT, .offset = AT(hysteresis), .value = "N", .initial = "2",
     .range = "[1, inf)", .help = "fp16: overflows until it halves."},
    {.name = "--loss-scale-min", .kind = ZN_OPTION_DOUBLE, .offset = AT(loss_scale_min), .value = "X",
     .initial = "1", .range = "[1e-30, 1e38]", .help = "fp16: it does not fall below."},
    {.name = "--device", .kind = ZN_OPTION_CHOICE, .offset = AT(device), .value = "NAME", .initial = "cpu",
     .choices = "cpu sim opencl cuda", .not_yet = "sim opencl cuda", .help = "Where to compute."},
    {.name = "--schedule", .kind = ZN_OPTION_CHOICE, .offset = AT(schedule), .value = "NAME", .initial = "horizontal",
     .choices = "horizontal vertical auto", .help = "Order of segments and micro-batches; auto: vertical where it saves "
     "fetching parameters and fits."},
    {.name = "--offload-optimizer", .kind = ZN_OPTION_CHOICE, .offset = AT(off_optimizer), .value = "TIER",
     .otherwise = "chosen by the plan", .choices = "none cpu nvme", .help = "Tier of the optimizer states."},
    {.name = "--offload-param", .kind = ZN_OPTION_CHOICE, .offset = AT(off_param), .value = "TIER",
     .otherwise = "chosen by the plan", .choices = "none cpu nvme", .help = "Tier of the parameters; other than none needs stage 3."},
    {.name = "--offload-gradients", .kind = ZN_OPTION_CHOICE, .offset = AT(off_gradients), .value = "TIER",
     .otherwise = "that of the optimizer", .choices = "none cpu nvme", .help = "Tier of the gradients."},
    {.name = "--offload-activations", .kind = ZN_OPTION_CHOICE, .offset = AT(off_activations), .value = "TIER",
     .otherwise = "chosen by the plan", .choices = "none cpu nvme", .help = "Tier of activation checkpoints."},
    {.name = "--nvme-path", .kind = ZN_OPTION_LIST, .offset = AT(nvme_path), .value = "DIR",
     .otherwise = "the output folder", .help = "Folders for states on NVMe; several are used at once."},
    {.name = "--allow-buffered-swap", .kind = ZN_OPTION_FLAG, .offset = AT(allow_buffered_swap),
     .help = "Swap also on file systems in memory or without O_DIRECT."},
    {.name = "--tile-limit", .kind = ZN_OPTION_SIZE, .offset = AT(tile_limit), .value = "SIZE",
     .otherwise = "chosen by the plan", .help = "Split parameters above this size into tiles; 0: none."},
    {.name = "--host-cache", .kind = ZN_OPTION_SIZE, .offset = AT(host_cache), .value = "SIZE", .otherwise = "0",
     .help = "Optimizer states on NVMe that stay in memory."},
    {.name = "--optimizer-in-backward", .kind = ZN_OPTION_FLAG, .offset = AT(in_backward),
     .help = "Update each unit as soon as its gradient is complete; needs --clip 0."},
    {.name = "--delayed-update", .kind = ZN_OPTION_OPTIONAL, .offset = AT(delayed_update), .value = "AFTER",
     .may_be_number = true, .otherwise = "off; 40 where no number is given",
     .help = "Apply updates one step late after so many steps."},
    {.name = "--config", .kind = ZN_OPTION_STRING, .offset = AT(config), .value = "FILE", .not_in_file = true, .otherwise = "none",
     .help = "Flags from a file, as `zinc plan --fit` writes them; those given here stand."},
};

static zn_status fill(struct zn_options *options, void *target)
{
    const struct train_flags *f = target;
    return f->config ? zn_config_load(options, target, f->config) : ZN_OK;
}

static const struct zn_command command = {
    .name = "zinc train",
    .summary = "train or fine-tune a model of the hub",
    .usage = "--model DIR --data PATH… [flags]",
    .example = "zinc train --model ./gpt2 --data book.bin --steps 100 --output ./gpt2-book",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
    .fill = fill,
};

/* Where the run is shown, and what was. */
struct screen {
    bool is_terminal;
    bool has_failed; /* which is told, here or on another rank */
};

/* Begins a line in the place of the one that is written over. */
static const char *new_line(const struct screen *screen)
{
    return screen->is_terminal ? "\r\033[K" : "";
}

static void show_note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc train: %s\n", text);
    zn_cli_flush(stderr);
}

static void show_failure(void *self, const char *text, bool speaks)
{
    struct screen *screen = self;
    screen->has_failed = true;
    if (speaks)
        fprintf(stderr, "%szinc train: %s\n", new_line(screen), text);
}

static void show_writes(const struct zn_plan_report *p)
{
    char text[ZN_SIZE_TEXT];
    printf("  writes: model %s; ", zn_size_text(p->model_bytes, text));
    zn_size_text(p->checkpoint_bytes, text);
    if (p->keep == 0)
        printf("no checkpoints, as --keep is 0\n");
    else if (p->checkpoint_every == 0)
        printf("%s %s (%s)\n", p->saves_at_end ? "a checkpoint at the end," : "a checkpoint only when it is stopped,", text,
               p->saves_at_end ? "--save all" : "--save all: one at the end, too");
    else
        printf("checkpoints %s each, every %lld steps%s, %lld kept\n", text, (long long)p->checkpoint_every,
               p->saves_at_end ? " and at the end" : "", (long long)p->keep);
}

static void show_plan(void *self, const struct zn_plan_report *p)
{
    (void)self;
    static const char *const kinds[] = {"parameters", "gradients", "optimizer", "activations", "buffers"};
    char text[ZN_SIZE_TEXT];
    size_t sum[3] = {0};
    printf("%s, %.1f M parameters, %s; %lld steps of %lld tokens", p->architecture, (double)p->n_parameters / 1e6,
           p->precision, (long long)p->steps, (long long)p->tokens_per_step);
    if (p->ranks > 1)
        printf("; %d ranks, stage %d", p->ranks, p->stage);
    printf("; %d threads%s, %s%s%s", p->threads, p->ranks > 1 ? " each" : "", p->isa,
           p->recompute ? ", activations recomputed" : "", p->vertical ? ", vertical" : "");
    if (p->tile_bytes)
        printf(", tiles of %s", zn_size_text(p->tile_bytes, text));
    printf("\n  %-12s %12s %12s %12s\n", "", "device", "host", "nvme");
    for (int k = 0; k < 5; k++) {
        printf("  %-12s", kinds[k]);
        for (int tier = 0; tier < 3; tier++) {
            printf(" %12s", zn_size_text(p->bytes[k][tier], text));
            sum[tier] += p->bytes[k][tier];
        }
        putchar('\n');
    }
    printf("  %-12s", "planned");
    for (int tier = 0; tier < 3; tier++)
        printf(" %12s", zn_size_text(sum[tier], text));
    printf("\n  memory of this process: %s", zn_size_text(sum[0] + sum[1] + p->process_bytes, text));
    printf(" of %s\n", zn_size_text(p->memory_limit, text));
    if (p->schedule_reason)
        printf("  schedule: %s, as %s\n", p->vertical ? "vertical" : "horizontal", p->schedule_reason);
    show_writes(p);
    fflush(stdout);
}

static void show_held_out(const struct zn_step_report *s)
{
    if (s->evaluated && s->eval_reason)
        printf(" held-out loss not finite: %s", s->eval_reason);
    else if (s->evaluated)
        printf(" held-out loss %.4f", s->eval_loss);
}

/* On a terminal one line that is written over; elsewhere a line a step. */
static void show_step(void *self, const struct zn_step_report *s)
{
    const struct screen *screen = self;
    char device[ZN_SIZE_TEXT];
    if (s->step == 0) { /* before the first */
        printf("before training:");
        show_held_out(s);
        putchar('\n');
        fflush(stdout);
        return;
    }
    double rate = (double)s->tokens / s->seconds, trained = (double)s->targets / s->seconds;
    double left = (double)(s->steps - s->step) * s->seconds;
    if (s->skipped)
        fprintf(stderr, "%szinc train: step %lld skipped: %s\n", new_line(screen), (long long)s->step, s->reason);
    printf("%sstep %lld/%lld  ", new_line(screen), (long long)s->step, (long long)s->steps);
    if (s->skipped)
        printf("skipped");
    else
        printf("loss %.4f  norm %.3f", s->loss, s->grad_norm);
    printf("  lr %.3g  %.0f tokens/s", s->lr, rate);
    if (s->targets < s->tokens)
        printf(" (%.0f trained)", trained);
    printf("  %s", zn_size_text(s->device_bytes, device));
    if (screen->is_terminal && s->step < s->steps)
        printf("  %d:%02d:%02d left", (int)(left / 3600), (int)fmod(left / 60, 60), (int)fmod(left, 60));
    if (s->evaluated)
        putchar(' ');
    show_held_out(s);
    if (!screen->is_terminal || s->evaluated || s->step == s->steps)
        putchar('\n');
    zn_cli_flush(stdout);
}

static void show_end(void *self, const char *output)
{
    (void)self;
    printf("wrote %s\n", output);
}

static void show_saved(void *self, const char *checkpoint, double seconds)
{
    printf("%ssaved %s in %.1f s\n", new_line(self), checkpoint, seconds);
    zn_cli_flush(stdout);
}

static struct zn_train_options options_of(const struct train_flags *f, const struct zn_options *given)
{
    struct zn_train_options o;
    zn_train_options_init(&o);
    o.model = f->model;
    o.from_scratch = f->from_scratch;
    o.data = f->data.word;
    o.n_data = f->data.n;
    o.byte_tokenizer = f->byte_tokenizer;
    o.eval_data = f->eval_data.word;
    o.n_eval_data = f->eval_data.n;
    o.map = f->map.word;
    o.n_map = f->map.n;
    o.eval_every = f->eval_every;
    o.output = f->output;
    o.overwrite = f->overwrite;
    o.output_dtype = f->output_dtype;
    o.steps = zn_options_given(given, "--steps") ? f->steps : -1;
    o.epochs = f->epochs;
    o.micro_batch = f->micro_batch;
    o.accumulate = f->accumulate;
    o.seq_len = f->seq_len;
    o.optimizer = f->optimizer;
    o.momentum = f->momentum;
    o.lr = f->lr;
    o.beta1 = f->beta1;
    o.beta2 = f->beta2;
    o.eps = f->eps;
    o.weight_decay = f->weight_decay;
    o.lr_schedule = f->lr_schedule;
    o.warmup = f->warmup;
    if (zn_options_given(given, "--min-lr"))
        o.min_lr = f->min_lr;
    o.packing = f->packing;
    o.truncate_rows = f->truncate_rows;
    o.clip = f->clip;
    o.precision = f->precision;
    o.dynamic_loss_scale = strcmp(f->loss_scale, "dynamic") == 0;
    o.loss_scale = o.dynamic_loss_scale ? f->loss_scale_init : strtod(f->loss_scale, NULL);
    o.loss_scale_window = f->loss_scale_window;
    o.hysteresis = f->hysteresis;
    o.loss_scale_min = f->loss_scale_min;
    o.stage = f->stage ? f->stage[0] - '0' : -1;
    o.reduce = f->reduce;
    o.freeze = f->freeze.word;
    o.n_freeze = f->freeze.n;
    if (zn_options_given(given, "--prefetch-bytes"))
        o.prefetch_bytes = f->prefetch_bytes;
    if (zn_options_given(given, "--persist-below"))
        o.persist_below = f->persist_below;
    o.offload_optimizer = f->off_optimizer;
    o.offload_param = f->off_param;
    o.offload_gradients = f->off_gradients;
    o.offload_activations = f->off_activations;
    o.nvme_paths = f->nvme_path.word;
    o.n_nvme_paths = f->nvme_path.n;
    o.allow_buffered_swap = f->allow_buffered_swap;
    if (zn_options_given(given, "--tile-limit"))
        o.tile_limit = f->tile_limit;
    if (zn_options_given(given, "--host-cache"))
        o.host_cache = f->host_cache;
    o.schedule = f->schedule;
    o.optimizer_in_backward = f->in_backward;
    if (zn_options_given(given, "--delayed-update"))
        o.delayed_update = f->delayed_update && *f->delayed_update ? strtoll(f->delayed_update, NULL, 10) : 40;
    o.memory_limit = f->memory_limit;
    o.recompute = f->recompute ? strcmp(f->recompute, "on") == 0 : -1;
    o.keep_logits = f->keep_logits ? strcmp(f->keep_logits, "on") == 0 : -1;
    o.seed = (uint64_t)f->seed;
    o.shuffle = !f->no_shuffle;
    o.threads = (int)f->threads;
    o.log = f->log;
    o.trace = f->trace;
    o.save = f->save;
    o.checkpoint_every = f->checkpoint_every;
    o.keep = f->keep;
    o.checkpoint_async = f->checkpoint_async;
    o.resume = zn_options_given(given, "--resume");
    o.resume_from = f->resume;
    return o;
}

/* "dynamic", or a number that is one in fp32. */
static bool is_loss_scale(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    return strcmp(text, "dynamic") == 0 || (text[0] != ' ' && *end == '\0' && value >= 1e-30 && value <= 1e38);
}

static zn_status check(const struct train_flags *f)
{
    char *end;
    ZN_TRY(zn_row_options_check(&(struct zn_row_options){.map = f->map.word, .n_map = f->map.n}));
    if (f->n_ranks > 0 && zn_comm_is_launched())
        return zn_fail(ZN_ERR_USAGE, "-n: mpirun or srun has started this process already; leave it off");
    if (!is_loss_scale(f->loss_scale))
        return zn_fail(ZN_ERR_USAGE, "--loss-scale: '%s' is neither dynamic nor a positive number of fp32", f->loss_scale);
    if (f->delayed_update && *f->delayed_update && (strtoll(f->delayed_update, &end, 10) < 0 || *end))
        return zn_fail(ZN_ERR_USAGE, "--delayed-update: '%s' is not a number of steps", f->delayed_update);
    return ZN_OK;
}

int zn_cli_train(int argc, char **argv)
{
    struct train_flags f = {0};
    struct zn_options given;
    bool catches = false;
    struct screen screen = {.is_terminal = isatty(STDOUT_FILENO) && (!zn_comm_is_launched() || getenv("ZINC_TERMINAL"))};
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        struct zn_train_options options = options_of(&f, &given);
        options.listener = (struct zn_train_listener){&screen, show_plan, show_step, show_note, show_end, show_saved,
                                                      show_failure};
        options.stop = zn_cli_stop;
        options.stop_self = &catches;
        zn_status status = check(&f);
        if (status == ZN_OK && f.n_ranks > 0)
            status = zn_launch(f.n_ranks, f.mpirun, argc, argv);
        if (status == ZN_OK)
            status = zn_train(&options);
        code = screen.has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&given, &f);
    return code;
}
