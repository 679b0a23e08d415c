/* The files that paths of training data stand for. */
#ifndef ZN_FORMATS_DATA_FILES_H
#define ZN_FORMATS_DATA_FILES_H

#include <stddef.h>

#include "base/status.h"

typedef enum zn_data_kind { ZN_DATA_BIN, ZN_DATA_TEXT, ZN_DATA_JSONL /* rows, .json as well */ } zn_data_kind;

struct zn_data_file {
    char *path;
    zn_data_kind kind;
};

/* Zero-initialised by the caller, who calls fini, also after a failure. */
struct zn_data_files {
    struct zn_data_file *file;
    size_t n, capacity;
};
void zn_data_files_fini(struct zn_data_files *files);

/* Paths are files and folders; a folder stands for all files under it, sorted by name, hidden ones left
 * out. A file that is not .bin, .txt, .jsonl or .json is an error; of kinds that people have the message names the way to
 * rows. Blocks. */
zn_status zn_data_files_list(const char *const *paths, size_t n_paths, struct zn_data_files *files);

#endif
