/* Checkpoints of runs: which there are, whether they are whole, and their weights as a hub folder. */
#ifndef ZINC_CHECKPOINT_H
#define ZINC_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_checkpoint zn_checkpoint;

/* Tells the paths of the checkpoints that a folder stands for, the oldest first, whole or not: itself where it is one, else those of a
 * run's output folder, or of its folder of checkpoints. Not collective; blocks. */
ZN_API zn_status zn_checkpoint_list(const char *folder, void (*tell)(void *self, const char *path), void *self);

/* Opens a checkpoint: its list of contents, the sizes of all files and state.json are held to each other. Not collective; blocks. The
 * caller closes. */
ZN_API zn_status zn_checkpoint_open(const char *folder, zn_checkpoint **checkpoint);

/* Forgets a checkpoint. Not collective; NULL is legal. */
ZN_API void zn_checkpoint_close(zn_checkpoint *checkpoint);

struct zn_checkpoint_info {
    size_t size;      /* sizeof(struct zn_checkpoint_info), set by the caller */
    int64_t step;     /* steps done */
    int64_t updates;  /* of the optimizer */
    uint64_t n_bytes; /* of all files */
    const char *optimizer, *precision; /* live as long as the checkpoint, as do these: */
    const char *folder, *type;         /* the type of its weights: "fp32", "bf16" or "fp16" */
};

/* Tells what a checkpoint is of. Not collective. */
ZN_API zn_status zn_checkpoint_info(const zn_checkpoint *checkpoint, struct zn_checkpoint_info *info);

/* What a checkpoint holds by its list of contents: its files, and the state of the run; as `zinc checkpoint inspect` prints it, as text or as one
 * JSON value. The caller frees it with zn_free. Not collective; blocks. */
ZN_API zn_status zn_checkpoint_print(const zn_checkpoint *checkpoint, bool as_json, char **text);

struct zn_verified {
    size_t size; /* sizeof(struct zn_verified), set by the caller */
    size_t n_files, n_damages;
    uint64_t n_bytes; /* of all files */
};

/* Reads every byte of a checkpoint's folder, which need not be whole enough to be opened, and holds it to its hash. Each damage is told with
 * its file, its tensor ("" where it is none) and what is wrong. Fails where there is one; `result` has its number then, too. `tell` and `result` may
 * be NULL. Not collective; blocks. */
ZN_API zn_status zn_checkpoint_verify(const char *folder, void (*tell)(void *self, const char *file, const char *tensor, const char *what),
                                      void *self, struct zn_verified *result);

/* Writes the weights as a hub folder, which is made and must not hold one, rounded from the fp32 masters to "fp32", "bf16" or "fp16"; NULL: the type
 * that the checkpoint's own have. Of adapters it is a PEFT folder. Not collective; blocks. */
ZN_API zn_status zn_checkpoint_export(const zn_checkpoint *checkpoint, const char *folder, const char *type);

#ifdef __cplusplus
}
#endif
#endif
