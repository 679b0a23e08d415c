/* Small text files of /proc and /sys, below a root that tests choose. */
#ifndef ZN_BASE_MACHINE_FILES_H
#define ZN_BASE_MACHINE_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Reads what fits, always ended by a zero byte; false when the file cannot be read. */
bool machine_file_read(const char *root, const char *path, char *text, size_t size);

#endif
