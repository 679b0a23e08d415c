/* Reading and listing. */
#include "base/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/size.h"

static zn_status fail_errno(const char *path, const char *what)
{
    return zn_fail(ZN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

bool zn_file_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && !S_ISDIR(s.st_mode);
}

bool zn_folder_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

zn_status zn_path_join(const char *folder, const char *name, char **path)
{
    size_t n = strlen(folder);
    const char *slash = n > 0 && folder[n - 1] == '/' ? "" : "/";
    if (asprintf(path, "%s%s%s", folder, slash, name) < 0)
        return zn_fail(ZN_ERR_MEMORY, "out of memory for the path of %s", name);
    return ZN_OK;
}

zn_status zn_path_look(const char *path, bool *found)
{
    struct stat s;
    bool there = stat(path, &s) == 0;
    if (!there && errno != ENOENT && errno != ENOTDIR)
        return zn_fail(ZN_ERR_IO, "%s: cannot look at it: %s", path, strerror(errno));
    *found = there;
    return ZN_OK;
}

zn_status zn_folder_holds(const char *folder, const char *name, bool *found)
{
    char *path;
    ZN_TRY(zn_path_join(folder, name, &path));
    zn_status status = zn_path_look(path, found);
    free(path);
    return status;
}

/* Reads to the end of the file, also of a pipe, whose size nobody knows before. */
static zn_status read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *n_bytes)
{
    size_t capacity = 64 * ZN_KIB, n = 0;
    char *buffer = malloc(capacity);
    for (;;) {
        if (!buffer)
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory for %zu bytes", path, capacity);
        ssize_t got = read(fd, buffer + n, capacity - n - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            fail_errno(path, "cannot read");
            free(buffer);
            return ZN_ERR_IO;
        }
        n += (size_t)got;
        if (n > max_bytes) {
            free(buffer);
            return zn_fail(ZN_ERR_INPUT, "%s: larger than the %zu bytes such a file may have", path, max_bytes);
        }
        if (got == 0)
            break;
        if (capacity - n < 2) {
            char *larger = realloc(buffer, capacity *= 2);
            if (!larger)
                free(buffer);
            buffer = larger;
        }
    }
    buffer[n] = '\0';
    *data = buffer;
    *n_bytes = n;
    return ZN_OK;
}

zn_status zn_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path, "cannot open");
    zn_status status = read_all(fd, path, max_bytes, data, n_bytes);
    close(fd);
    return status;
}

zn_status zn_file_open(const char *path, int *fd, uint64_t *n_bytes)
{
    /* Without O_NONBLOCK a pipe would wait for its writer before it can be refused. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return fail_errno(path, "cannot open");
    struct stat s;
    zn_status status = ZN_OK;
    if (fstat(opened, &s) != 0)
        status = fail_errno(path, "cannot read its size");
    else if (!S_ISREG(s.st_mode))
        status = zn_fail(ZN_ERR_INPUT, "%s: not a regular file", path);
    if (status != ZN_OK) {
        close(opened);
        return status;
    }
    *fd = opened;
    *n_bytes = (uint64_t)s.st_size;
    return ZN_OK;
}

/* Whether a file that is there may be written. A pipe is not opened: it would wait for its reader. */
static bool is_writable(const char *path, mode_t mode)
{
    if (S_ISDIR(mode)) {
        errno = EISDIR;
        return false;
    }
    if (!S_ISREG(mode))
        return access(path, W_OK) == 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Whether a file can be made there. EEXIST: a link to a file that is not there yet. */
static bool is_creatable(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return errno == EEXIST;
    close(fd);
    unlink(path);
    return true;
}

zn_status zn_file_check_writable(const char *flag, const char *path)
{
    struct stat s;
    if (stat(path, &s) == 0 ? is_writable(path, s.st_mode) : is_creatable(path))
        return ZN_OK;
    return zn_fail(ZN_ERR_USAGE, "%s %s: cannot be written: %s", flag, path, strerror(errno));
}

zn_status zn_pread_all(int fd, const char *path, void *data, size_t n_bytes, uint64_t offset)
{
    char *to = data;
    while (n_bytes > 0) {
        ssize_t got = pread(fd, to, n_bytes, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno(path, "cannot read");
        if (got == 0)
            return zn_fail(ZN_ERR_IO, "%s: ends at byte %llu, %zu bytes short", path,
                           (unsigned long long)offset, n_bytes);
        to += got;
        offset += (uint64_t)got;
        n_bytes -= (size_t)got;
    }
    return ZN_OK;
}

zn_status zn_folder_create(const char *path)
{
    char *part = strdup(path);
    if (!part)
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    zn_status status = ZN_OK;
    size_t n = strlen(part);
    for (size_t i = 1; i <= n && status == ZN_OK; i++) {
        if (part[i] != '/' && part[i] != '\0')
            continue;
        char kept = part[i];
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && !(errno == EEXIST && zn_folder_exists(part)))
            status = fail_errno(part, "cannot make the folder");
        part[i] = kept;
    }
    free(part);
    return status;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

void zn_names_free(char **names, size_t n_names)
{
    for (size_t i = 0; i < n_names; i++)
        free(names[i]);
    free(names);
}

zn_status zn_folder_list(const char *path, char ***names, size_t *n_names)
{
    DIR *folder = opendir(path);
    if (!folder)
        return fail_errno(path, "cannot open the folder");
    zn_status status = ZN_OK;
    char **list = NULL;
    size_t n = 0, capacity = 0;
    struct dirent *entry;
    while (errno = 0, (entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        if (n == capacity) {
            char **larger = realloc(list, (capacity = 2 * capacity + 16) * sizeof *list);
            if (!larger)
                goto no_memory;
            list = larger;
        }
        if (!(list[n] = strdup(entry->d_name)))
            goto no_memory;
        n++;
    }
    if (errno != 0) {
        status = fail_errno(path, "cannot read the folder");
        goto undo_list;
    }
    closedir(folder);
    if (n > 0)
        qsort(list, n, sizeof *list, compare_names);
    *names = list;
    *n_names = n;
    return ZN_OK;

no_memory:
    status = zn_fail(ZN_ERR_MEMORY, "%s: out of memory for its list of files", path);
undo_list:
    zn_names_free(list, n);
    closedir(folder);
    return status;
}
