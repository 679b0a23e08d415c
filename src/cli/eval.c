/* `zinc eval`: loss and perplexity of a model on data. */
#include <stddef.h>
#include <stdio.h>

#include "base/json_text.h"
#include "cli/placement.h"
#include "text/jsonl.h"
#include "zinc/train.h"

struct eval_flags {
    const char *model;
    struct zn_words data, map;
    int64_t seq_len, micro_batch, threads;
    const char *packing;
    bool json, truncate_rows, byte_tokenizer;
    struct placement_flags place;
};

#define AT(field) offsetof(struct eval_flags, field)

static const struct zn_option flags[] = {
    {.name = "--model", .kind = ZN_OPTION_STRING, .offset = AT(model), .value = "DIR", .required = true,
     .help = "Hub folder: config.json and safetensors."},
    {.name = "--data", .kind = ZN_OPTION_LIST, .offset = AT(data), .value = "PATH", .required = true,
     .help = "Text (.txt), rows (.jsonl, .json), token files (.bin), or folders of them."},
    {.name = "--byte-tokenizer", .kind = ZN_OPTION_FLAG, .offset = AT(byte_tokenizer),
     .help = "Take text as bytes where the folder has no tokenizer."},
    {.name = "--map", .kind = ZN_OPTION_LIST, .offset = AT(map), .value = "NEW=OLD", .otherwise = "none",
     .help = "Read the key OLD of rows as NEW: messages=dialog."},
    {.name = "--seq-len", .kind = ZN_OPTION_INT, .offset = AT(seq_len), .value = "T", .range = "[1, 2147483647]",
     .otherwise = "min(1024, the model's maximum); for rows the longest example", .help = "Tokens of a window."},
    {.name = "--packing", .kind = ZN_OPTION_CHOICE, .offset = AT(packing), .value = "HOW", .choices = "best-fit none stream",
     .otherwise = "best-fit for rows that are examples", .help = "How examples come into windows; changes no loss but with stream."},
    {.name = "--truncate-rows", .kind = ZN_OPTION_FLAG, .offset = AT(truncate_rows),
     .help = "Cut examples longer than a window at their end."},
    {.name = "--micro-batch", .kind = ZN_OPTION_INT, .offset = AT(micro_batch), .value = "B",
     .initial = "1", .range = "[1, 1048576]", .help = "Windows computed at once."},
    {.name = "--threads", .kind = ZN_OPTION_INT, .offset = AT(threads), .value = "N", .range = "[1, 4096]",
     .otherwise = "physical cores ÷ ranks that share them", .help = "Threads of each rank."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json),
     .help = "Print one JSON object instead of text."},
    PLACEMENT_FLAGS(AT),
};

static const struct zn_command command = {
    .name = "zinc eval",
    .summary = "loss and perplexity of a model on data",
    .usage = "--model DIR --data PATH… [flags]",
    .example = "zinc eval --model ./SmolLM2-135M --data held-out.bin --json",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .hint = zn_cli_hint,
};

static void note(void *self, const char *text)
{
    (void)self;
    fprintf(stderr, "zinc eval: %s\n", text);
}

/* Told here or by another rank of the node. */
static void show_failure(void *self, const char *text, bool speaks)
{
    bool *has_failed = self;
    *has_failed = true;
    if (speaks)
        fprintf(stderr, "zinc eval: %s\n", text);
}

/* JSON has no numbers that are not finite: null stands for them, and the reason says why. */
static void print_json(const struct zn_eval_result *r)
{
    printf("{\"loss\":");
    zn_json_put_number(stdout, r->loss, 9);
    printf(",\"perplexity\":");
    zn_json_put_number(stdout, r->perplexity, 9);
    printf(",\"windows\":%lld,\"examples\":%lld,\"tokens\":%lld,\"targets\":%lld", (long long)r->windows,
           (long long)r->examples, (long long)r->tokens, (long long)r->targets);
    if (r->reason[0]) {
        printf(",\"reason\":");
        zn_json_put_string(stdout, r->reason);
    }
    printf("}\n");
}

static void print_result(const struct zn_eval_result *r, bool as_json)
{
    if (as_json)
        print_json(r);
    else if (!r->reason[0])
        printf("loss %.6f, perplexity %.4f over %lld windows, %lld examples, %lld tokens, %lld targets\n", r->loss,
               r->perplexity, (long long)r->windows, (long long)r->examples, (long long)r->tokens, (long long)r->targets);
}

int zn_cli_eval(int argc, char **argv)
{
    struct eval_flags f = {0};
    struct zn_options given;
    struct zn_eval_result result;
    bool has_failed = false;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0) {
        struct zn_eval_options options;
        zn_eval_options_init(&options);
        options.model = f.model;
        options.data = f.data.word;
        options.n_data = f.data.n;
        options.map = f.map.word;
        options.n_map = f.map.n;
        options.seq_len = f.seq_len;
        options.micro_batch = f.micro_batch;
        options.threads = (int)f.threads;
        options.byte_tokenizer = f.byte_tokenizer;
        options.packing = f.packing;
        options.truncate_rows = f.truncate_rows;
        options.memory_limit = f.place.memory_limit;
        options.offload_param = f.place.off_param;
        options.nvme_paths = f.place.nvme_path.word;
        options.n_nvme_paths = f.place.nvme_path.n;
        options.allow_buffered_swap = f.place.allow_buffered_swap;
        options.listener = (struct zn_train_listener){.self = &has_failed, .note = note, .failed = show_failure};
        zn_status status = zn_row_options_check(&(struct zn_row_options){.map = f.map.word, .n_map = f.map.n});
        if (status == ZN_OK)
            status = zn_cli_place(&f.place, argc, argv);
        if (status == ZN_OK)
            status = zn_eval(&options, &result);
        if (status == ZN_OK && result.is_shown)
            print_result(&result, f.json);
        if (status == ZN_OK && result.reason[0] && result.is_shown)
            status = zn_fail(ZN_ERR_NUMERIC, "%s", result.reason);
        code = has_failed ? zn_cli_code(status) : zn_cli_end(&command, status);
    }
    zn_options_fini(&given, &f);
    return code;
}
