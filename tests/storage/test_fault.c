/* Faults inside the engines: short transfers, errors, files that end. */
#include "storage/lab.h"

enum { BLOCK = 65536, BYTES = 5 * BLOCK };

static zn_storage *faulty(zn_storage_engine engine, const struct zn_storage_fault *fault)
{
    struct zn_storage_options o = lab_options(engine, 4 * BYTES);
    o.block_bytes = BLOCK;
    o.fault = fault;
    return lab_create(&o);
}

/* Writes a pattern, reads it back; any of the two may meet with the fault. */
static void round_trip(zn_storage *s, uint64_t offset)
{
    unsigned char *memory = lab_memory(BYTES), *found = lab_memory(BYTES);
    uint64_t random = offset + 1;
    lab_fill(memory, BYTES, &random);
    OK(lab_write(s, offset, memory, BYTES));
    OK(lab_read(s, offset, found, BYTES));
    assert_memory_equal(memory, found, BYTES);
    free(memory);
    free(found);
}

static void a_short_transfer_is_completed(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        for (uint64_t at = 0; at < 2; at++) { /* a write, a read */
            struct zn_storage_fault fault = {.at_request = at, .short_transfer = true};
            zn_storage *s = faulty(both_engines[e], &fault);
            if (!s)
                continue;
            round_trip(s, 0);
            round_trip(s, ALIGN); /* blocks that end with the stripe */
            zn_storage_destroy(s);
        }
    }
}

/* The second half fails, which also shows that there was a first one. */
static void a_transfer_can_fail_half_way(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_fault fault = {.at_request = 2, .error = EIO, .short_transfer = true};
        zn_storage *s = faulty(both_engines[e], &fault);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(BYTES), *found = lab_memory(BYTES);
        round_trip(s, 0); /* requests 0 and 1 */
        FAILS(lab_write(s, 2 * BLOCK, memory, BLOCK), ZN_ERR_IO, "cannot write 32768 bytes at offset 163840",
              "Input/output error");
        OK(lab_read(s, 2 * BLOCK, found, BLOCK / 2));
        assert_memory_equal(found, memory, BLOCK / 2);
        zn_storage_destroy(s);
        fault.at_request = 0;
        s = faulty(both_engines[e], &fault);
        FAILS(lab_read(s, 0, memory, BLOCK), ZN_ERR_IO, "cannot read 32768 bytes at offset 32768",
              "Input/output error");
        zn_storage_destroy(s);
        free(memory);
        free(found);
    }
}

static void an_interrupted_transfer_goes_again(void **state)
{
    (void)state;
    const int errors[] = {EINTR, EAGAIN};
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        for (size_t i = 0; i < COUNT(errors); i++) {
            struct zn_storage_fault fault = {.at_request = 1, .error = errors[i]};
            zn_storage *s = faulty(both_engines[e], &fault);
            if (!s)
                continue;
            round_trip(s, 0);
            zn_storage_destroy(s);
        }
    }
}

static void a_failed_transfer_says_where_and_why(void **state)
{
    (void)state;
    const struct {
        int error;
        const char *text;
    } errors[] = {{EIO, "Input/output error"}, {ENOSPC, "No space left on device"}};
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        for (size_t i = 0; i < COUNT(errors); i++) {
            struct zn_storage_fault fault = {.at_request = 2, .error = errors[i].error};
            zn_storage *s = faulty(both_engines[e], &fault);
            if (!s)
                continue;
            char wanted[300];
            unsigned char *memory = lab_memory(BYTES);
            round_trip(s, 0); /* requests 0 and 1 */
            snprintf(wanted, sizeof wanted, "%s: cannot write %d bytes at offset %d: %s", test_folder, BLOCK, BYTES,
                     errors[i].text);
            assert_int_equal(lab_write(s, BYTES, memory, BYTES), ZN_ERR_IO);
            assert_string_equal(zn_error_message(), wanted);
            round_trip(s, BYTES); /* the next ones are well */
            zn_storage_destroy(s);
            fault.at_request = 0;
            s = faulty(both_engines[e], &fault);
            FAILS(lab_read(s, 0, memory, BYTES), ZN_ERR_IO, "cannot read 65536 bytes at offset 0", errors[i].text);
            zn_storage_destroy(s);
            free(memory);
        }
    }
}

/* One block at a time: when the first fails, the others are left as they were. */
static void after_a_failure_nothing_more_begins(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_fault fault = {.at_request = 1, .error = EIO};
        struct zn_storage_options o = lab_options(both_engines[e], BYTES);
        o.depth = 1;
        o.fault = &fault;
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *old = lab_memory(BYTES), *new = lab_memory(BYTES);
        memset(old, 1, BYTES);
        OK(lab_write(s, 0, old, BYTES));
        assert_int_equal(lab_write(s, 0, new, BYTES), ZN_ERR_IO);
        OK(lab_read(s, 0, new, BYTES));
        assert_memory_equal(new + BLOCK, old + BLOCK, BYTES - BLOCK);
        zn_storage_destroy(s);
        free(old);
        free(new);
    }
}

/* One of many: the others end well, the failed one ends once, and its memory may go at once. */
static void a_failure_is_its_requests_alone(void **state)
{
    (void)state;
    enum { N = 24 };
    zn_clock clock;
    zn_clock_init_real(&clock);
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_fault fault = {.at_request = 11, .error = EIO};
        struct zn_storage_options o = lab_options(both_engines[e], (uint64_t)N * BYTES);
        o.fault = &fault;
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory[N];
        zn_event done[N];
        for (int i = 0; i < N; i++) {
            memory[i] = lab_memory(BYTES);
            zn_event_init(&done[i]);
            OK(zn_storage_write(s, (uint64_t)i * BYTES, zn_extent_of(memory[i], BYTES), BYTES, NULL, &done[i]));
        }
        for (int i = 0; i < N; i++) {
            assert_int_equal(zn_event_wait(&done[i], &clock), i == 11 ? ZN_ERR_IO : ZN_OK);
            free(memory[i]);
            zn_event_fini(&done[i]);
        }
        zn_storage_destroy(s);
    }
}

static void a_file_that_ends_is_an_error(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        zn_storage *s = faulty(both_engines[e], NULL);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(BYTES);
        int fd = lab_find_swap(test_folder);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, 2 * BLOCK + BLOCK / 2), 0);
        OK(lab_read(s, 0, memory, 2 * BLOCK));
        FAILS(lab_read(s, 0, memory, BYTES), ZN_ERR_IO, "cannot read", "unexpected end of the file");
        zn_storage_destroy(s);
        free(memory);
    }
}

/* Whoever waits for the event of a request that was not taken would wait for ever. */
static void a_request_that_is_not_taken_fails_its_event(void **state)
{
    (void)state;
    struct zn_storage_options o = lab_options(ZN_STORAGE_THREADS, BYTES);
    unsigned char *memory = lab_memory(BYTES);
    zn_storage *s = lab_create(&o);
    zn_event done;
    zn_clock clock = {0};
    zn_event_init(&done);
    FAILS(zn_storage_write(s, BYTES, zn_extent_of(memory, BLOCK), BLOCK, NULL, &done), ZN_ERR_INTERNAL, "beyond its", "bytes");
    assert_true(zn_event_poll(&done, 0));
    FAILS(zn_event_wait(&done, &clock), ZN_ERR_INTERNAL, "beyond its", "bytes");
    zn_event_fini(&done);
    zn_storage_destroy(s);
    free(memory);
}

static void the_environment_plants_faults(void **state)
{
    (void)state;
    const char *const wrong[] = {"EIO",    "1",      "1:",     "x:EIO",
                                 "-1:EIO", "1:EFUN", "1 :EIO", "99999999999999999999999:EIO"};
    struct zn_storage_options o = lab_options(ZN_STORAGE_THREADS, 4 * BYTES);
    unsigned char *memory = lab_memory(BYTES);
    setenv("ZINC_STORAGE_FAULT", "1:ENOSPC", 1);
    zn_storage *s = lab_create(&o);
    OK(lab_write(s, 0, memory, BYTES));
    FAILS(lab_write(s, 0, memory, BYTES), ZN_ERR_IO, "cannot write 65536 bytes at offset 0", "No space left");
    OK(lab_write(s, 0, memory, BYTES));
    zn_storage_destroy(s);
    setenv("ZINC_STORAGE_FAULT", "0:SHORT", 1);
    s = lab_create(&o);
    round_trip(s, 0);
    zn_storage_destroy(s);
    for (size_t i = 0; i < COUNT(wrong); i++) {
        setenv("ZINC_STORAGE_FAULT", wrong[i], 1);
        FAILS(zn_storage_create_files(&o, &s), ZN_ERR_USAGE, "ZINC_STORAGE_FAULT", "not");
    }
    unsetenv("ZINC_STORAGE_FAULT");
    free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_transfer_is_completed),
        cmocka_unit_test(a_transfer_can_fail_half_way),
        cmocka_unit_test(an_interrupted_transfer_goes_again),
        cmocka_unit_test(a_failed_transfer_says_where_and_why),
        cmocka_unit_test(after_a_failure_nothing_more_begins),
        cmocka_unit_test(a_failure_is_its_requests_alone),
        cmocka_unit_test(a_file_that_ends_is_an_error),
        cmocka_unit_test(a_request_that_is_not_taken_fails_its_event),
        cmocka_unit_test(the_environment_plants_faults),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
