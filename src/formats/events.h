/* TensorBoard's event files: records with a length and checksums, each a message of its protocol buffers. */
#ifndef ZN_FORMATS_EVENTS_H
#define ZN_FORMATS_EVENTS_H

#include <stdint.h>

#include "base/status.h"

typedef struct zn_events zn_events;

/* Makes a new file in the folder, which is made where it is not there; its name sorts behind those of files that are, as
 * TensorBoard reads them in that order. first_step > 0: what they have from this step on is void, which TensorBoard leaves out;
 * else they are of another run and removed. */
zn_status zn_events_create(const char *folder, int64_t first_step, zn_events **events);
void zn_events_destroy(zn_events *events); /* NULL is legal */

/* A value of the present step, which is left out where it is not finite. The tag is copied. */
void zn_events_add(zn_events *events, const char *tag, double value);

/* Writes the values that were added since, as those of the step; the file has them whole. */
zn_status zn_events_write(zn_events *events, int64_t step);

#endif
