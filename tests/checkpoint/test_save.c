/* What is saved: the same bytes from every number of ranks and every stage, and the same values back on any other. Ranks
 * are threads. */
#include "files.h"

#include "checkpoint/engines.h"
#include "checkpoint/folder.h"
#include "sanitized.h"

#define GPT2 ZN_TEST_DATA "/parity/gpt2"
#define QWEN3 ZN_TEST_DATA "/parity/qwen3"

static struct engine_job new_job(const char *model, zn_dtype type, zn_dtype dtype, int stage, const char *folder)
{
    return (struct engine_job){.work = save_work, .model = model, .folder = folder, .type = type, .dtype = dtype,
                               .stage = stage, .step = 20, .file_bytes = 50000, .optimizer = &zn_optimizer_adamw};
}

/* The same files with the same bytes, but for those that tell of the run. */
static size_t compare_folders(const char *a, const char *b)
{
    char **names_a, **names_b;
    size_t n_a, n_b, n_optimizer = 0;
    OK(zn_folder_list(a, &names_a, &n_a));
    OK(zn_folder_list(b, &names_b, &n_b));
    assert_int_equal(n_a, n_b);
    for (size_t i = 0; i < n_a; i++) {
        char *path_a, *path_b, *data_a, *data_b;
        size_t n_bytes_a, n_bytes_b;
        assert_string_equal(names_a[i], names_b[i]);
        n_optimizer += strncmp(names_a[i], "optimizer-", 10) == 0;
        if (strcmp(names_a[i], "state.json") == 0 || strcmp(names_a[i], "manifest.json") == 0)
            continue;
        OK(zn_path_join(a, names_a[i], &path_a));
        OK(zn_path_join(b, names_b[i], &path_b));
        OK(zn_file_read(path_a, 1 << 26, &data_a, &n_bytes_a));
        OK(zn_file_read(path_b, 1 << 26, &data_b, &n_bytes_b));
        assert_int_equal(n_bytes_a, n_bytes_b);
        if (memcmp(data_a, data_b, n_bytes_a) != 0)
            fail_msg("%s and %s differ", path_a, path_b);
        free(data_a);
        free(data_b);
        free(path_a);
        free(path_b);
    }
    zn_names_free(names_a, n_a);
    zn_names_free(names_b, n_b);
    return n_optimizer;
}

static const char *checkpoint_in(const char *name)
{
    static char paths[4][300];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/step-00000020", in_folder(name));
    return path;
}

static void compare_all(const char *model, zn_dtype type, zn_dtype dtype, size_t n_files)
{
    struct engine_job job = new_job(model, type, dtype, 0, in_folder("alone"));
    OK(on_ranks(&job, 1));
    for (int n_ranks = 2; n_ranks <= 4; n_ranks++) {
        for (int stage = 0; stage <= 3; stage++) {
            if (IS_SANITIZED && n_ranks != 2 + (stage + (type == ZN_F32)) % 3)
                continue;
            job = new_job(model, type, dtype, stage, in_folder("many"));
            OK(on_ranks(&job, n_ranks));
            size_t n = compare_folders(checkpoint_in("alone"), checkpoint_in("many"));
            assert_int_equal(n, n_files);
            OK(zn_tree_remove(in_folder("many")));
        }
    }
    OK(zn_tree_remove(in_folder("alone")));
}

static void bytes_do_not_depend_on_ranks_or_stage(void **state)
{
    (void)state;
    compare_all(GPT2, ZN_F32, ZN_F32, 6);
    compare_all(QWEN3, ZN_BF16, ZN_BF16, 9);
}

/* From memory, from NVMe, and from tiles of either. */
static void bytes_do_not_depend_on_the_tier(void **state)
{
    (void)state;
    struct engine_job job = new_job(QWEN3, ZN_BF16, ZN_BF16, 0, in_folder("alone"));
    OK(on_ranks(&job, 1));
    for (int tier = ZN_TIER_DEVICE; tier < ZN_N_TIERS; tier++) {
        for (int n_ranks = 1; n_ranks <= 3; n_ranks += 2) {
            job = new_job(QWEN3, ZN_BF16, ZN_BF16, 3, in_folder("many"));
            job.tier = (zn_tier)tier;
            job.tile_bytes = 2048;
            OK(on_ranks(&job, n_ranks));
            assert_int_equal(compare_folders(checkpoint_in("alone"), checkpoint_in("many")), 9);
            job.work = load_work;
            job.folder = in_folder("alone");
            OK(on_ranks(&job, n_ranks));
            OK(zn_tree_remove(in_folder("many")));
        }
    }
    OK(zn_tree_remove(in_folder("alone")));
}

/* Moments in 16 and in 8 bits, whose blocks are those of the tensor. */
static void narrow_states_are_laid_out_by_the_tensor(void **state)
{
    (void)state;
    const zn_optimizer *const optimizers[] = {&zn_optimizer_adamw_bf16, &zn_optimizer_adamw8bit};
    for (int i = 0; i < 4; i++) {
        struct engine_job job = new_job(QWEN3, ZN_BF16, ZN_BF16, 0, in_folder("alone"));
        job.optimizer = optimizers[i / 2];
        OK(on_ranks(&job, 1));
        job.stage = 2 + i % 2;
        job.tier = i % 2 ? ZN_TIER_NVME : ZN_TIER_DEVICE;
        job.tile_bytes = 2048;
        job.folder = in_folder("many");
        OK(on_ranks(&job, 3));
        compare_folders(checkpoint_in("alone"), checkpoint_in("many"));
        job.work = load_work;
        OK(on_ranks(&job, 2));
        OK(zn_tree_remove(in_folder("many")));
        OK(zn_tree_remove(in_folder("alone")));
    }
}

/* States of another type are refused by name. */
static void states_of_another_type_are_refused(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_F32, ZN_F32, 0, in_folder("alone"));
    job.optimizer = &zn_optimizer_adamw_bf16;
    OK(on_ranks(&job, 1));
    job.work = load_work;
    job.optimizer = &zn_optimizer_adamw;
    FAILS(on_ranks(&job, 1), ZN_ERR_INPUT, ".exp_avg' is of type BF16, not F32", "optimizer-");
    job.optimizer = &zn_optimizer_adamw8bit;
    FAILS(on_ranks(&job, 1), ZN_ERR_INPUT, "of type BF16, not U8", "optimizer-");
    OK(zn_tree_remove(in_folder("alone")));
}

/* Every value comes back bit for bit, on any number of ranks and at any stage. */
static void load_everywhere(zn_dtype type, zn_dtype dtype, int n_ranks, int stage)
{
    struct engine_job job = new_job(GPT2, type, dtype, stage, in_folder("saved"));
    OK(on_ranks(&job, n_ranks));
    job.work = load_work;
    for (int n = 1; n <= 4; n++) {
        for (job.stage = 0; job.stage <= 3; job.stage++)
            if (!IS_SANITIZED || (n + job.stage + n_ranks) % 4 == 0)
                OK(on_ranks(&job, n));
    }
    OK(zn_tree_remove(in_folder("saved")));
}

static void values_come_back_on_any_ranks_and_stage(void **state)
{
    (void)state;
    load_everywhere(ZN_F32, ZN_F32, 3, 3);
    load_everywhere(ZN_BF16, ZN_BF16, 3, 3);
    load_everywhere(ZN_BF16, ZN_F32, 1, 0);
    load_everywhere(ZN_F32, ZN_F16, 2, 1);
}

static void a_precision_goes_on_in_another(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_BF16, ZN_BF16, 3, in_folder("bf16"));
    OK(on_ranks(&job, 2));
    job.work = load_work;
    job.type = ZN_F32;
    OK(on_ranks(&job, 3));
    job.type = ZN_F16;
    OK(on_ranks(&job, 1));
}

/* sgd without momentum has no states: no optimizer files where the weights are the masters. */
static void an_optimizer_without_states_has_no_files(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_F32, ZN_F32, 2, in_folder("sgd"));
    job.optimizer = &zn_optimizer_sgd;
    OK(on_ranks(&job, 3));
    assert_int_equal(compare_folders(checkpoint_in("sgd"), checkpoint_in("sgd")), 0);
    job.work = load_work;
    OK(on_ranks(&job, 2));
    job.optimizer = &zn_optimizer_adamw;
    FAILS(on_ranks(&job, 2), ZN_ERR_INPUT, "has no exp_avg of", "transformer.wte.weight");
}

/* The names and numbers of files, and what is in them. */
static void one_default_file_has_its_number(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_BF16, ZN_BF16, 3, in_folder("default"));
    job.file_bytes = 0;
    OK(on_ranks(&job, 3));
    zn_st_file *file;
    OK(zn_st_open(in_folder("default/step-00000020/optimizer-00001-of-00001.safetensors"), &file));
    assert_int_equal(zn_st_n_tensors(file), 3 * 28);
    const struct zn_st_tensor *t = zn_st_find(file, "h.1.mlp.c_proj.bias.exp_avg_sq");
    assert_non_null(t);
    assert_int_equal(t->dtype, ZN_ST_F32);
    assert_non_null(zn_st_find(file, "wte.weight.master"));
    assert_non_null(zn_st_find(file, "wte.weight.exp_avg"));
    zn_st_close(file);
    OK(zn_st_open(in_folder("default/step-00000020/model.safetensors"), &file));
    assert_int_equal(zn_st_tensor_at(file, 0)->dtype, ZN_ST_BF16);
    assert_int_equal(zn_st_n_tensors(file), 28); /* the tied head is there once */
    assert_null(zn_st_find(file, "lm_head.weight"));
    zn_st_close(file);
    assert_int_equal(n_entries(in_folder("default")), 1);
    assert_int_equal(n_entries(in_folder("default/step-00000020")), 5);
}

/* The same step again takes the place of what is there, whole or not. */
static void a_step_saved_again_is_replaced(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_F32, ZN_F32, 0, in_folder("again"));
    OK(on_ranks(&job, 1));
    make_text("again/step-00000020/model.safetensors", "broken");
    OK(on_ranks(&job, 2));
    job.work = load_work;
    OK(on_ranks(&job, 1));
    assert_int_equal(n_entries(in_folder("again")), 1);
}

static void what_cannot_be_written_leaves_nothing(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_F32, ZN_F32, 3, in_folder("bad"));
    make_text("bad", "a file where the folder should be");
    FAILS(on_ranks(&job, 3), ZN_ERR_IO, "rank 0: ", "/bad: cannot make the folder");
    unlink(in_folder("bad"));
    job.folder = "/proc/zinc-checkpoints";
    FAILS(on_ranks(&job, 1), ZN_ERR_IO, "/proc/zinc-checkpoints: cannot make the folder", "");
    OK(zn_folder_create(in_folder("bad")));
    OK(zn_folder_create(in_folder("bad/step-00000010")));
    job.folder = in_folder("bad");
    job.model = GPT2 "/../nowhere";
    assert_int_not_equal(on_ranks(&job, 1), ZN_OK);
    assert_int_equal(n_entries(in_folder("bad")), 1);
}

/* Where rank 1 would put its list of hashes there is a folder: its part of the save cannot settle. */
static zn_status hindered_work(struct engine_job *job, struct zn_run *run)
{
    zn_save *save;
    char path[400];
    const struct zn_save_options options = {
        .engine = run->engine, .comm = run->comm, .model = run->model, .style = &run->style, .hub = run->hub,
        .folder = job->folder, .configuration = "{}", .file_bytes = job->file_bytes,
        .state = {.step = job->step, .scale = 1, .optimizer = "adamw", .precision = "fp32"}};
    ZN_TRY(fill_states(run->engine, run->model->module));
    ZN_TRY(zn_save_begin(&options, &save));
    snprintf(path, sizeof path, "%s/.tmp-step-%08lld-%d/.part-1.json", job->folder, (long long)job->step, (int)getpid());
    if (zn_comm_rank(run->comm) == 1)
        ZN_TRY(zn_folder_create(path));
    zn_status status = zn_save_publish(save, zn_save_settle(save));
    zn_save_destroy(save);
    return status;
}

static void a_rank_that_cannot_settle_fails_all(void **state)
{
    (void)state;
    struct engine_job job = new_job(GPT2, ZN_F32, ZN_F32, 3, in_folder("hindered"));
    job.step = 10;
    OK(on_ranks(&job, 3));
    job.step = 20;
    job.work = hindered_work;
    FAILS(on_ranks(&job, 3), ZN_ERR_IO, "rank 1: ", "/.part-1.json: cannot rename");
    assert_int_equal(n_entries(in_folder("hindered")), 1);
    job.work = load_work;
    OK(on_ranks(&job, 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_do_not_depend_on_ranks_or_stage),
        cmocka_unit_test(bytes_do_not_depend_on_the_tier),
        cmocka_unit_test(values_come_back_on_any_ranks_and_stage),
        cmocka_unit_test(a_precision_goes_on_in_another),
        cmocka_unit_test(an_optimizer_without_states_has_no_files),
        cmocka_unit_test(narrow_states_are_laid_out_by_the_tensor),
        cmocka_unit_test(states_of_another_type_are_refused),
        cmocka_unit_test(one_default_file_has_its_number),
        cmocka_unit_test(a_step_saved_again_is_replaced),
        cmocka_unit_test(what_cannot_be_written_leaves_nothing),
        cmocka_unit_test(a_rank_that_cannot_settle_fails_all),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
