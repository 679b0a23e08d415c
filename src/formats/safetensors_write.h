/* Writing the tensors of a model to a folder, in pieces and in any order, with memory that does
 * not depend on the model.
 *
 * One file STEM.safetensors, or, past the limit, STEM-00001-of-0000n.safetensors with
 * STEM.safetensors.index.json. Everything is written under temporary names and renamed when it is
 * whole. One thread at a time. */
#ifndef ZN_FORMATS_SAFETENSORS_WRITE_H
#define ZN_FORMATS_SAFETENSORS_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "formats/safetensors.h"
#include "tensor/dtype.h"

#define ZN_ST_SHARD_LIMIT ((uint64_t)5 * 1000 * 1000 * 1000)

struct zn_st_spec {
    const char *name;
    zn_dtype dtype; /* fp32, bf16, fp16 or uint8 */
    int n_dims;
    int64_t dims[ZN_ST_MAX_DIMS];
};

typedef struct zn_st_writer zn_st_writer;

/* Lays out every file and reserves its space in `folder`, which is there. The tensors lie in the
 * order given, a shard ends before the tensor that would take it past `shard_limit` bytes of data
 * (0: ZN_ST_SHARD_LIMIT); a larger tensor has a shard of its own. Within a file wide types come before
 * narrow ones, as readers want each tensor aligned to its type. The specs are copied. */
zn_status zn_st_writer_create(const char *folder, const char *stem, const struct zn_st_spec *specs,
                              size_t n_specs, uint64_t shard_limit, zn_st_writer **writer);

/* How tensors are cut into files that several writers share, each file having one. */
struct zn_st_cut {
    uint64_t limit; /* bytes of data in a file; 0: ZN_ST_SHARD_LIMIT */
    bool numbered;  /* names have their number even where there is one file, and there is no index */
    int part, n_parts; /* this writer makes the files i with i mod n_parts = part; part 0 makes the index */
};

/* The same for one of several writers: what is written to a file of another part is ignored. Every part is given the same
 * specs, so all agree on the layout. */
zn_status zn_st_writer_create_part(const char *folder, const char *stem, const struct zn_st_spec *specs,
                                   size_t n_specs, const struct zn_st_cut *cut, zn_st_writer **writer);

/* Files of all parts; the name of one, NULL where another part makes it. Names are the writer's. */
size_t zn_st_writer_n_files(const zn_st_writer *writer);
const char *zn_st_writer_file(const zn_st_writer *writer, size_t i);

/* Elements first … first+n of the tensor of specs[i], rounded to its type (to nearest even; to uint8 they are whole numbers). Any
 * order; what is written again replaces what was there. */
zn_status zn_st_writer_write_f32(zn_st_writer *writer, size_t i, int64_t first, int64_t n_elements,
                                 const float *values);

/* Checks that every element was written, syncs, and renames; the index comes last. An entry file
 * of the other layout, which readers might take instead, is removed. */
zn_status zn_st_writer_finish(zn_st_writer *writer);

/* Removes what was not finished. NULL is legal. */
void zn_st_writer_destroy(zn_st_writer *writer);

#endif
