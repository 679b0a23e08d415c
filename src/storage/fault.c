/* The environment's word on faults. */
#include "storage/fault.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int error;
} errors[] = {
    {"EIO", EIO},     {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EINVAL", EINVAL}, {"ENOMEM", ENOMEM},
    {"EBADF", EBADF}, {"ENXIO", ENXIO},   {"EROFS", EROFS},   {"EAGAIN", EAGAIN}, {"EINTR", EINTR},
};

zn_status fault_from_environment(struct zn_storage_fault *fault, bool *found)
{
    const char *text = getenv("ZINC_STORAGE_FAULT");
    struct zn_storage_fault read = {0};
    char *end;
    *found = false;
    if (!text || !text[0])
        return ZN_OK;
    errno = 0;
    read.at_request = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)text[0]) || errno || *end != ':')
        return zn_fail(ZN_ERR_USAGE, "ZINC_STORAGE_FAULT: '%s' is not REQUEST:ERRNO_NAME", text);
    read.short_transfer = strcmp(end + 1, "SHORT") == 0;
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(end + 1, errors[i].name) == 0)
            read.error = errors[i].error;
    if (!read.error && !read.short_transfer)
        return zn_fail(ZN_ERR_USAGE, "ZINC_STORAGE_FAULT: '%s' is not the name of an error", end + 1);
    *fault = read;
    *found = true;
    return ZN_OK;
}
