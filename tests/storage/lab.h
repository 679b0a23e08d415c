/* For tests of the storage: a storage on files in the test's folder, memory for transfers, requests
 * that are waited for, and children that run with other rights. */
#ifndef ZN_TESTS_STORAGE_LAB_H
#define ZN_TESTS_STORAGE_LAB_H

#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <linux/magic.h>

#include "storage/storage.h"

enum { ALIGN = ZN_STORAGE_ALIGNMENT };

static const zn_storage_engine both_engines[] = {ZN_STORAGE_URING, ZN_STORAGE_THREADS};

/* The test's folder may lie in memory: its content is tested all the same. */
static inline struct zn_storage_options lab_options(zn_storage_engine engine, uint64_t n_bytes)
{
    static const char *path[1];
    path[0] = test_folder;
    return (struct zn_storage_options){.paths = path,
                                       .n_paths = 1,
                                       .n_bytes = n_bytes,
                                       .allow_buffered = true,
                                       .engine = engine,
                                       .block_bytes = 65536,
                                       .depth = 4};
}

/* NULL where this system has no io_uring. */
static inline zn_storage *lab_create(const struct zn_storage_options *options)
{
    zn_storage *storage;
    zn_status status = zn_storage_create_files(options, &storage);
    if (status == ZN_ERR_UNSUPPORTED && options->engine == ZN_STORAGE_URING) {
        print_message("no io_uring here, not tested: %s\n", zn_error_message());
        return NULL;
    }
    if (status != ZN_OK)
        fail_msg("%s", zn_error_message());
    return storage;
}

static inline unsigned char *lab_memory(size_t n_bytes)
{
    void *memory;
    assert_int_equal(posix_memalign(&memory, ALIGN, n_bytes), 0);
    memset(memory, 0xee, n_bytes);
    return memory;
}

/* A number that is different each time, the same in each run. */
static inline uint32_t lab_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Pages that differ from each other in their first and last words: cheap, and none can stand in for
 * another. */
static inline void lab_fill(unsigned char *memory, size_t n_bytes, uint64_t *state)
{
    for (size_t i = 0; i < n_bytes; i += ALIGN) {
        uint64_t word = ((uint64_t)lab_random(state) << 32) + lab_random(state);
        memset(memory + i, (int)(word & 0xff), ALIGN);
        memcpy(memory + i, &word, sizeof word);
        memcpy(memory + i + ALIGN - sizeof word, &word, sizeof word);
    }
}

/* One request, waited for. */
static inline zn_status lab_write(zn_storage *s, uint64_t offset, const void *memory, size_t n_bytes)
{
    zn_clock clock;
    zn_event done;
    zn_clock_init_real(&clock);
    zn_event_init(&done);
    zn_status status = zn_storage_write(s, offset, zn_extent_of(memory, n_bytes), n_bytes, NULL, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, &clock);
    zn_event_fini(&done);
    return status;
}

static inline zn_status lab_read(zn_storage *s, uint64_t offset, void *memory, size_t n_bytes)
{
    zn_clock clock;
    zn_event done;
    zn_clock_init_real(&clock);
    zn_event_init(&done);
    zn_status status = zn_storage_read(s, offset, zn_extent_of(memory, n_bytes), n_bytes, NULL, &done);
    if (status == ZN_OK)
        status = zn_event_wait(&done, &clock);
    zn_event_fini(&done);
    return status;
}

/* Writes and reads back from memory that it offers for registration, which stays: the storage may hold
 * it. For children, which have no assertions. */
static inline bool lab_round_trip(zn_storage *s, size_t n_bytes)
{
    unsigned char *memory = lab_memory(n_bytes), *found = lab_memory(n_bytes);
    uint64_t random = 1;
    lab_fill(memory, n_bytes, &random);
    zn_storage_register(s, zn_extent_of(memory, n_bytes));
    zn_storage_register(s, zn_extent_of(found, n_bytes));
    print_message("%s, registered %zu bytes\n", zn_storage_description(s), zn_storage_registered_bytes(s));
    return lab_write(s, 0, memory, n_bytes) == ZN_OK && lab_read(s, 0, found, n_bytes) == ZN_OK &&
           memcmp(memory, found, n_bytes) == 0;
}

/* The descriptor of a swap file of this process in the test's folder, or -1. */
static inline int lab_find_swap(const char *folder)
{
    DIR *fds = opendir("/proc/self/fd");
    int found = -1;
    assert_non_null(fds);
    for (struct dirent *entry; found < 0 && (entry = readdir(fds));) {
        char link[512], target[512];
        snprintf(link, sizeof link, "/proc/self/fd/%.400s", entry->d_name);
        ssize_t n = readlink(link, target, sizeof target - 1);
        if (n <= 0)
            continue;
        target[n] = '\0';
        if (strncmp(target, folder, strlen(folder)) == 0 && strstr(target, "(deleted)"))
            found = atoi(entry->d_name);
    }
    closedir(fds);
    return found;
}

static inline bool lab_in_memory(const char *folder)
{
    struct statfs s;
    return statfs(folder, &s) == 0 && (uint32_t)s.f_type == TMPFS_MAGIC;
}

/* Runs in a process of its own, without root's rights when `plain`; its exit code. What it prints is
 * seen; it returns 0 when all is well. */
static inline int lab_child(int (*run)(void), bool plain)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (plain && getuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(100);
        int code = run();
        fflush(NULL);
        _exit(code);
    }
    int state;
    assert_int_equal(waitpid(child, &state, 0), child);
    assert_true(WIFEXITED(state));
    return WEXITSTATUS(state);
}

#endif
