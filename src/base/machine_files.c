/* Small text files of /proc and /sys. */
#include "base/machine_files.h"

#include <stdio.h>

bool machine_file_read(const char *root, const char *path, char *text, size_t size)
{
    char whole[4096];
    int n = snprintf(whole, sizeof whole, "%s%s", root, path);
    if (n < 0 || (size_t)n >= sizeof whole)
        return false;
    FILE *file = fopen(whole, "re");
    if (!file)
        return false;
    size_t length = fread(text, 1, size - 1, file);
    bool ok = !ferror(file);
    text[length] = '\0';
    fclose(file);
    return ok;
}
