/* The table of settings, and what loops over it does: one row of zinc/settings.def is enough for a setting to be read from the
 * command line and from files, checked, written to run.json, compared between ranks and with a checkpoint, and helped with. */
#ifndef ZN_SETTINGS_SETTINGS_H
#define ZN_SETTINGS_SETTINGS_H

#include "base/options.h"
#include "zinc/settings.h"

/* Commands that take settings. */
enum { ZN_FOR_TRAIN = 1, ZN_FOR_EVAL = 2, ZN_FOR_GENERATE = 4 };

/* Headings of help, in their order. */
#define ZN_SECTION_MODEL "Model"
#define ZN_SECTION_TEXT "Text"
#define ZN_SECTION_DATA "Data"
#define ZN_SECTION_BATCH "Steps and batch"
#define ZN_SECTION_OPTIMIZER "Optimizer"
#define ZN_SECTION_PRECISION "Precision"
#define ZN_SECTION_MEMORY "Memory and tiers"
#define ZN_SECTION_MACHINE "Machine"
#define ZN_SECTION_CHECKPOINTS "Checkpoints"
#define ZN_SECTION_OUTPUT "Output"

/* Whether ranks may have different values. */
typedef enum zn_ranks_class { ZN_RANKS_ANY, ZN_RANKS_SAME } zn_ranks_class;

/* What a run that goes on from a checkpoint may have changed. */
typedef enum zn_resume_class {
    ZN_RESUME_ANY,  /* it may */
    ZN_RESUME_SAID, /* it may, and both values are told */
    ZN_RESUME_KEPT  /* it is refused */
} zn_resume_class;

struct zn_setting {
    const char *name;  /* the flag */
    const char *field; /* in struct zn_settings */
    zn_option_kind kind;
    size_t offset;
    const char *section;
    unsigned commands;
    zn_ranks_class ranks;
    zn_resume_class resume;
    const char *key; /* in run.json; NULL: the field's name. "a.b": member b of the object a */
    const char *value, *help, *initial, *otherwise, *range, *choices, *not_yet, *bare; /* as in struct zn_option */
    bool negates, required;
    bool is_open;          /* there may be more choices than those listed */
    const char *written;   /* run.json's words for the choices; NULL: they themselves */
    const char *absent;    /* what run.json has where there is no value; NULL: null */
    bool is_unrecorded;    /* not in run.json */
    const char *deepspeed; /* its key in DeepSpeed's configuration; NULL: it has none */
};

/* The rows, in the order of the bytes of struct zn_origins. */
enum { ZN_N_SETTINGS = sizeof(struct zn_origins) };
extern const struct zn_setting zn_settings_table[ZN_N_SETTINGS];

/* The field and the origin of row i. */
void *zn_settings_at(struct zn_settings *settings, size_t i);
const void *zn_settings_value(const struct zn_settings *settings, size_t i);
zn_origin zn_settings_origin(const struct zn_settings *settings, size_t i);

/* Sets a value that the run has decided. One that was given stays known as given. */
#define ZN_CHOOSE(settings, field_, value)                                                                                    \
    ((void)((settings)->field_ = (value)),                                                                                    \
     (settings)->origin.field_ = ZN_GIVEN(settings, field_) ? (settings)->origin.field_ : (unsigned char)ZN_ORIGIN_CHOSEN)

/* Sets the defaults of the command's settings; all others have no value. */
void zn_settings_init(struct zn_settings *settings, unsigned command);

/* Holds the values to their rows, as the command line does. Also fails where one was changed without ZN_SET, and for a value of a
 * setting that the command does not take. */
zn_status zn_settings_check(const struct zn_settings *settings, unsigned command);

/* Sets what is not given of --global-batch, --micro-batch and --accumulate, whose product over the ranks the first is, by DeepSpeed's
 * rules. Fails where all are given and do not agree, or where there is no such whole number. */
zn_status zn_settings_solve_batch(struct zn_settings *settings, int64_t n_ranks);

/* ---- The command line ---- */

/* The option of row i, as the command has it. */
struct zn_option zn_settings_option(size_t i, unsigned command);

/* The options of a command: its settings, whose fields are at `offset` of the target, and its own options, by section. Returns how
 * many there are. */
size_t zn_settings_options(unsigned command, size_t offset, const struct zn_option *own, size_t n_own,
                           struct zn_option options[ZN_MAX_OPTIONS]);

/* After zn_options_parse: sets the origins of the values, which are the target's. */
void zn_settings_take(struct zn_settings *settings, const struct zn_options *given, unsigned command);

#endif
