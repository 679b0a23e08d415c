/* Systems and file systems that lack something: io_uring, files without names, reservation, direct I/O.
 * Each is played by a child whose system calls are filtered. */
#include "storage/lab.h"

#include <stddef.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { NO_FILTERS = 77, BYTES = 1 << 20 };

/* From now on this system call fails with `error` when argument `arg` has one of the bits of `mask`. */
static bool forbid(unsigned call, int arg, unsigned mask, unsigned error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)(offsetof(struct seccomp_data, args) + (size_t)arg * 8)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, mask, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {COUNT(filter), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static struct zn_storage_options options(void)
{
    static const char *paths[1];
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, BYTES);
    paths[0] = in_folder("poor");
    o.paths = paths;
    return o;
}

static void runs_well(int (*run)(void))
{
    OK(zn_folder_create(in_folder("poor")));
    int code = lab_child(run, false);
    if (code == NO_FILTERS) {
        print_message("no system call filters here\n");
        skip();
    }
    assert_int_equal(code, 0);
    assert_int_equal(n_entries(in_folder("poor")), 0);
}

static int without_uring(void)
{
    struct zn_storage_options o = options();
    zn_storage *s;
    if (!forbid(__NR_io_uring_setup, 0, ~0u, EPERM))
        return NO_FILTERS;
    o.engine = ZN_STORAGE_URING;
    if (zn_storage_create_files(&o, &s) != ZN_ERR_UNSUPPORTED ||
        !strstr(zn_error_message(), "io_uring: Operation not permitted"))
        return 1;
    o.engine = ZN_STORAGE_AUTO;
    if (zn_storage_create_files(&o, &s) != ZN_OK || !lab_round_trip(s, BYTES))
        return 2;
    if (!strstr(zn_storage_description(s), "threads (io_uring: Operation not permitted)"))
        return 3;
    zn_storage_destroy(s);
    return 0;
}

static void threads_stand_in_for_io_uring_and_say_so(void **state)
{
    (void)state;
    runs_well(without_uring);
}

static int without_nameless_files(void)
{
    struct zn_storage_options o = options();
    zn_storage *s;
    struct stat found;
    if (!forbid(__NR_openat, 2, O_TMPFILE & ~O_DIRECTORY, EOPNOTSUPP))
        return NO_FILTERS;
    umask(0);
    if (zn_storage_create_files(&o, &s) != ZN_OK || !lab_round_trip(s, BYTES))
        return 1;
    int fd = lab_find_swap(o.paths[0]);
    if (fd < 0 || fstat(fd, &found) != 0 || (found.st_mode & 07777) != 0600 || found.st_nlink != 0)
        return 2;
    if (n_entries(o.paths[0]) != 0)
        return 3;
    zn_storage_destroy(s);
    return 0;
}

static void a_file_that_needs_a_name_loses_it_at_once(void **state)
{
    (void)state;
    runs_well(without_nameless_files);
}

static int without_reservation(void)
{
    struct zn_storage_options o = options();
    zn_storage *s;
    struct stat found;
    o.n_bytes = BYTES * 5 / 2; /* not in whole steps of the filling */
    if (!forbid(__NR_fallocate, 0, ~0u, EOPNOTSUPP))
        return NO_FILTERS;
    if (zn_storage_create_files(&o, &s) != ZN_OK || !lab_round_trip(s, BYTES))
        return 1;
    int fd = lab_find_swap(o.paths[0]);
    if (fd < 0 || fstat(fd, &found) != 0 || found.st_size != BYTES * 5 / 2 || found.st_blocks * 512 < found.st_size)
        return 2;
    zn_storage_destroy(s);
    return 0;
}

static void what_cannot_be_reserved_is_filled(void **state)
{
    (void)state;
    runs_well(without_reservation);
}

static int without_the_direct_flag(void)
{
    struct zn_storage_options o = options();
    zn_storage *s;
    if (!forbid(__NR_fcntl, 2, O_DIRECT, EINVAL))
        return NO_FILTERS;
    o.allow_buffered = false;
    if (zn_storage_create_files(&o, &s) != ZN_ERR_UNSUPPORTED || !strstr(zn_error_message(), o.paths[0]) ||
        !strstr(zn_error_message(), "direct I/O (O_DIRECT: Invalid argument)"))
        return 1;
    o.allow_buffered = true;
    if (zn_storage_create_files(&o, &s) != ZN_OK || !lab_round_trip(s, BYTES))
        return 2;
    if (!strstr(zn_storage_description(s), "buffered, 1 path"))
        return 3;
    zn_storage_destroy(s);
    return 0;
}

/* The flag is taken, the transfer is not. */
static int without_direct_transfers(void)
{
    struct zn_storage_options o = options();
    zn_storage *s;
    if (!forbid(__NR_pwrite64, 2, ~0u, EINVAL))
        return NO_FILTERS;
    o.allow_buffered = false;
    if (zn_storage_create_files(&o, &s) != ZN_ERR_UNSUPPORTED ||
        !strstr(zn_error_message(), "direct I/O (O_DIRECT: Invalid argument)"))
        return 1;
    o.allow_buffered = true;
    if (zn_storage_create_files(&o, &s) != ZN_OK || !strstr(zn_storage_description(s), "buffered, 1 path"))
        return 2;
    int fd = lab_find_swap(o.paths[0]);
    if (fd < 0 || (fcntl(fd, F_GETFL) & O_DIRECT)) /* it was switched off again */
        return 3;
    zn_storage_destroy(s);
    return 0;
}

static void folders_without_direct_transfers_are_refused(void **state)
{
    (void)state;
    if (lab_in_memory(test_folder)) {
        print_message("%s lies in memory\n", test_folder);
        skip();
    }
    runs_well(without_the_direct_flag);
    runs_well(without_direct_transfers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_stand_in_for_io_uring_and_say_so),
        cmocka_unit_test(a_file_that_needs_a_name_loses_it_at_once),
        cmocka_unit_test(what_cannot_be_reserved_is_filled),
        cmocka_unit_test(folders_without_direct_transfers_are_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
