/* manifest.json and state.json of any bytes: refused, or all that was promised of them holds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "checkpoint/contents.h"
#include "checkpoint/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The text gets the hash of itself, which a fuzzer would never find. */
static void read_contents(const uint8_t *data, size_t size)
{
    char *text;
    zn_contents contents;
    int n = asprintf(&text, "%.*s,\n  \"self\": \"%016llx\"\n}\n", (int)size, (const char *)data,
                     (unsigned long long)XXH3_64bits(data, strnlen((const char *)data, size)));
    if (n < 0)
        abort();
    if (zn_contents_parse(text, (size_t)n, "manifest.json", &contents) == ZN_OK) {
        for (size_t i = 0; i < contents.n_files; i++) {
            const struct zn_listed_file *f = &contents.files[i];
            uint64_t sum = 0;
            for (size_t k = 0; k < f->n_segments; k++)
                sum += f->segments[k].n_bytes;
            if (strchr(f->name, '/') || f->n_blocks != (f->n_bytes + ZN_BLOCK_BYTES - 1) / ZN_BLOCK_BYTES ||
                (f->n_segments > 0 && sum != f->n_bytes) || zn_contents_find(&contents, f->name) != f)
                abort();
        }
        zn_contents_fini(&contents);
    }
    free(text);
}

static void read_state(const uint8_t *data, size_t size)
{
    zn_json *root;
    struct zn_run_state state;
    if (zn_json_load_buffer(data, size, "state.json", &root) != ZN_OK)
        return;
    if (zn_run_state_parse(root, &state) == ZN_OK &&
        (state.updates > state.step || !(state.scale > 0) || state.n_windows < 1 ||
         state.masters_in_model == (state.states[ZN_STATE_MASTER] != NULL)))
        abort();
    zn_json_destroy(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    read_contents(data, size);
    read_state(data, size);
    return 0;
}
