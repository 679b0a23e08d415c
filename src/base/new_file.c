/* Writing so that a reader sees a whole file or none. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

struct zn_new_file {
    int fd;
    bool published;
    char *path, *temporary; /* no temporary: it has no name */
};

static zn_status fail_errno(const char *path, const char *what)
{
    return zn_fail(ZN_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

/* Locks the new file, so that zn_folder_remove_left knows that somebody writes it; without locks it stays for ever. False where
 * it was removed before it was locked. */
static bool lock_new(int fd)
{
    struct stat s;
    while (flock(fd, LOCK_EX) != 0 && errno == EINTR)
        ;
    return fstat(fd, &s) != 0 || s.st_nlink > 0;
}

/* A name of its own beside the final one: hidden, so that nothing lists a file half written. */
static zn_status open_temporary(zn_new_file *file)
{
    const char *slash = strrchr(file->path, '/');
    const char *name = slash ? slash + 1 : file->path;
    for (int attempt = 0; attempt < 1000; attempt++) {
        if (asprintf(&file->temporary, "%.*s.%s.%ld-%d.tmp", (int)(name - file->path), file->path, name,
                     (long)getpid(), attempt) < 0) {
            file->temporary = NULL;
            return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", file->path);
        }
        file->fd = open(file->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file->fd >= 0 && lock_new(file->fd))
            return ZN_OK;
        int cause = file->fd >= 0 ? EEXIST : errno;
        if (file->fd >= 0)
            close(file->fd);
        file->fd = -1;
        free(file->temporary);
        file->temporary = NULL;
        errno = cause;
        if (cause != EEXIST)
            break;
    }
    return fail_errno(file->path, "cannot create");
}

zn_status zn_new_file_create(const char *path, zn_new_file **file)
{
    zn_new_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        free(f);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", path);
    }
    f->fd = -1;
    zn_status status = open_temporary(f);
    if (status != ZN_OK) {
        zn_new_file_destroy(f);
        return status;
    }
    *file = f;
    return ZN_OK;
}

/* Some file systems cannot make a file without a name; there it has one for a moment. */
static int open_nameless(const char *folder)
{
    int fd = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    char *name;
    if (asprintf(&name, "%s/zinc-XXXXXX", folder) < 0) {
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0)
        unlink(name);
    free(name);
    return fd;
}

zn_status zn_new_file_create_nameless(zn_new_file **file)
{
    const char *folder = getenv("TMPDIR");
    if (!folder || !folder[0])
        folder = "/tmp";
    zn_new_file *f = calloc(1, sizeof *f);
    if (!f || asprintf(&f->path, "%s/(temporary)", folder) < 0) {
        free(f);
        return zn_fail(ZN_ERR_MEMORY, "%s: out of memory", folder);
    }
    f->fd = open_nameless(folder);
    if (f->fd < 0) {
        zn_status status = fail_errno(folder, "cannot make a temporary file");
        zn_new_file_destroy(f);
        return status;
    }
    *file = f;
    return ZN_OK;
}

zn_status zn_new_file_reader(const zn_new_file *file, int *fd)
{
    int copy = fcntl(file->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return fail_errno(file->path, "cannot open it for reading");
    *fd = copy;
    return ZN_OK;
}

zn_status zn_new_file_reserve(zn_new_file *file, uint64_t n_bytes)
{
    if (n_bytes == 0)
        return ZN_OK;
    int result;
    do
        result = fallocate(file->fd, 0, 0, (off_t)n_bytes);
    while (result != 0 && errno == EINTR);
    if (result != 0 && (errno == EOPNOTSUPP || errno == ENOSYS))
        result = ftruncate(file->fd, (off_t)n_bytes);
    if (result != 0)
        return zn_fail(ZN_ERR_IO, "%s: no room for its %llu bytes: %s", file->path,
                       (unsigned long long)n_bytes, strerror(errno));
    return ZN_OK;
}

zn_status zn_pwrite_all(int fd, const char *path, const void *data, size_t n_bytes, uint64_t offset)
{
    const char *from = data;
    while (n_bytes > 0) {
        ssize_t put = pwrite(fd, from, n_bytes, (off_t)offset);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return fail_errno(path, "cannot write");
        from += put;
        offset += (uint64_t)put;
        n_bytes -= (size_t)put;
    }
    return ZN_OK;
}

zn_status zn_new_file_write(zn_new_file *file, const void *data, size_t n_bytes, uint64_t offset)
{
    return zn_pwrite_all(file->fd, file->path, data, n_bytes, offset);
}

zn_status zn_new_file_sync(zn_new_file *file)
{
    if (file->temporary && fsync(file->fd) != 0)
        return fail_errno(file->path, "cannot sync");
    return ZN_OK;
}

zn_status zn_new_file_publish(zn_new_file *file)
{
    /* Some file systems tell a failed write only at close. */
    int fd = file->fd;
    file->fd = -1;
    if (fd >= 0 && close(fd) != 0 && errno != EINTR)
        return fail_errno(file->path, "cannot close");
    if (file->temporary && rename(file->temporary, file->path) != 0)
        return fail_errno(file->path, "cannot rename the finished file to this name");
    file->published = true;
    return ZN_OK;
}

void zn_new_file_destroy(zn_new_file *file)
{
    if (!file)
        return;
    if (file->fd >= 0)
        close(file->fd);
    if (file->temporary && !file->published)
        unlink(file->temporary);
    free(file->temporary);
    free(file->path);
    free(file);
}

/* As open_temporary names them. */
static bool is_temporary(const char *name)
{
    size_t n = strlen(name);
    return name[0] == '.' && n > 4 && strcmp(name + n - 4, ".tmp") == 0;
}

static zn_status remove_if_left(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return ZN_OK; /* it is gone, or not ours */
    bool is_left = flock(fd, LOCK_EX | LOCK_NB) == 0;
    zn_status status = is_left && unlink(path) != 0 && errno != ENOENT ? fail_errno(path, "cannot remove it") : ZN_OK;
    close(fd);
    return status;
}

zn_status zn_folder_remove_left(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    zn_status status = ZN_OK;
    if (!list)
        return errno == ENOENT ? ZN_OK : fail_errno(folder, "cannot open the folder");
    while (status == ZN_OK && (entry = readdir(list))) {
        char *path;
        if (!is_temporary(entry->d_name))
            continue;
        status = zn_path_join(folder, entry->d_name, &path);
        if (status != ZN_OK)
            break;
        status = remove_if_left(path);
        free(path);
    }
    closedir(list);
    return status;
}

zn_status zn_folder_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(path, "cannot open the folder");
    /* EINVAL: a file system that has nothing to sync for a folder. */
    int result = fsync(fd);
    zn_status status = result != 0 && errno != EINVAL ? fail_errno(path, "cannot sync the folder") : ZN_OK;
    close(fd);
    return status;
}

zn_status zn_file_write(const char *path, const void *data, size_t n_bytes)
{
    zn_new_file *file;
    ZN_TRY(zn_new_file_create(path, &file));
    zn_status status = zn_new_file_write(file, data, n_bytes, 0);
    if (status == ZN_OK)
        status = zn_new_file_sync(file);
    if (status == ZN_OK)
        status = zn_new_file_publish(file);
    zn_new_file_destroy(file);
    return status;
}
