/* `zinc checkpoint`: looking at the checkpoints of a run, checking and exporting them. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/size.h"
#include "base/text.h"
#include "cli/commands.h"
#include "zinc/checkpoint.h"

struct checkpoint_flags {
    const char *dtype, *output;
    bool json;
};

#define AT(field) offsetof(struct checkpoint_flags, field)

static const struct zn_option flags[] = {
    {.name = "--output", .kind = ZN_OPTION_STRING, .offset = AT(output), .value = "DIR", .otherwise = "none",
     .help = "export: the hub folder to write."},
    {.name = "--dtype", .kind = ZN_OPTION_CHOICE, .offset = AT(dtype), .value = "TYPE", .choices = "fp32 bf16 fp16",
     .otherwise = "that of the checkpoint", .help = "export: type of the weights, rounded from the fp32 masters."},
    {.name = "--json", .kind = ZN_OPTION_FLAG, .offset = AT(json), .help = "One JSON value on standard output."},
};

static const struct zn_command command = {
    .name = "zinc checkpoint",
    .summary = "list, inspect, verify and export checkpoints",
    .usage = "list|inspect|verify|export DIR [flags]; DIR is a checkpoint or the output folder of a run",
    .example = "zinc checkpoint export ./gpt2-book --dtype bf16 --output ./gpt2-book-bf16",
    .options = flags,
    .n_options = sizeof flags / sizeof flags[0],
    .takes_words = true,
    .words = "list inspect verify export",
};

/* ---- Which ---- */

/* The checkpoints that DIR stands for, oldest first. */
struct found {
    struct zn_words paths;
    zn_status status;
};

static void found_fini(struct found *found)
{
    for (size_t i = 0; i < found->paths.n; i++)
        free((char *)(uintptr_t)found->paths.word[i]);
    zn_words_free(&found->paths);
}

static void add_path(void *self, const char *path)
{
    struct found *found = self;
    char *copy = strdup(path);
    if (found->status == ZN_OK)
        found->status = copy ? zn_words_add(&found->paths, copy) : zn_fail(ZN_ERR_MEMORY, "out of memory for the list of checkpoints");
    if (found->status != ZN_OK)
        free(copy);
}

static zn_status find(const char *dir, struct found *found)
{
    *found = (struct found){0};
    ZN_TRY(zn_checkpoint_list(dir, add_path, found));
    return found->status;
}

static zn_status need_one(const struct found *found, const char *dir)
{
    return found->paths.n > 0 ? ZN_OK : zn_fail(ZN_ERR_INPUT, "%s: holds no checkpoint (--checkpoint-every N and --save all of zinc train save "
                                           "some)", dir);
}

/* The newest that opens. */
static zn_status open_newest(const struct found *found, const char *dir, zn_checkpoint **checkpoint)
{
    ZN_TRY(need_one(found, dir));
    zn_status status = ZN_OK;
    for (size_t i = found->paths.n; i > 0; i--) {
        status = zn_checkpoint_open(found->paths.word[i - 1], checkpoint);
        if (status == ZN_OK)
            return ZN_OK;
        if (i > 1)
            fprintf(stderr, "zinc checkpoint: passed over a broken checkpoint: %s\n", zn_error_message());
    }
    return status;
}

static zn_status print_done(void)
{
    return fflush(stdout) == 0 && !ferror(stdout) ? ZN_OK : zn_fail(ZN_ERR_IO, "standard output: cannot write");
}

/* ---- List ---- */

/* Without `info` it is broken, and the message says why. */
static void print_listed(const char *path, const struct zn_checkpoint_info *info, bool json)
{
    char size[ZN_SIZE_TEXT];
    if (!json && info) {
        printf("%s  step %lld  %s\n", path, (long long)info->step, zn_size_text((size_t)info->n_bytes, size));
    } else if (!json) {
        printf("%s  broken: %s\n", path, zn_error_message());
    } else {
        fputs("{\"path\":", stdout);
        zn_json_put_string(stdout, path);
        if (info) {
            printf(",\"whole\":true,\"step\":%lld,\"bytes\":%llu}", (long long)info->step, (unsigned long long)info->n_bytes);
            return;
        }
        fputs(",\"whole\":false,\"reason\":", stdout);
        zn_json_put_string(stdout, zn_error_message());
        putchar('}');
    }
}

static zn_status list(const struct found *found, const struct checkpoint_flags *f)
{
    if (f->json)
        fputs("{\"checkpoints\":[", stdout);
    for (size_t i = 0; i < found->paths.n; i++) {
        zn_checkpoint *c = NULL;
        struct zn_checkpoint_info info = {.size = sizeof info};
        bool is_whole = zn_checkpoint_open(found->paths.word[i], &c) == ZN_OK && zn_checkpoint_info(c, &info) == ZN_OK;
        if (f->json && i > 0)
            putchar(',');
        print_listed(found->paths.word[i], is_whole ? &info : NULL, f->json);
        zn_checkpoint_close(c);
    }
    if (f->json)
        puts("]}");
    return print_done();
}

/* ---- Verify ---- */

struct verifying {
    const char *path;
    bool json;
    size_t n_damages;
};

static void tell_damage(void *self, const char *file, const char *tensor, const char *what)
{
    struct verifying *v = self;
    if (!v->json) {
        printf("%s/%s: %s%s%s%s\n", v->path, file, tensor[0] ? "tensor '" : "", tensor, tensor[0] ? "': " : "", what);
    } else {
        printf("%s{\"file\":", v->n_damages ? "," : "");
        zn_json_put_string(stdout, file);
        fputs(",\"tensor\":", stdout);
        zn_json_put_string(stdout, tensor[0] ? tensor : NULL);
        fputs(",\"what\":", stdout);
        zn_json_put_string(stdout, what);
        putchar('}');
    }
    v->n_damages++;
}

static zn_status verify_one(const char *path, bool json, size_t *n_broken)
{
    struct verifying v = {.path = path, .json = json};
    struct zn_verified result = {.size = sizeof result};
    char size[ZN_SIZE_TEXT];
    if (json) {
        fputs("{\"path\":", stdout);
        zn_json_put_string(stdout, path);
        fputs(",\"damage\":[", stdout);
    }
    zn_status status = zn_checkpoint_verify(path, tell_damage, &v, &result);
    if (json)
        printf("],\"whole\":%s,\"files\":%zu,\"bytes\":%llu}", v.n_damages ? "false" : "true", result.n_files,
               (unsigned long long)result.n_bytes);
    else if (status == ZN_OK)
        printf("%s: whole, %zu files, %s\n", path, result.n_files, zn_size_text((size_t)result.n_bytes, size));
    *n_broken += v.n_damages > 0;
    return v.n_damages > 0 ? ZN_OK : status; /* damages are what is printed */
}

static zn_status verify(const struct found *found, const char *dir, const struct checkpoint_flags *f)
{
    size_t n_broken = 0;
    ZN_TRY(need_one(found, dir));
    if (f->json)
        fputs("{\"checkpoints\":[", stdout);
    for (size_t i = 0; i < found->paths.n; i++) {
        if (f->json && i > 0)
            putchar(',');
        ZN_TRY(verify_one(found->paths.word[i], f->json, &n_broken));
    }
    if (f->json)
        puts("]}");
    ZN_TRY(print_done());
    return n_broken == 0 ? ZN_OK : zn_fail(ZN_ERR_INPUT, "%s: %zu of %zu checkpoints damaged", dir, n_broken, found->paths.n);
}

/* ---- One of them ---- */

static zn_status inspect(const zn_checkpoint *c, bool json)
{
    char *text;
    ZN_TRY(zn_checkpoint_print(c, json, &text));
    fputs(text, stdout);
    zn_free(text);
    return print_done();
}

static zn_status export(const zn_checkpoint *c, const struct checkpoint_flags *f)
{
    struct zn_checkpoint_info info = {.size = sizeof info};
    ZN_TRY(zn_checkpoint_info(c, &info));
    const char *type = f->dtype ? f->dtype : info.type;
    ZN_TRY(zn_checkpoint_export(c, f->output, f->dtype));
    if (f->json) {
        fputs("{\"checkpoint\":", stdout);
        zn_json_put_string(stdout, info.folder);
        fputs(",\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        printf(",\"step\":%lld,\"dtype\":\"%s\"}\n", (long long)info.step, type);
    } else {
        printf("wrote %s: step %lld in %s\n", f->output, (long long)info.step, type);
    }
    return print_done();
}

/* ---- The command ---- */

static zn_status run_on_one(const char *verb, const struct found *found, const char *dir,
                            const struct checkpoint_flags *f)
{
    zn_checkpoint *c;
    ZN_TRY(open_newest(found, dir, &c));
    zn_status status = strcmp(verb, "export") == 0 ? export(c, f) : inspect(c, f->json);
    zn_checkpoint_close(c);
    return status;
}

static zn_status run(const struct checkpoint_flags *f, const struct zn_words *words)
{
    static const char *const verbs[] = {"list", "inspect", "verify", "export"};
    size_t k = 0;
    struct found found;
    while (words->n > 0 && k < 4 && strcmp(words->word[0], verbs[k]) != 0)
        k++;
    if (words->n > 0 && k == 4)
        return zn_fail(ZN_ERR_USAGE, "'%s' is not one of: list inspect verify export", zn_shown(words->word[0]).text);
    if (words->n != 2)
        return zn_fail(ZN_ERR_USAGE, "give list, inspect, verify or export, and a folder");
    bool exports = strcmp(verbs[k], "export") == 0;
    if (exports && !f->output)
        return zn_fail(ZN_ERR_USAGE, "export needs --output DIR");
    if (!exports && (f->output || f->dtype))
        return zn_fail(ZN_ERR_USAGE, "--output and --dtype are for export");
    const char *dir = words->word[1];
    zn_status status = find(dir, &found);
    if (status == ZN_OK && strcmp(verbs[k], "list") == 0)
        status = found.paths.n > 0 || f->json ? list(&found, f) : need_one(&found, dir);
    else if (status == ZN_OK && strcmp(verbs[k], "verify") == 0)
        status = verify(&found, dir, f);
    else if (status == ZN_OK)
        status = run_on_one(verbs[k], &found, dir, f);
    found_fini(&found);
    return status;
}

int zn_cli_checkpoint(int argc, char **argv)
{
    struct checkpoint_flags f = {0};
    struct zn_options given;
    int code = zn_cli_begin(&command, argc, argv, &f, &given);
    if (code < 0)
        code = zn_cli_end(&command, run(&f, &given.words));
    zn_options_fini(&given, &f);
    return code;
}
