/* Model cards: what a new README.md of a hub folder takes from the folder that the model came from. */
#ifndef ZN_FORMATS_CARD_H
#define ZN_FORMATS_CARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* The lines of the card's front matter that state the licence (license, license_name, license_link), each with its newline; "" where
 * the folder has no card, or the card states none. The caller frees them. Blocks. */
zn_status zn_card_license(const char *folder, char **lines);

/* The name on the hub of the model in a folder: that of the hub's cache where it is a snapshot of one, else the folder's own, if a model
 * may be called so. The caller frees it; NULL: it has none. Blocks. */
zn_status zn_card_name(const char *folder, char **name);

#endif
