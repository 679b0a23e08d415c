/* Files that people have by mistake: pointers of git LFS, web pages, archives, other formats. */
#include "base/signature.h"

#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *begin;
    size_t n_bytes;
    const char *advice;
} signatures[] = {
    {"version https://git-lfs", 23,
     "is a pointer of git LFS, not the file itself: fetch it with `git lfs pull`, or the folder with `hf download`"},
    {"<!doctype html", 14, "is a web page, not the file itself: fetch it with `hf download`, or by the link that says download"},
    {"<html", 5, "is a web page, not the file itself: fetch it with `hf download`, or by the link that says download"},
    {"\x1f\x8b", 2, "is compressed: unpack it first (gzip -d; its name must end in .gz for that)"},
    {"\x28\xb5\x2f\xfd", 4, "is compressed: unpack it first (zstd -d)"},
    {"\xfd" "7zXZ", 5, "is compressed: unpack it first (xz -d)"},
    {"BZh", 3, "is compressed: unpack it first (bzip2 -d)"},
    {"PK\x03\x04", 4, "is a zip archive (or weights of PyTorch): unpack it with unzip, or write weights as safetensors"},
    {"PAR1", 4, "is a Parquet file: make rows of it with the datasets library (Dataset.from_parquet(…).to_json(…))"},
    {"GGUF", 4, "is a GGUF file, which zinc writes but does not read: take the hub folder that it was made from"},
};

const char *zn_signature_advice(const void *data, size_t n_bytes)
{
    for (size_t i = 0; i < sizeof signatures / sizeof signatures[0]; i++)
        if (n_bytes >= signatures[i].n_bytes && strncasecmp(data, signatures[i].begin, signatures[i].n_bytes) == 0)
            return signatures[i].advice;
    return NULL;
}

zn_status zn_signature_check(const char *path)
{
    char bytes[ZN_SIGNATURE_BYTES];
    struct stat s;
    if (stat(path, &s) != 0 || !S_ISREG(s.st_mode))
        return ZN_OK;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return ZN_OK;
    ssize_t n = read(file, bytes, sizeof bytes);
    close(file);
    const char *advice = n > 0 ? zn_signature_advice(bytes, (size_t)n) : NULL;
    return advice ? zn_fail(ZN_ERR_INPUT, "%s: %s", path, advice) : ZN_OK;
}
