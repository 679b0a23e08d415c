/* What a checkpoint's folder holds: manifest.json, with the size of every file, an XXH3 (64 bits) of
 * every block of 16 MiB, and for safetensors files one of the header and of each tensor, so that damage can be
 * told by name. The text ends in a hash of itself. */
#ifndef ZN_CHECKPOINT_CONTENTS_H
#define ZN_CHECKPOINT_CONTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define ZN_CONTENTS_NAME "manifest.json"
enum { ZN_CONTENTS_FORMAT = 1 };
#define ZN_BLOCK_BYTES ((uint64_t)16 * 1024 * 1024)
#define ZN_HEADER_SEGMENT "__header__"

/* A part of a safetensors file: the header, or a tensor. They follow each other and cover the file. */
struct zn_segment {
    char *name;
    uint64_t n_bytes, hash;
};

struct zn_listed_file {
    char *name;
    uint64_t n_bytes;
    uint64_t *blocks; /* hashes */
    size_t n_blocks;
    struct zn_segment *segments; /* none for other files */
    size_t n_segments;
};

typedef struct zn_contents {
    struct zn_listed_file *files; /* sorted by name once read or written */
    size_t n_files, capacity;
} zn_contents;

/* The caller owns the storage and calls fini. */
void zn_contents_init(zn_contents *contents);
void zn_contents_fini(zn_contents *contents);

/* Reads the file of the folder to its end and adds it. Memory does not grow with it. Blocks. */
zn_status zn_contents_add(zn_contents *contents, const char *folder, const char *name);

/* Moves all files of `from`, which is empty afterwards. */
zn_status zn_contents_move(zn_contents *contents, zn_contents *from);

/* Writes the list as `name` of the folder, whole or not at all. Blocks. */
zn_status zn_contents_write(zn_contents *contents, const char *folder, const char *name);

/* Reads a list; everything in it is checked. `path` stands for it in messages. */
zn_status zn_contents_read(const char *path, zn_contents *contents);
zn_status zn_contents_parse(const char *text, size_t n_bytes, const char *path, zn_contents *contents);

const struct zn_listed_file *zn_contents_find(const zn_contents *contents, const char *name); /* NULL: none */
uint64_t zn_contents_n_bytes(const zn_contents *contents);

/* ---- Holding a folder to its list (checkpoint/verify.c) ---- */

/* Every file is there with its size; nothing else is read. */
zn_status zn_contents_check_sizes(const zn_contents *contents, const char *folder);

/* Blocks are counted over all files, in their order. Checks the blocks first … first+n, so that ranks can
 * share the work; a failure names the file and what in it is damaged. Blocks. */
uint64_t zn_contents_n_blocks(const zn_contents *contents);
zn_status zn_contents_check_blocks(const zn_contents *contents, const char *folder, uint64_t first, uint64_t n);

/* All of one file. */
zn_status zn_contents_check_file(const zn_contents *contents, const char *folder, const char *name);

/* Goes through everything and tells each damage: the file, the tensor ("" where it is none) and what is wrong. */
typedef void (*zn_tell_damage)(void *self, const char *file, const char *tensor, const char *what);
zn_status zn_contents_verify(const zn_contents *contents, const char *folder, zn_tell_damage tell, void *self);

/* Hashes blocks and segments of an open file; sizes and numbers are set, the hashes are filled in. */
zn_status contents_hash(int fd, const char *path, struct zn_listed_file *file);
void contents_file_fini(struct zn_listed_file *file);

#endif
