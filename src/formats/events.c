/* Records: u64 length, checksum of it, message, checksum of that; the checksums are CRC-32C, masked. Of the messages there are
 * three: the version of the file, the begin of a session, and a summary of values. */
#include "formats/events.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/files.h"
#include "base/text.h"

static const char PREFIX[] = "events.out.tfevents.";

struct zn_events {
    FILE *file;
    char *path;
    zn_text values; /* of the present step: fields of a Summary */
};

/* ---- Checksums ---- */

static uint32_t crc32c(const void *data, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (const unsigned char *at = data, *end = at + n; at < end; at++) {
        crc ^= *at;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78 : 0);
    }
    return ~crc;
}

static uint32_t masked(const void *data, size_t n)
{
    uint32_t crc = crc32c(data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

/* ---- Messages ---- */

typedef enum wire { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 } wire;

static void add_little(zn_text *t, uint64_t value, int n_bytes)
{
    for (int i = 0; i < n_bytes; i++)
        zn_text_add_bytes(t, &(unsigned char){(unsigned char)(value >> 8 * i)}, 1);
}

static void add_varint(zn_text *t, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        add_little(t, value | 128, 1);
    add_little(t, value, 1);
}

static void add_key(zn_text *t, int field, wire type)
{
    add_varint(t, (uint64_t)field << 3 | type);
}

static void add_block(zn_text *t, int field, const void *bytes, size_t n)
{
    add_key(t, field, BYTES);
    add_varint(t, n);
    zn_text_add_bytes(t, bytes, n);
}

/* Event: wall_time = 1, step = 2; what it is follows. */
static void begin_event(zn_text *t, int64_t step)
{
    struct timespec now;
    double seconds;
    uint64_t bits;
    clock_gettime(CLOCK_REALTIME, &now);
    seconds = (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
    memcpy(&bits, &seconds, sizeof bits);
    zn_text_init(t);
    add_key(t, 1, FIXED64);
    add_little(t, bits, 8);
    add_key(t, 2, VARINT);
    add_varint(t, (uint64_t)step);
}

static zn_status fail_write(const zn_events *e)
{
    return zn_fail(ZN_ERR_IO, "%s: cannot write the events for TensorBoard: %s", e->path, strerror(errno));
}

/* Ends the event as a record of the file. */
static zn_status write_event(zn_events *e, zn_text *event)
{
    zn_text record;
    zn_text_init(&record);
    add_little(&record, event->n_bytes, 8);
    add_little(&record, record.data ? masked(record.data, 8) : 0, 4);
    zn_text_add_bytes(&record, event->data, event->n_bytes);
    add_little(&record, event->data ? masked(event->data, event->n_bytes) : 0, 4);
    zn_status status = zn_text_status(event);
    if (status == ZN_OK)
        status = zn_text_status(&record);
    if (status == ZN_OK && (fwrite(record.data, 1, record.n_bytes, e->file) != record.n_bytes || fflush(e->file) != 0))
        status = fail_write(e);
    zn_text_fini(&record);
    zn_text_fini(event);
    return status;
}

/* Event: file_version = 3. */
static zn_status write_version(zn_events *e)
{
    zn_text event;
    begin_event(&event, 0);
    add_block(&event, 3, "brain.Event:2", 13);
    return write_event(e, &event);
}

/* Event: session_log = 7; SessionLog: status = 1, START = 1. */
static zn_status write_start(zn_events *e, int64_t step)
{
    zn_text event;
    begin_event(&event, step);
    add_block(&event, 7, "\010\001", 2);
    return write_event(e, &event);
}

/* Summary: value = 1; Value: tag = 1, simple_value = 2. */
void zn_events_add(zn_events *e, const char *tag, double value)
{
    zn_text one;
    float narrow = (float)value;
    uint32_t bits;
    if (!isfinite(narrow))
        return;
    memcpy(&bits, &narrow, sizeof bits);
    zn_text_init(&one);
    add_block(&one, 1, tag, strlen(tag));
    add_key(&one, 2, FIXED32);
    add_little(&one, bits, 4);
    if (zn_text_status(&one) == ZN_OK)
        add_block(&e->values, 1, one.data, one.n_bytes);
    else
        e->values.failed = true;
    zn_text_fini(&one);
}

zn_status zn_events_write(zn_events *e, int64_t step)
{
    zn_text event;
    if (e->values.n_bytes == 0)
        return ZN_OK;
    begin_event(&event, step);
    add_block(&event, 5, e->values.data, e->values.n_bytes);
    event.failed |= e->values.failed;
    zn_text_fini(&e->values);
    zn_text_init(&e->values);
    return write_event(e, &event);
}

/* ---- The file ---- */

/* Of the files that are there: removes them, or finds the second that the last is named by. */
static zn_status look_through(const char *folder, bool removes, long long *last)
{
    char **names;
    size_t n;
    zn_status status = ZN_OK;
    ZN_TRY(zn_folder_list(folder, &names, &n));
    for (size_t i = 0; i < n && status == ZN_OK; i++) {
        char *path;
        long long seconds = 0;
        if (strncmp(names[i], PREFIX, sizeof PREFIX - 1) != 0)
            continue;
        if (sscanf(names[i] + sizeof PREFIX - 1, "%lld", &seconds) == 1 && seconds > *last)
            *last = seconds;
        if (removes && (status = zn_path_join(folder, names[i], &path)) == ZN_OK) {
            if (unlink(path) != 0 && errno != ENOENT)
                status = zn_fail(ZN_ERR_IO, "%s: cannot remove the events of the run before: %s", path, strerror(errno));
            free(path);
        }
    }
    zn_names_free(names, n);
    return status;
}

static zn_status open_file(zn_events *e, const char *folder, long long last)
{
    char host[64] = "", name[160];
    long long now = (long long)time(NULL);
    gethostname(host, sizeof host - 1);
    snprintf(name, sizeof name, "%s%010lld.%s.zinc", PREFIX, now > last ? now : last + 1, host[0] ? host : "host");
    ZN_TRY(zn_path_join(folder, name, &e->path));
    e->file = fopen(e->path, "we");
    return e->file ? ZN_OK : fail_write(e);
}

zn_status zn_events_create(const char *folder, int64_t first_step, zn_events **events)
{
    long long last = 0;
    ZN_TRY(zn_folder_create(folder));
    ZN_TRY(look_through(folder, first_step <= 0, &last));
    zn_events *e = calloc(1, sizeof *e);
    if (!e)
        return zn_fail(ZN_ERR_MEMORY, "no memory for the events of TensorBoard");
    zn_text_init(&e->values);
    zn_status status = open_file(e, folder, last);
    if (status == ZN_OK)
        status = write_version(e);
    if (status == ZN_OK && first_step > 0)
        status = write_start(e, first_step);
    if (status != ZN_OK) {
        zn_events_destroy(e);
        return status;
    }
    *events = e;
    return ZN_OK;
}

void zn_events_destroy(zn_events *e)
{
    if (!e)
        return;
    if (e->file)
        fclose(e->file);
    zn_text_fini(&e->values);
    free(e->path);
    free(e);
}
