/* Files and folders with errors that name the path and the cause. All functions block. */
#ifndef ZN_BASE_FILES_H
#define ZN_BASE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

bool zn_file_exists(const char *path);   /* anything but a folder */
bool zn_folder_exists(const char *path);

/* Whether there is something of this name, file or folder. What cannot be looked at is a failure, not an absence. */
zn_status zn_folder_holds(const char *folder, const char *name, bool *found);
zn_status zn_path_look(const char *path, bool *found);

/* folder/name; the caller frees it. */
zn_status zn_path_join(const char *folder, const char *name, char **path);

/* The whole file with a NUL after it (not counted); longer than max_bytes is an error. The
 * caller frees it. */
zn_status zn_file_read(const char *path, size_t max_bytes, char **data, size_t *n_bytes);

/* Opens a regular file for reading; the caller closes fd. */
zn_status zn_file_open(const char *path, int *fd, uint64_t *n_bytes);

/* Fails where the file could not be written or made now; nothing of it is changed. `flag` names it in the message. */
zn_status zn_file_check_writable(const char *flag, const char *path);

/* Exactly n bytes at the offset; a file that ends before is an error. `path` is for messages. */
zn_status zn_pread_all(int fd, const char *path, void *data, size_t n_bytes, uint64_t offset);
zn_status zn_pwrite_all(int fd, const char *path, const void *data, size_t n_bytes, uint64_t offset);

/* Makes the folder and those above it; one that is there is fine. */
zn_status zn_folder_create(const char *path);

/* Names in the folder, sorted by their bytes, without those that begin with a dot. The caller
 * frees them with zn_names_free. */
zn_status zn_folder_list(const char *path, char ***names, size_t *n_names);
void zn_names_free(char **names, size_t n_names);

/* A file that appears under its name only when it is whole: written under a temporary name in the
 * same folder, synced, then renamed. The temporary file is locked (flock) while it is written. */
typedef struct zn_new_file zn_new_file;

zn_status zn_new_file_create(const char *path, zn_new_file **file);

/* A file without a name in $TMPDIR (or /tmp) that is gone when it is closed: to publish it does nothing. */
zn_status zn_new_file_create_nameless(zn_new_file **file);

/* A descriptor to read it with, which also lives when the file is destroyed; the caller closes it. */
zn_status zn_new_file_reader(const zn_new_file *file, int *fd);

/* Gives the file its full size at once, so that a full disk is found before the work. */
zn_status zn_new_file_reserve(zn_new_file *file, uint64_t n_bytes);
zn_status zn_new_file_write(zn_new_file *file, const void *data, size_t n_bytes, uint64_t offset);
zn_status zn_new_file_sync(zn_new_file *file);

/* Renames it to its name, replacing what was there; sync comes before. The name itself is safe
 * after zn_folder_sync of its folder. */
zn_status zn_new_file_publish(zn_new_file *file);

/* Removes the temporary file if it was not published. NULL is legal. */
void zn_new_file_destroy(zn_new_file *file);

/* Removes the temporary files in the folder that no process writes any more: a process that was killed left them. Those on
 * file systems without locks stay. A folder that is not there is fine. */
zn_status zn_folder_remove_left(const char *folder);

/* A whole small file by the way above. */
zn_status zn_file_write(const char *path, const void *data, size_t n_bytes);

/* Makes renames in the folder durable. */
zn_status zn_folder_sync(const char *path);

#endif
