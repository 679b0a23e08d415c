/* What is written is what is read: in both engines, over several files, with many requests under way. */
#include "storage/lab.h"

enum { N_REGIONS = 48, N_STEPS = 600 };
static const size_t region_bytes = 98 * ALIGN;

struct region {
    zn_event done;
    bool pending, reading;
    size_t offset, n_bytes; /* of the request under way, in the region */
    unsigned char *memory;
};

struct crowd {
    zn_storage *storage;
    zn_clock clock;
    struct region region[N_REGIONS];
    unsigned char *expected;
    uint64_t random;
    uint64_t n_read, n_written;
};

static void settle(struct crowd *c, size_t i)
{
    struct region *r = &c->region[i];
    if (!r->pending)
        return;
    OK(zn_event_wait(&r->done, &c->clock));
    r->pending = false;
    if (r->reading)
        assert_memory_equal(r->memory, c->expected + i * region_bytes + r->offset, r->n_bytes);
}

/* A request for some part of the region, at random a read or a write. */
static void ask(struct crowd *c, size_t i)
{
    struct region *r = &c->region[i];
    size_t n_pages = region_bytes / ALIGN, first = lab_random(&c->random) % n_pages;
    r->offset = first * ALIGN;
    r->n_bytes = (1 + lab_random(&c->random) % (n_pages - first)) * ALIGN;
    r->reading = lab_random(&c->random) % 2;
    zn_event_reset(&r->done);
    uint64_t at = i * region_bytes + r->offset;
    if (r->reading) {
        memset(r->memory, 0xee, r->n_bytes);
        OK(zn_storage_read(c->storage, at, zn_extent_of(r->memory, r->n_bytes), r->n_bytes, NULL, &r->done));
        c->n_read += r->n_bytes;
    } else {
        lab_fill(r->memory, r->n_bytes, &c->random);
        memcpy(c->expected + at, r->memory, r->n_bytes);
        OK(zn_storage_write(c->storage, at, zn_extent_of(r->memory, r->n_bytes), r->n_bytes, NULL, &r->done));
        c->n_written += r->n_bytes;
    }
    r->pending = true;
}

static void check_whole(struct crowd *c)
{
    size_t n = N_REGIONS * region_bytes;
    unsigned char *all = lab_memory(n);
    OK(lab_read(c->storage, 0, all, n));
    assert_memory_equal(all, c->expected, n);
    assert_int_equal(zn_storage_bytes_read(c->storage), c->n_read + n);
    assert_int_equal(zn_storage_bytes_written(c->storage), c->n_written + n);
    free(all);
}

/* Two pieces that meet within a region, a gap, a third one. */
static void register_pieces(zn_storage *s, unsigned char *memory, zn_storage_engine engine)
{
    size_t middle = 16 * region_bytes + 10 * ALIGN, gap = 32 * region_bytes;
    zn_storage_register(s, zn_extent_of(memory, middle));
    zn_storage_register(s, zn_extent_of(memory + middle, gap - middle));
    zn_storage_register(s, zn_extent_of(memory + gap + ALIGN, region_bytes));
    if (engine == ZN_STORAGE_THREADS)
        assert_int_equal(zn_storage_registered_bytes(s), 0);
    else if (zn_storage_registered_bytes(s) != gap + region_bytes)
        print_message("only %zu bytes could be registered here\n", zn_storage_registered_bytes(s));
}

/* Random requests, at most one for each region at a time. */
static void run_crowd(const struct zn_storage_options *options, bool registered)
{
    struct crowd c = {.storage = lab_create(options), .random = 7};
    unsigned char *memory = lab_memory(N_REGIONS * region_bytes);
    if (!c.storage)
        return free(memory);
    zn_clock_init_real(&c.clock);
    if (registered)
        register_pieces(c.storage, memory, options->engine);
    c.expected = lab_memory(N_REGIONS * region_bytes);
    lab_fill(c.expected, N_REGIONS * region_bytes, &c.random);
    OK(lab_write(c.storage, 0, c.expected, N_REGIONS * region_bytes));
    for (size_t i = 0; i < N_REGIONS; i++) {
        c.region[i].memory = memory + i * region_bytes;
        zn_event_init(&c.region[i].done);
    }
    for (int step = 0; step < N_STEPS; step++) {
        size_t i = lab_random(&c.random) % N_REGIONS;
        settle(&c, i);
        ask(&c, i);
    }
    for (size_t i = 0; i < N_REGIONS; i++) {
        settle(&c, i);
        zn_event_fini(&c.region[i].done);
    }
    check_whole(&c);
    zn_storage_destroy(c.storage);
    free(c.expected);
    free(memory);
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], N_REGIONS * region_bytes);
        run_crowd(&o, false);
    }
}

static void registered_memory_moves_the_same_bytes(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], N_REGIONS * region_bytes);
        run_crowd(&o, true);
    }
}

/* Blocks that are no power of two and paths that do not divide the space. */
static void several_paths_share_the_space(void **state)
{
    (void)state;
    const char *paths[] = {in_folder("a"), in_folder("b"), in_folder("c")};
    for (size_t i = 0; i < COUNT(paths); i++)
        OK(zn_folder_create(paths[i]));
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        for (size_t n_paths = 2; n_paths <= COUNT(paths); n_paths++) {
            struct zn_storage_options o = lab_options(both_engines[e], N_REGIONS * region_bytes);
            o.paths = paths;
            o.n_paths = n_paths;
            o.block_bytes = 5 * ALIGN;
            o.depth = 2;
            run_crowd(&o, n_paths == 3);
        }
    }
    for (size_t i = 0; i < COUNT(paths); i++)
        assert_int_equal(n_entries(paths[i]), 0);
}

/* Each path has its part: none is larger than its stripes. */
static void stripes_go_around_the_paths(void **state)
{
    (void)state;
    const char *paths[] = {in_folder("even"), in_folder("odd")};
    for (size_t i = 0; i < COUNT(paths); i++)
        OK(zn_folder_create(paths[i]));
    struct zn_storage_options o = lab_options(ZN_STORAGE_THREADS, 6 * ALIGN);
    o.paths = paths;
    o.n_paths = 2;
    o.block_bytes = ALIGN;
    zn_storage *s = lab_create(&o);
    unsigned char *memory = lab_memory(6 * ALIGN);
    for (int i = 0; i < 6; i++)
        memset(memory + i * ALIGN, i, ALIGN);
    OK(lab_write(s, 0, memory, 6 * ALIGN));
    for (int i = 0; i < 6; i++) {
        int fd = lab_find_swap(paths[i % 2]);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, memory, ALIGN, i / 2 * ALIGN), ALIGN);
        assert_int_equal(memory[0], i);
        assert_int_equal(memory[ALIGN - 1], i);
    }
    zn_storage_destroy(s);
    free(memory);
}

static void destroying_waits_for_what_is_under_way(void **state)
{
    (void)state;
    enum { N = 32 };
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], (uint64_t)N << 20);
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory = lab_memory((size_t)N << 20);
        zn_event done[N];
        for (size_t i = 0; i < N; i++) {
            zn_event_init(&done[i]);
            OK(zn_storage_write(s, i << 20, zn_extent_of(memory + (i << 20), 1 << 20), 1 << 20, NULL, &done[i]));
        }
        zn_storage_destroy(s);
        for (size_t i = 0; i < N; i++) {
            assert_true(zn_event_poll(&done[i], 0));
            assert_int_equal(done[i].status, ZN_OK);
            zn_event_fini(&done[i]);
        }
        free(memory);
    }
    zn_storage_destroy(NULL);
}

static void what_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct zn_storage_options o = lab_options(ZN_STORAGE_THREADS, 1 << 20);
    zn_storage *s = lab_create(&o);
    unsigned char *memory = lab_memory(2 << 20);
    FAILS(lab_read(s, 1 << 20, memory, ALIGN), ZN_ERR_INTERNAL, "beyond", "1048576");
    FAILS(lab_read(s, 0, memory, (1 << 20) + ALIGN), ZN_ERR_INTERNAL, "beyond", "1052672");
    FAILS(lab_write(s, UINT64_MAX - ALIGN + 1, memory, ALIGN), ZN_ERR_INTERNAL, "beyond", "bytes");
    FAILS(lab_write(s, 512, memory, ALIGN), ZN_ERR_INTERNAL, "offset 512", "4096");
    FAILS(lab_write(s, 0, memory + 8, ALIGN), ZN_ERR_INTERNAL, "memory", "4096");
    FAILS(lab_write(s, 0, memory, ALIGN + 1), ZN_ERR_INTERNAL, "4097 bytes", "4096");
    OK(lab_read(s, 1 << 20, memory, 0));
    assert_int_equal(zn_storage_bytes_read(s) + zn_storage_bytes_written(s), 0);
    zn_storage_destroy(s);
    o.block_bytes = 1000;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_USAGE, "1000", "4096");
    o = lab_options(ZN_STORAGE_THREADS, 0);
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_USAGE, "0 bytes", "above 0");
    o = lab_options(ZN_STORAGE_THREADS, 1 << 20);
    o.n_paths = 0;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_USAGE, "folders", "not 0");
    free(memory);
}

/* A large space has its blocks measured; a small one has not. */
static void blocks_are_measured(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], 64 << 20);
        o.block_bytes = 0;
        o.depth = 0;
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        print_message("%s\n", zn_storage_description(s));
        assert_non_null(strstr(zn_storage_description(s), "blocks of "));
        assert_int_equal(zn_storage_bytes_read(s) + zn_storage_bytes_written(s), 0);
        assert_true(zn_storage_buffer_bytes(s) > 0);
        unsigned char *memory = lab_memory(4 << 20), *again = lab_memory(4 << 20);
        uint64_t random = 3;
        lab_fill(memory, 4 << 20, &random);
        OK(lab_write(s, 0, memory, 4 << 20));
        OK(lab_read(s, 0, again, 4 << 20));
        assert_memory_equal(memory, again, 4 << 20);
        zn_storage_destroy(s);
        o.n_bytes = 1 << 20;
        s = lab_create(&o);
        assert_non_null(strstr(zn_storage_description(s), "1 path, blocks of 1 MiB, depth 8"));
        zn_storage_destroy(s);
        free(memory);
        free(again);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(registered_memory_moves_the_same_bytes),
        cmocka_unit_test(several_paths_share_the_space),
        cmocka_unit_test(stripes_go_around_the_paths),
        cmocka_unit_test(destroying_waits_for_what_is_under_way),
        cmocka_unit_test(what_does_not_fit_is_refused),
        cmocka_unit_test(blocks_are_measured),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
