/* DeepSpeed's configuration (ds_config.json) as settings: each key is one exactly, has no effect here and is told, or is refused.
 *
 * The keys are rows of deepspeed_keys.c, and of zinc/settings.def where a setting has the same value (.deepspeed). A walk over the
 * file holds every key to them (deepspeed.c); what several keys decide together is read by blocks (deepspeed_blocks.c,
 * deepspeed_optimizer.c). "auto" leaves a setting to its flag and its default, as DeepSpeed's users know it from their trainers. */
#ifndef ZN_SETTINGS_DEEPSPEED_H
#define ZN_SETTINGS_DEEPSPEED_H

#include "base/json.h"
#include "base/options.h"
#include "settings/config.h"

enum { DEEPSPEED_PATH = 192 };

typedef enum deepspeed_use {
    DEEPSPEED_SETTING, /* the value of a row of zinc/settings.def */
    DEEPSPEED_BLOCK,   /* an object of further keys */
    DEEPSPEED_READ,    /* by the code of its block */
    DEEPSPEED_NO_EFFECT,
    DEEPSPEED_REFUSED, /* unless it has the value that changes nothing */
} deepspeed_use;

struct deepspeed_key {
    const char *path; /* "zero_optimization.stage" */
    deepspeed_use use;
    const char *why;     /* it has no effect, or is refused */
    const char *neutral; /* of one that is refused: the value as JSON that changes nothing; NULL: false, or "enabled": false */
    const char *flag;    /* of a setting */
};

/* The key of this path; false: there is none. */
bool deepspeed_find(const char *path, struct deepspeed_key *key);

/* The known key next to one that is not, in the same object; NULL: none is near. Lives as long as the program. */
const char *deepspeed_nearest(const char *path);

/* A file that is read. */
struct deepspeed {
    const char *file;
    const char *data;
    size_t n_bytes;
    zn_json *root;
    const struct zn_options *line; /* what the command line gave */
    const void *target;
    struct config *config;
};

/* ---- For the blocks; `path` names the key in messages ---- */

/* A failure, and a note, with the place of the key. */
zn_status deepspeed_fail(const struct deepspeed *d, const char *path, const char *format, ...) ZN_PRINTF(3, 4);
zn_status deepspeed_note(const struct deepspeed *d, const char *path, const char *format, ...) ZN_PRINTF(3, 4);

/* Gives a setting (the flag without its dashes) a value. */
zn_status deepspeed_give_text(const struct deepspeed *d, const char *path, const char *flag, const char *text);
zn_status deepspeed_give_number(const struct deepspeed *d, const char *path, const char *flag, double value);

/* The same of the value that the key has; "auto" is a note. Nothing where the object is NULL or lacks it. */
zn_status deepspeed_give(const struct deepspeed *d, zn_json *object, const char *member, const char *path, const char *flag);

/* A note of what "auto" comes to: the flag's value, or its default. */
zn_status deepspeed_note_auto(const struct deepspeed *d, const char *path, const char *flag);

bool deepspeed_is_auto(zn_json *object, const char *member);

/* true, false or "auto", which leaves *is_auto; false where it is not there. */
zn_status deepspeed_get_switch(const struct deepspeed *d, zn_json *object, const char *member, const char *path, bool *is_on,
                               bool *is_auto);

/* Whether the command line gave the flag, so that the file has no say. */
bool deepspeed_line_has(const struct deepspeed *d, const char *flag);

/* Before the walk: types of optimizers and schedulers that are refused, whose parameters the table does not have. */
zn_status deepspeed_check_types(const struct deepspeed *d);

zn_status deepspeed_read_precision(const struct deepspeed *d);
zn_status deepspeed_read_memory(const struct deepspeed *d);
zn_status deepspeed_read_optimizer(const struct deepspeed *d);
zn_status deepspeed_read_scheduler(const struct deepspeed *d);

/* The learning rate that the run begins with, of the command line or of optimizer.params.lr. false: neither says. */
zn_status deepspeed_get_lr(const struct deepspeed *d, bool *has_lr, double *lr);

#endif
