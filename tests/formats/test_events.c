/* Event files of TensorBoard: the first record, the order of files, and what becomes of those of another run. TensorBoard's own
 * reader is asked by tests/parity/test_tensorboard.sh. */
#include "files.h"

#include "formats/events.h"

/* The files of the folder, sorted. */
static size_t list(char ***names)
{
    size_t n;
    OK(zn_folder_list(in_folder("events"), names, &n));
    return n;
}

static void first_record_is_the_version(void **state)
{
    (void)state;
    /* The length 26 and its masked checksum. */
    static const unsigned char head[12] = {26, 0, 0, 0, 0, 0, 0, 0, 0x12, 0x9b, 0xd8, 0x2d};
    unsigned char bytes[256];
    char **names;
    zn_events *events;
    OK(zn_events_create(in_folder("events"), 0, &events));
    zn_events_add(events, "loss", 1.5);
    zn_events_add(events, "not finite", 1.0 / 0.0);
    OK(zn_events_write(events, 7));
    OK(zn_events_write(events, 8)); /* nothing was added */
    zn_events_destroy(events);
    assert_int_equal(list(&names), 1);
    assert_non_null(strstr(names[0], "tfevents"));
    char path[512];
    snprintf(path, sizeof path, "%s/%s", in_folder("events"), names[0]);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    size_t n = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    assert_memory_equal(bytes, head, sizeof head);
    assert_memory_equal(bytes + 12 + 9, "\020\000\032\015brain.Event:2", 17);
    /* step 7, a summary of one value: its tag and 1.5 */
    size_t second = 12 + 26 + 4;
    assert_int_equal(n, second + 12 + 9 + 2 + 2 + 13 + 4);
    assert_memory_equal(bytes + second + 12 + 9, "\020\007\052\015\012\013\012\004loss\025\000\000\300\077", 17);
    zn_names_free(names, 1);
}

static void files_sort_in_their_order(void **state)
{
    (void)state;
    char **names;
    zn_events *events;
    for (int i = 0; i < 12; i++) {
        OK(zn_events_create(in_folder("events"), i ? 3 : 0, &events));
        zn_events_destroy(events);
        assert_int_equal(list(&names), i + 1);
        zn_names_free(names, (size_t)i + 1);
    }
    OK(zn_events_create(in_folder("events"), 0, &events)); /* another run */
    zn_events_destroy(events);
    assert_int_equal(list(&names), 1);
    zn_names_free(names, 1);
}

static void a_place_that_cannot_be_written(void **state)
{
    (void)state;
    zn_events *events;
    FAILS(zn_events_create("/proc/none", 0, &events), ZN_ERR_IO, "/proc/none", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(first_record_is_the_version), cmocka_unit_test(files_sort_in_their_order),
                                       cmocka_unit_test(a_place_that_cannot_be_written)};
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
