/* Data files of any bytes, as a token file and as text: refused, or windows can be read and hold
 * ids of the vocabulary. The first byte of the input says how the files are read; in the token file the
 * zeros between the three words that count and the ids are put in, so that inputs stay small. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "formats/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The kind of a data file is in its name, so two links with names lead to files in memory. */
struct memory_file {
    char path[64];
    int fd;
};
static char folder[] = "/tmp/zinc-fuzz-XXXXXX";
static struct memory_file bin, txt;

static void remove_files(void)
{
    remove(bin.path);
    remove(txt.path);
    rmdir(folder);
}

static void make_file(struct memory_file *file, const char *name)
{
    char target[64];
    file->fd = memfd_create(name, 0);
    snprintf(target, sizeof target, "/proc/self/fd/%d", file->fd);
    snprintf(file->path, sizeof file->path, "%s/%s", folder, name);
    if (file->fd < 0 || symlink(target, file->path) != 0)
        abort();
}

static void make_files(void)
{
    static bool made;
    if (made)
        return;
    made = true;
    if (!mkdtemp(folder))
        abort();
    make_file(&bin, "fuzz.bin");
    make_file(&txt, "fuzz.txt");
    atexit(remove_files);
}

/* The first `head` bytes at the begin, the others from `rest` on. */
static void put(const struct memory_file *file, const uint8_t *data, size_t size, size_t head, size_t rest)
{
    if (size <= head)
        head = rest = size;
    if (ftruncate(file->fd, 0) != 0 || pwrite(file->fd, data, head, 0) != (ssize_t)head ||
        pwrite(file->fd, data + head, size - head, (off_t)rest) != (ssize_t)(size - head))
        abort();
}

static void read_windows(const zn_token_source *source, int64_t length, int64_t vocab_size)
{
    int32_t window[17];
    int64_t n_windows;
    if (zn_tokens_n_windows(source, length, &n_windows) != ZN_OK)
        return;
    for (int64_t i = 0; i < n_windows && i < 100; i++) {
        if (zn_tokens_window(source, i, length, window, NULL) != ZN_OK)
            return;
        for (int64_t k = 0; k <= length; k++)
            if (window[k] < 0 || (vocab_size > 0 && window[k] >= vocab_size))
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    make_files();
    uint8_t how = data[0];
    put(&bin, data + 1, size - 1, 12, 4 * ZN_TOKENS_HEADER);
    put(&txt, data + 1, size - 1, 0, 0);
    static const int64_t sizes[] = {0, 100, 257, 65536};
    struct zn_token_source_options options = {
        .vocab_size = sizes[how % 4], .end_of_text = how & 4 ? 256 : -1, .bytes = how & 8};
    const char *const paths[] = {how & 16 ? bin.path : txt.path, how & 32 ? bin.path : txt.path};
    zn_token_source *source;
    if (zn_tokens_open(paths, 2, &options, &source) == ZN_OK) {
        read_windows(source, 1 + how / 64 * 5, options.vocab_size);
        zn_tokens_close(source);
    }
    return 0;
}
