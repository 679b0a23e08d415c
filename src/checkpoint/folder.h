/* The folder of a run's checkpoints: OUTPUT/checkpoints/step-00000100. What is being written or removed has a name
 * that begins with .tmp-, so a name without it is a checkpoint that was whole. */
#ifndef ZN_CHECKPOINT_FOLDER_H
#define ZN_CHECKPOINT_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define ZN_CHECKPOINTS "checkpoints"
#define ZN_BEST "best" /* OUTPUT/best/step-00000040: the best weights of --early-stop so far */
#define ZN_TEMPORARY ".tmp-"
enum { ZN_CHECKPOINT_NAME = 32 };

/* "step-00000100" */
const char *zn_checkpoint_name(int64_t step, char name[ZN_CHECKPOINT_NAME]);

/* The steps of the checkpoints in the folder, the newest first, whole or not. A folder that is not there has
 * none. The caller frees. */
zn_status zn_checkpoints_list(const char *folder, int64_t **steps, size_t *n_steps);

/* Removes the checkpoint of a step: first its name, then its files. */
zn_status zn_checkpoint_remove(const char *folder, int64_t step);

/* Removes all but the newest `keep` of those that are whole by their sizes; what is broken is left alone. A checkpoint made
 * when its last steps were skipped does not count: it may be of a run that has come off its way. Only the newest of all may be
 * such a one, beside the `keep` others. */
zn_status zn_checkpoints_prune(const char *folder, int64_t keep);

/* Removes what runs that died have left among the checkpoints, the best weights and in the output folder itself: half of a folder or a
 * file. The caller holds the lock. */
zn_status zn_checkpoints_clean(const char *output);

/* Puts a finished temporary folder at the step's name, in place of what is there, and syncs. Another folder of that
 * name is removed afterwards. */
zn_status zn_checkpoint_put(const char *folder, const char *temporary, int64_t step);

/* A folder with all that is in it. What is not there is fine. */
zn_status zn_tree_remove(const char *path);

/* Takes the lock OUTPUT/.lock, which is free again when fd is closed or the process ends. A folder that another
 * run holds is refused, naming that run. *is_locked is false where the file system knows no locks. */
zn_status zn_output_lock(const char *output, int *fd, bool *is_locked);

#endif
