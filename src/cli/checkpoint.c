/* `zinc checkpoint`: looking at the checkpoints of a run, checking and exporting them. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/json_text.h"
#include "base/size.h"
#include "base/text.h"
#include "checkpoint/export.h"
#include "checkpoint/folder.h"
#include "cli/commands.h"

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
    char **paths;
    size_t n;
};

static void found_fini(struct found *found)
{
    zn_names_free(found->paths, found->n);
}

static bool holds(const char *folder, const char *name)
{
    char *path;
    if (zn_path_join(folder, name, &path) != ZN_OK)
        return false;
    bool is_there = zn_file_exists(path);
    free(path);
    return is_there;
}

static zn_status list_folder(const char *folder, struct found *found)
{
    int64_t *steps;
    size_t n_steps;
    zn_status status = ZN_OK;
    ZN_TRY(zn_checkpoints_list(folder, &steps, &n_steps));
    found->paths = calloc(n_steps + 1, sizeof *found->paths);
    if (!found->paths)
        status = zn_fail(ZN_ERR_MEMORY, "out of memory for the list of checkpoints");
    for (size_t i = n_steps; i > 0 && status == ZN_OK; i--) {
        char name[ZN_CHECKPOINT_NAME];
        status = zn_path_join(folder, zn_checkpoint_name(steps[i - 1], name), &found->paths[found->n]);
        found->n += status == ZN_OK;
    }
    free(steps);
    return status;
}

static zn_status find(const char *dir, struct found *found)
{
    *found = (struct found){0};
    if (!zn_folder_exists(dir))
        return zn_fail(ZN_ERR_INPUT, "%s: no such folder", dir);
    if (holds(dir, ZN_CONTENTS_NAME) || holds(dir, ZN_STATE_NAME)) {
        found->paths = calloc(1, sizeof *found->paths);
        if (!found->paths || !(found->paths[0] = strdup(dir)))
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", dir);
        found->n = 1;
        return ZN_OK;
    }
    char *inner;
    ZN_TRY(zn_path_join(dir, ZN_CHECKPOINTS, &inner));
    zn_status status = list_folder(zn_folder_exists(inner) ? inner : dir, found);
    free(inner);
    return status;
}

static zn_status need_one(const struct found *found, const char *dir)
{
    return found->n > 0 ? ZN_OK : zn_fail(ZN_ERR_INPUT, "%s: holds no checkpoint (--checkpoint-every N and --save all of zinc train save "
                                           "some)", dir);
}

/* The newest that opens. */
static zn_status open_newest(const struct found *found, const char *dir, zn_checkpoint **checkpoint)
{
    ZN_TRY(need_one(found, dir));
    zn_status status = ZN_OK;
    for (size_t i = found->n; i > 0; i--) {
        status = zn_checkpoint_open(found->paths[i - 1], checkpoint);
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

static void print_listed(const char *path, const zn_checkpoint *c, bool json)
{
    char size[ZN_SIZE_TEXT];
    uint64_t n_bytes = c ? zn_contents_n_bytes(&c->contents) : 0;
    if (!json && c) {
        printf("%s  step %lld  %s\n", path, (long long)c->state.step, zn_size_text((size_t)n_bytes, size));
    } else if (!json) {
        printf("%s  broken: %s\n", path, zn_error_message());
    } else {
        fputs("{\"path\":", stdout);
        zn_json_put_string(stdout, path);
        if (c) {
            printf(",\"whole\":true,\"step\":%lld,\"bytes\":%llu}", (long long)c->state.step, (unsigned long long)n_bytes);
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
    for (size_t i = 0; i < found->n; i++) {
        zn_checkpoint *c = NULL;
        zn_checkpoint_open(found->paths[i], &c); /* a failure is what is printed */
        if (f->json && i > 0)
            putchar(',');
        print_listed(found->paths[i], c, f->json);
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

/* The list itself, everything in it, and then that state.json makes sense. */
static zn_status verify_contents(struct verifying *v, zn_contents *contents)
{
    char *path;
    ZN_TRY(zn_path_join(v->path, ZN_CONTENTS_NAME, &path));
    zn_status status = zn_contents_read(path, contents);
    free(path);
    if (status == ZN_ERR_MEMORY)
        return status;
    if (status != ZN_OK) {
        tell_damage(v, ZN_CONTENTS_NAME, "", zn_error_message());
        return ZN_OK;
    }
    ZN_TRY(zn_contents_verify(contents, v->path, tell_damage, v));
    if (v->n_damages > 0)
        return ZN_OK;
    zn_checkpoint *c = NULL;
    if (zn_checkpoint_open(v->path, &c) != ZN_OK)
        tell_damage(v, ZN_STATE_NAME, "", zn_error_message());
    zn_checkpoint_close(c);
    return ZN_OK;
}

static zn_status verify_one(const char *path, bool json, size_t *n_broken)
{
    struct verifying v = {.path = path, .json = json};
    zn_contents contents;
    char size[ZN_SIZE_TEXT];
    zn_contents_init(&contents);
    if (json) {
        fputs("{\"path\":", stdout);
        zn_json_put_string(stdout, path);
        fputs(",\"damage\":[", stdout);
    }
    zn_status status = verify_contents(&v, &contents);
    uint64_t n_bytes = zn_contents_n_bytes(&contents);
    if (json)
        printf("],\"whole\":%s,\"files\":%zu,\"bytes\":%llu}", v.n_damages ? "false" : "true", contents.n_files,
               (unsigned long long)n_bytes);
    else if (v.n_damages == 0 && status == ZN_OK)
        printf("%s: whole, %zu files, %s\n", path, contents.n_files, zn_size_text((size_t)n_bytes, size));
    *n_broken += v.n_damages > 0;
    zn_contents_fini(&contents);
    return status;
}

static zn_status verify(const struct found *found, const char *dir, const struct checkpoint_flags *f)
{
    size_t n_broken = 0;
    ZN_TRY(need_one(found, dir));
    if (f->json)
        fputs("{\"checkpoints\":[", stdout);
    for (size_t i = 0; i < found->n; i++) {
        if (f->json && i > 0)
            putchar(',');
        ZN_TRY(verify_one(found->paths[i], f->json, &n_broken));
    }
    if (f->json)
        puts("]}");
    ZN_TRY(print_done());
    return n_broken == 0 ? ZN_OK : zn_fail(ZN_ERR_INPUT, "%s: %zu of %zu checkpoints damaged", dir, n_broken, found->n);
}

/* ---- Inspect ---- */

static void print_tensor(const struct zn_st_tensor *t, const char *file, bool json, bool first)
{
    char shape[ZN_SHAPE_TEXT];
    if (!json) {
        printf("  %-5s %-16s %s\n", zn_st_dtype_name(t->dtype), zn_shape_text(t->n_dims, t->dims, shape), t->name);
        return;
    }
    printf("%s{\"name\":", first ? "" : ",");
    zn_json_put_string(stdout, t->name);
    printf(",\"dtype\":\"%s\",\"shape\":[", zn_st_dtype_name(t->dtype));
    for (int i = 0; i < t->n_dims; i++)
        printf("%s%lld", i ? "," : "", (long long)t->dims[i]);
    fputs("],\"file\":", stdout);
    zn_json_put_string(stdout, file);
    putchar('}');
}

/* Tensors of a file, where it has some. */
static zn_status print_tensors(const zn_checkpoint *c, const struct zn_listed_file *listed, bool json, size_t *n_printed)
{
    char *path;
    zn_st_file *file;
    if (listed->n_segments == 0)
        return ZN_OK;
    ZN_TRY(zn_path_join(c->folder, listed->name, &path));
    zn_status status = zn_st_open(path, &file);
    free(path);
    ZN_TRY(status);
    for (size_t i = 0; i < zn_st_n_tensors(file); i++)
        print_tensor(zn_st_tensor_at(file, i), listed->name, json, (*n_printed)++ == 0);
    zn_st_close(file);
    return ZN_OK;
}

static zn_status inspect_text(const zn_checkpoint *c)
{
    const struct zn_run_state *s = &c->state;
    char size[ZN_SIZE_TEXT];
    size_t n_printed = 0;
    printf("%s: step %lld, %lld updates, %lld windows of %lld tokens consumed of %lld an epoch, seed %llu%s\n", c->folder,
           (long long)s->step, (long long)s->updates, (long long)s->consumed, (long long)s->seq_len,
           (long long)s->n_windows, (unsigned long long)s->seed, s->shuffle ? "" : ", not shuffled");
    printf("%s, trained in %s, weights in %s, masters in the %s\n", s->optimizer, s->precision, zn_dtype_name(s->dtype),
           s->masters_in_model ? "model's files" : "optimizer's files");
    for (size_t i = 0; i < c->contents.n_files; i++) {
        const struct zn_listed_file *file = &c->contents.files[i];
        printf("%s  %s\n", file->name, zn_size_text((size_t)file->n_bytes, size));
        ZN_TRY(print_tensors(c, file, false, &n_printed));
    }
    return print_done();
}

static zn_status inspect_json(const zn_checkpoint *c)
{
    char *state;
    size_t n_printed = 0;
    ZN_TRY(zn_json_print(c->root, &state));
    fputs("{\"path\":", stdout);
    zn_json_put_string(stdout, c->folder);
    printf(",\"bytes\":%llu,\"files\":[", (unsigned long long)zn_contents_n_bytes(&c->contents));
    for (size_t i = 0; i < c->contents.n_files; i++) {
        fputs(i ? ",{\"name\":" : "{\"name\":", stdout);
        zn_json_put_string(stdout, c->contents.files[i].name);
        printf(",\"bytes\":%llu}", (unsigned long long)c->contents.files[i].n_bytes);
    }
    fputs("],\"tensors\":[", stdout);
    zn_status status = ZN_OK;
    for (size_t i = 0; i < c->contents.n_files && status == ZN_OK; i++)
        status = print_tensors(c, &c->contents.files[i], true, &n_printed);
    printf("],\"state\":%s}\n", state);
    free(state);
    return status == ZN_OK ? print_done() : status;
}

/* ---- Export ---- */

static zn_status export(const zn_checkpoint *c, const struct checkpoint_flags *f)
{
    zn_dtype dtype = c->state.dtype;
    if (f->dtype)
        ZN_TRY(zn_dtype_parse(f->dtype, "--dtype", &dtype));
    ZN_TRY(zn_checkpoint_write_model(c, f->output, dtype));
    if (f->json) {
        fputs("{\"checkpoint\":", stdout);
        zn_json_put_string(stdout, c->folder);
        fputs(",\"output\":", stdout);
        zn_json_put_string(stdout, f->output);
        printf(",\"step\":%lld,\"dtype\":\"%s\"}\n", (long long)c->state.step, zn_dtype_name(dtype));
    } else {
        printf("wrote %s: step %lld in %s\n", f->output, (long long)c->state.step, zn_dtype_name(dtype));
    }
    return print_done();
}

/* ---- The command ---- */

static zn_status run_on_one(const char *verb, const struct found *found, const char *dir,
                            const struct checkpoint_flags *f)
{
    zn_checkpoint *c;
    ZN_TRY(open_newest(found, dir, &c));
    zn_status status = strcmp(verb, "export") == 0 ? export(c, f) : f->json ? inspect_json(c) : inspect_text(c);
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
        status = found.n > 0 || f->json ? list(&found, f) : need_one(&found, dir);
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
