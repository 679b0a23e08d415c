/* Swap files: nobody sees them, they go with the process, and folders that do not suit are refused. */
#include "storage/lab.h"

#include <sys/resource.h>

static void nobody_sees_the_file(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("alone")));
    const char *paths[] = {in_folder("alone")};
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        struct zn_storage_options o = lab_options(both_engines[e], 3 << 20);
        struct stat s;
        o.paths = paths;
        mode_t mask = umask(0);
        zn_storage *storage = lab_create(&o);
        umask(mask);
        if (!storage)
            continue;
        assert_int_equal(n_entries(paths[0]), 0);
        int fd = lab_find_swap(paths[0]);
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &s), 0);
        assert_int_equal(s.st_mode & 07777, 0600);
        assert_int_equal(s.st_nlink, 0);
        assert_int_equal(s.st_size, 3 << 20);
        assert_true(s.st_blocks * 512 >= 3 << 20); /* reserved, not only long */
        assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
        bool direct = fcntl(fd, F_GETFL) & O_DIRECT;
        assert_int_equal(direct, !lab_in_memory(paths[0]));
        assert_int_equal(strstr(zn_storage_description(storage), "O_DIRECT") != NULL, direct);
        zn_storage_destroy(storage);
        assert_true(lab_find_swap(paths[0]) < 0);
    }
}

static int ready[2];

static int make_and_sleep(void)
{
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, 8 << 20);
    zn_storage *s;
    const char *path = in_folder("killed");
    o.paths = &path;
    if (zn_storage_create_files(&o, &s) != ZN_OK || write(ready[1], "x", 1) != 1)
        return 1;
    for (;;)
        pause();
}

static void nothing_is_left_of_a_killed_process(void **state)
{
    (void)state;
    char byte;
    OK(zn_folder_create(in_folder("killed")));
    assert_int_equal(pipe(ready), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(make_and_sleep());
    close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    assert_int_equal(n_entries(in_folder("killed")), 0);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(n_entries(in_folder("killed")), 0);
    assert_int_equal(rmdir(in_folder("killed")), 0);
}

static void folders_that_do_not_exist_are_named(void **state)
{
    (void)state;
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, 1 << 20);
    zn_storage *s;
    const char *path = in_folder("none");
    o.paths = &path;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_IO, path, "No such file or directory");
    path = make_text("file", "x");
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_IO, path, "Not a directory");
}

static int create_in_sealed(void)
{
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, 1 << 20);
    zn_storage *s;
    const char *path = in_folder("sealed");
    o.paths = &path;
    if (zn_storage_create_files(&o, &s) != ZN_ERR_IO)
        return 1;
    return !strstr(zn_error_message(), path) || !strstr(zn_error_message(), "Permission denied");
}

static void folders_that_are_not_writable_are_named(void **state)
{
    (void)state;
    OK(zn_folder_create(in_folder("sealed")));
    assert_int_equal(chmod(in_folder("sealed"), 0555), 0);
    assert_int_equal(chmod(test_folder, 0755), 0);
    assert_int_equal(lab_child(create_in_sealed, true), 0);
}

static void more_than_the_disk_has_is_refused(void **state)
{
    (void)state;
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, (uint64_t)1 << 60);
    zn_storage *s;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_IO, "no room for a swap file of 1152921504606846976 bytes",
          "are free");
    check_message(test_folder, "No space left on device");
    o.n_bytes = UINT64_MAX - ALIGN + 1;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_IO, test_folder, "no room");
}

static void memory_is_no_swap_unless_allowed(void **state)
{
    (void)state;
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, 1 << 20);
    zn_storage *s;
    const char *path = "/dev/shm";
    if (!lab_in_memory(path)) {
        print_message("/dev/shm is no tmpfs here\n");
        skip();
    }
    o.paths = &path;
    o.allow_buffered = false;
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_UNSUPPORTED, "/dev/shm: lies in memory (tmpfs)",
          "--allow-buffered-swap");
    for (size_t e = 0; e < COUNT(both_engines); e++) {
        o.allow_buffered = true;
        o.engine = both_engines[e];
        s = lab_create(&o);
        if (!s)
            continue;
        assert_non_null(strstr(zn_storage_description(s), "buffered, 1 path"));
        unsigned char *memory = lab_memory(1 << 20), *found = lab_memory(1 << 20);
        uint64_t random = 1;
        lab_fill(memory, 1 << 20, &random);
        OK(lab_write(s, 0, memory, 1 << 20));
        OK(lab_read(s, 0, found, 1 << 20));
        assert_memory_equal(memory, found, 1 << 20);
        zn_storage_destroy(s);
        free(memory);
        free(found);
    }
}

/* ---- With other rights ---- */

static bool limit_locked_memory(rlim_t n_bytes)
{
    struct rlimit limit = {n_bytes, n_bytes};
    return setrlimit(RLIMIT_MEMLOCK, &limit) == 0;
}

/* Enough for a ring, too little for the memory of a transfer. */
static int with_little_locked_memory(void)
{
    struct zn_storage_options o = lab_options(ZN_STORAGE_URING, 1 << 20);
    zn_storage *s;
    if (!limit_locked_memory(256 << 10))
        return 1;
    zn_status status = zn_storage_create_files(&o, &s);
    if (status != ZN_OK) {
        print_message("%s\n", zn_error_message());
        return status == ZN_ERR_UNSUPPORTED ? 77 : 2;
    }
    if (!lab_round_trip(s, 1 << 20))
        return 3;
    int registered = zn_storage_registered_bytes(s) != 0;
    zn_storage_destroy(s);
    return registered ? 4 : 0;
}

static void it_works_when_memory_cannot_be_registered(void **state)
{
    (void)state;
    assert_int_equal(chmod(test_folder, 0777), 0);
    int code = lab_child(with_little_locked_memory, true);
    if (code == 77) {
        print_message("no io_uring here\n");
        skip();
    }
    assert_int_equal(code, 0);
}

/* Some systems count the ring itself; then threads do the work. */
static int without_locked_memory(void)
{
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, 1 << 20);
    zn_storage *s;
    if (!limit_locked_memory(0))
        return 1;
    if (zn_storage_create_files(&o, &s) != ZN_OK || !lab_round_trip(s, 1 << 20))
        return 2;
    zn_storage_destroy(s);
    return 0;
}

static void it_works_without_locked_memory(void **state)
{
    (void)state;
    assert_int_equal(chmod(test_folder, 0777), 0);
    assert_int_equal(lab_child(without_locked_memory, true), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_sees_the_file),
        cmocka_unit_test(nothing_is_left_of_a_killed_process),
        cmocka_unit_test(folders_that_do_not_exist_are_named),
        cmocka_unit_test(folders_that_are_not_writable_are_named),
        cmocka_unit_test(more_than_the_disk_has_is_refused),
        cmocka_unit_test(memory_is_no_swap_unless_allowed),
        cmocka_unit_test(it_works_when_memory_cannot_be_registered),
        cmocka_unit_test(it_works_without_locked_memory),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
