/* Makes one call on a file fail, for a program that is started with this library in LD_PRELOAD:
 *
 *   FAIL_CALL=fsync:GLOB:ERRNO    likewise pwrite and pread: the first on a file whose path matches
 *   FAIL_AFTER=LINES:FILE         not before this file has so many lines
 *   FAIL_RANK=R                   only on this rank of an mpirun
 *   FREE_BYTES=N                  what statvfs says of every file system, whatever it has
 *
 * Others go to the system as they are. */
#include <dlfcn.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/types.h>
#include <unistd.h>

static bool is_early(void)
{
    const char *after = getenv("FAIL_AFTER");
    char path[4096];
    int wanted = 0, n_lines = 0, c;
    if (!after || sscanf(after, "%d:%4095s", &wanted, path) != 2)
        return false;
    FILE *file = fopen(path, "re");
    while (file && (c = fgetc(file)) != EOF)
        n_lines += c == '\n';
    if (file)
        fclose(file);
    return n_lines < wanted;
}

static bool is_other_rank(void)
{
    const char *only = getenv("FAIL_RANK"), *rank = getenv("OMPI_COMM_WORLD_RANK");
    return only && rank && strcmp(only, rank) != 0;
}

/* 0, or what the call is to fail with. */
static int wanted(const char *call, int fd)
{
    static atomic_bool has_failed;
    char name[16] = "", glob[256] = "", link[64], path[4096];
    int code = 0;
    const char *what = getenv("FAIL_CALL");
    if (!what || sscanf(what, "%15[^:]:%255[^:]:%d", name, glob, &code) != 3 || strcmp(name, call) != 0)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (n < 0)
        return 0;
    path[n] = '\0';
    if (fnmatch(glob, path, 0) != 0 || is_other_rank() || is_early())
        return 0;
    return atomic_exchange(&has_failed, true) ? 0 : code;
}

#define FAIL_IF_WANTED(call, fd)                                                                   \
    do {                                                                                           \
        int wanted_code = wanted(call, fd);                                                        \
        if (wanted_code) {                                                                         \
            errno = wanted_code;                                                                   \
            return -1;                                                                             \
        }                                                                                          \
    } while (0)

/* The system's own function of this name. */
static void find(const char *name, void *function, size_t size)
{
    void *address = dlsym(RTLD_NEXT, name);
    if (!address)
        abort();
    memcpy(function, &address, size);
}

int fsync(int fd)
{
    int (*real)(int);
    FAIL_IF_WANTED("fsync", fd);
    find("fsync", &real, sizeof real);
    return real(fd);
}

ssize_t pwrite(int fd, const void *data, size_t n_bytes, off_t offset)
{
    ssize_t (*real)(int, const void *, size_t, off_t);
    FAIL_IF_WANTED("pwrite", fd);
    find("pwrite", &real, sizeof real);
    return real(fd, data, n_bytes, offset);
}

ssize_t pread(int fd, void *data, size_t n_bytes, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    FAIL_IF_WANTED("pread", fd);
    find("pread", &real, sizeof real);
    return real(fd, data, n_bytes, offset);
}

int statvfs(const char *path, struct statvfs *fs)
{
    int (*real)(const char *, struct statvfs *);
    const char *n_free = getenv("FREE_BYTES");
    find("statvfs", &real, sizeof real);
    int result = real(path, fs);
    if (result == 0 && n_free)
        fs->f_bavail = strtoull(n_free, NULL, 10) / fs->f_frsize;
    return result;
}
