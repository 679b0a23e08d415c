/* Requests that come after an event: done, late, failed, set in another order than asked for. */
#include "storage/lab.h"

static zn_clock clock_now;

static void a_request_waits_for_its_event(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], 1 << 20);
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(2 * ALIGN), *found = lab_memory(2 * ALIGN);
        zn_event computed, done;
        zn_event_init(&computed);
        zn_event_init(&done);
        memset(memory, 1, ALIGN);
        OK(zn_storage_write(s, 0, zn_extent_of(memory, ALIGN), ALIGN, &computed, &done));
        assert_false(zn_event_poll(&done, 0.02));
        memset(memory, 2, ALIGN); /* the write has not begun: it takes this */
        zn_event_set(&computed, ZN_OK, NULL, 0);
        OK(zn_event_wait(&done, &clock_now));
        OK(lab_read(s, 0, found, ALIGN));
        assert_memory_equal(found, memory, ALIGN);
        /* One that is done already. */
        zn_event_reset(&done);
        OK(zn_storage_read(s, 0, zn_extent_of(found + ALIGN, ALIGN), ALIGN, &computed, &done));
        OK(zn_event_wait(&done, &clock_now));
        assert_memory_equal(found + ALIGN, memory, ALIGN);
        zn_storage_destroy(s);
        zn_event_fini(&computed);
        zn_event_fini(&done);
        free(memory);
        free(found);
    }
}

/* Both events are used again at once, while the request may still wait for the one and has not ended the other. */
static void a_request_keeps_to_the_use_of_its_events(void **state)
{
    (void)state;
    enum { ROUNDS = 20 };
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], 1 << 20);
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(ALIGN);
        struct zn_ticket ended[ROUNDS];
        zn_event computed, done;
        zn_event_init(&computed);
        zn_event_init(&done);
        alarm(60); /* who waits for ever ends the program */
        for (int i = 0; i < ROUNDS; i++) {
            OK(zn_storage_write(s, 0, zn_extent_of(memory, ALIGN), ALIGN, &computed, &done));
            ended[i] = zn_event_ticket(&done);
            zn_event_set(&computed, ZN_OK, NULL, 0);
            zn_event_reset(&computed);
            zn_event_reset(&done);
            OK(zn_ticket_wait(ended[i], &clock_now));
            assert_false(zn_event_poll(&done, 0));
        }
        alarm(0);
        zn_storage_destroy(s);
        zn_event_fini(&computed);
        zn_event_fini(&done);
        free(memory);
    }
}

static void a_failed_event_fails_the_request(void **state)
{
    (void)state;
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        for (int late = 0; late < 2; late++) {
            struct zn_storage_options o = lab_options(both_engines[e], 1 << 20);
            zn_storage *s = lab_create(&o);
            if (!s)
                continue;
            unsigned char *memory = lab_memory(ALIGN), *found = lab_memory(ALIGN);
            zn_event computed, done;
            zn_event_init(&computed);
            zn_event_init(&done);
            memset(found, 3, ALIGN);
            OK(lab_write(s, 0, found, ALIGN));
            if (!late)
                zn_event_set(&computed, ZN_ERR_NUMERIC, "the sum is no number", 0);
            OK(zn_storage_write(s, 0, zn_extent_of(memory, ALIGN), ALIGN, &computed, &done));
            if (late)
                zn_event_set(&computed, ZN_ERR_NUMERIC, "the sum is no number", 0);
            FAILS(zn_event_wait(&done, &clock_now), ZN_ERR_NUMERIC, "the sum", "is no number");
            OK(lab_read(s, 0, memory, ALIGN)); /* nothing was written */
            assert_memory_equal(memory, found, ALIGN);
            zn_storage_destroy(s);
            zn_event_fini(&computed);
            zn_event_fini(&done);
            free(memory);
            free(found);
        }
    }
}

/* Events are set last to first, each only when the request before it has ended. */
static void the_order_of_events_does_not_matter(void **state)
{
    (void)state;
    enum { N = 8 };
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], 1 << 20);
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(N * ALIGN);
        zn_event after[N], done[N];
        for (int i = 0; i < N; i++) {
            zn_event_init(&after[i]);
            zn_event_init(&done[i]);
            OK(zn_storage_write(s, (uint64_t)i * ALIGN, zn_extent_of(memory + i * ALIGN, ALIGN), ALIGN, &after[i], &done[i]));
        }
        OK(lab_write(s, N * ALIGN, memory, ALIGN)); /* waits for none of them */
        for (int i = N - 1; i >= 0; i--) {
            zn_event_set(&after[i], ZN_OK, NULL, 0);
            OK(zn_event_wait(&done[i], &clock_now));
            assert_true(i == 0 || !zn_event_poll(&done[i - 1], 0));
        }
        zn_storage_destroy(s);
        for (int i = 0; i < N; i++) {
            zn_event_fini(&after[i]);
            zn_event_fini(&done[i]);
        }
        free(memory);
    }
}

/* Each request reads or writes the same memory as the one before, whose event it comes after. */
static void a_chain_runs_without_the_caller(void **state)
{
    (void)state;
    enum { LINKS = 64, BYTES = 16 * ALIGN };
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], (LINKS + 1) * BYTES);
        zn_storage *s = lab_create(&o);
        if (!s)
            continue;
        unsigned char *memory = lab_memory(BYTES), *wanted = lab_memory(BYTES);
        zn_event done[2 * LINKS];
        uint64_t random = 5;
        lab_fill(wanted, BYTES, &random);
        OK(lab_write(s, 0, wanted, BYTES));
        for (int i = 0; i < 2 * LINKS; i++) {
            zn_event *after = i ? &done[i - 1] : NULL;
            zn_event_init(&done[i]);
            if (i % 2 == 0)
                OK(zn_storage_read(s, (uint64_t)(i / 2) * BYTES, zn_extent_of(memory, BYTES), BYTES, after, &done[i]));
            else
                OK(zn_storage_write(s, (uint64_t)(i / 2 + 1) * BYTES, zn_extent_of(memory, BYTES), BYTES, after, &done[i]));
        }
        OK(zn_event_wait(&done[2 * LINKS - 1], &clock_now));
        memset(memory, 0, BYTES);
        OK(lab_read(s, LINKS * BYTES, memory, BYTES));
        assert_memory_equal(memory, wanted, BYTES);
        zn_storage_destroy(s);
        for (int i = 0; i < 2 * LINKS; i++)
            zn_event_fini(&done[i]);
        free(memory);
        free(wanted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_waits_for_its_event),
        cmocka_unit_test(a_request_keeps_to_the_use_of_its_events),
        cmocka_unit_test(a_failed_event_fails_the_request),
        cmocka_unit_test(the_order_of_events_does_not_matter),
        cmocka_unit_test(a_chain_runs_without_the_caller),
    };
    zn_clock_init_real(&clock_now);
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
