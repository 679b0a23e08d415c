/* Settings of two runs side by side: of ranks, and of a run and the checkpoint that it goes on from. */
#ifndef ZN_SETTINGS_COMPARE_H
#define ZN_SETTINGS_COMPARE_H

#include "base/json.h"
#include "settings/settings.h"

/* A number that ranks with the same value of row i share. */
zn_status zn_settings_hash(const struct zn_settings *settings, size_t i, uint64_t *hash);

/* Who is told of changes. */
struct zn_change_listener {
    void *self;
    void (*changed)(void *self, const char *text);
};

/* Compares two objects of run.json's keys, one of a checkpoint's folder and one of this run. Of what must be kept, a change is
 * refused by its flag; of what is to be said, each change is told with both values. A key that only one has, as those of another
 * version, is not compared; nor is one of what must be kept that only one run was given. */
zn_status zn_settings_compare(zn_json *saved, zn_json *now, const char *folder, const struct zn_change_listener *listener);

/* Tells a change of one key, "name changed …", also of what is no setting. */
zn_status zn_change_tell(zn_json *saved, zn_json *now, const char *key, const char *name,
                         const struct zn_change_listener *listener);

/* The refusal: "--resume: FOLDER was made with NAME WAS, this run has IS …". */
zn_status zn_change_refuse(const char *folder, const char *name, const char *was, const char *is);

#endif
