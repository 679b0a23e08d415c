/* The drives of this machine, as `zinc doctor` tells of them: those that states could be offloaded to. */
#ifndef ZN_CLI_DOCTOR_DRIVES_H
#define ZN_CLI_DOCTOR_DRIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"
#include "zinc/words.h"

enum { DOCTOR_MAX_DRIVES = 16 };

struct doctor_drive {
    char path[1024];
    char device[128]; /* "/dev/nvme0n1p1", "server:/export"; "" where the system does not tell */
    char type[32];    /* of the file system */
    size_t free_bytes;
    bool is_direct;               /* O_DIRECT writes work */
    double read_rate, write_rate; /* bytes a second; 0: not measured */
    char reason[256];             /* why it could not be measured; "" otherwise */
};

struct doctor_drives {
    struct doctor_drive drive[DOCTOR_MAX_DRIVES];
    size_t n;
};

/* Those of the folders given or, where none is, of the current folder and of all drives mounted that this user may write to. A folder
 * that was given and cannot be looked at is a failure. Blocks. */
zn_status doctor_drives_read(const struct zn_words *folders, bool measures, struct doctor_drives *drives);

/* Lines of the text, and the value of "drives" in JSON. */
void doctor_drives_print(const struct doctor_drives *drives);
void doctor_drives_put(const struct doctor_drives *drives);

#endif
