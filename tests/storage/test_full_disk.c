/* A disk that is too small, and what it looks like afterwards: on a small file system of the test's
 * own, which needs root. */
#include "storage/lab.h"

#include <sys/mount.h>
#include <sys/statvfs.h>

enum { DISK_MIB = 24 };

static char disk[128];
static bool mounted;

/* False: no such disk here, and the reason was said. */
static bool mount_disk(void)
{
    char command[1024];
    snprintf(disk, sizeof disk, "%s/disk", test_folder);
    snprintf(command, sizeof command,
             "exec 2>&1; mkdir %s && truncate -s %dM %s.img && mkfs.ext4 -q -m 0 -O ^has_journal %s.img && "
             "mount -o loop %s.img %s",
             disk, DISK_MIB, disk, disk, disk, disk);
    mounted = system(command) == 0;
    return mounted;
}

static uint64_t free_bytes(void)
{
    struct statvfs s;
    assert_int_equal(statvfs(disk, &s), 0);
    return (uint64_t)s.f_bavail * s.f_frsize;
}

static struct zn_storage_options on_disk(uint64_t n_bytes)
{
    static const char *paths[1];
    struct zn_storage_options o = lab_options(ZN_STORAGE_AUTO, n_bytes);
    paths[0] = disk;
    o.paths = paths;
    o.allow_buffered = false;
    return o;
}

static void a_full_disk_is_an_error_before_the_first_write(void **state)
{
    (void)state;
    uint64_t n_free = free_bytes();
    struct zn_storage_options o = on_disk(n_free / ALIGN * ALIGN + 16 * ALIGN);
    char wanted[256], left[64];
    zn_storage *s;
    snprintf(wanted, sizeof wanted, "%s: no room for a swap file of %llu bytes", disk, (unsigned long long)o.n_bytes);
    snprintf(left, sizeof left, "%llu bytes", (unsigned long long)n_free);
    FAILS(zn_storage_create_files(&o, &s), ZN_ERR_IO, wanted, left);
    check_message("are free", "No space left on device");
    assert_int_equal(free_bytes(), n_free); /* nothing is kept */
    assert_int_equal(n_entries(disk), 1);   /* lost+found */
}

/* The room is taken by then: others that fill the disk do no harm. */
static void what_is_reserved_can_be_written(void **state)
{
    (void)state;
    uint64_t n_free = free_bytes();
    struct zn_storage_options o = on_disk(8 << 20);
    zn_storage *s = lab_create(&o), *second;
    unsigned char *memory = lab_memory(8 << 20);
    char path[256];
    assert_true(n_free - free_bytes() >= 8 << 20);
    snprintf(path, sizeof path, "%s/others", disk);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    while (write(fd, memory, 1 << 20) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    FAILS(zn_storage_create_files(&o, &second), ZN_ERR_IO, "no room", "8388608 bytes");
    OK(lab_write(s, 0, memory, 8 << 20));
    zn_storage_destroy(s);
    close(fd);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(free_bytes(), n_free);
    free(memory);
}

static int make_and_sleep(void)
{
    struct zn_storage_options o = on_disk(8 << 20);
    zn_storage *s;
    if (zn_storage_create_files(&o, &s) != ZN_OK)
        return 1;
    kill(getpid(), SIGKILL);
    return 2;
}

static void a_killed_process_gives_the_room_back(void **state)
{
    (void)state;
    uint64_t n_free = free_bytes();
    int how;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(make_and_sleep());
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    /* The ring's end lets go of the file a moment after the process is gone. */
    for (int i = 0; i < 1000 && free_bytes() != n_free; i++)
        usleep(10000);
    assert_int_equal(free_bytes(), n_free);
}

static int remove_all(void **state)
{
    if (mounted)
        umount2(disk, MNT_DETACH);
    return remove_test_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk_is_an_error_before_the_first_write),
        cmocka_unit_test(what_is_reserved_can_be_written),
        cmocka_unit_test(a_killed_process_gives_the_room_back),
    };
    if (make_test_folder(NULL) != 0)
        return 1;
    if (!mount_disk()) {
        remove_all(NULL);
        printf("skipped: no small disk could be mounted here, which needs root, mkfs.ext4 and loop devices\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, remove_all);
}
