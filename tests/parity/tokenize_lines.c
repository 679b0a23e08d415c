/* Encodes and decodes many strings in one process, for the comparison with the `tokenizers`
 * library: tokenize_lines FOLDER [THREADS] reads from standard input
 *
 *   u32 n_bytes, u8 add_special, the bytes      until the end
 *
 * and writes for each string
 *
 *   u32 n_ids, the ids, u32 n_bytes, the bytes  of the ids and of their decoded text */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "text/tokenizer.h"

static int fail(const char *what)
{
    fprintf(stderr, "tokenize_lines: %s: %s\n", what, zn_error_message());
    return 1;
}

static void put(const void *data, size_t n_bytes)
{
    uint32_t n = (uint32_t)n_bytes;
    fwrite(&n, 4, 1, stdout);
    fwrite(data, 1, n_bytes, stdout);
}

static int run(const zn_tokenizer *tokenizer)
{
    struct zn_ids ids = {0};
    uint32_t n;
    int code = 0;
    while (code == 0 && fread(&n, 4, 1, stdin) == 1) {
        unsigned char special;
        char *text = malloc((size_t)n + 1), *back = NULL;
        size_t n_back;
        if (!text || fread(&special, 1, 1, stdin) != 1 || fread(text, 1, n, stdin) != n) {
            free(text);
            code = fail("the input ends early");
            break;
        }
        ids.n = 0;
        if (zn_tokenizer_encode(tokenizer, text, n, special, &ids) != ZN_OK)
            code = fail("encode");
        else if (zn_tokenizer_decode(tokenizer, ids.id, ids.n, false, &back, &n_back) != ZN_OK)
            code = fail("decode");
        if (code == 0) {
            uint32_t n_ids = (uint32_t)ids.n;
            fwrite(&n_ids, 4, 1, stdout);
            fwrite(ids.id, 4, n_ids, stdout);
            put(back, n_back);
        }
        free(back);
        free(text);
    }
    zn_ids_fini(&ids);
    return code;
}

int main(int argc, char **argv)
{
    zn_tokenizer *tokenizer;
    if (argc < 2 || zn_tokenizer_open(argv[1], &tokenizer) != ZN_OK)
        return fail("open");
    if (argc > 2)
        zn_tokenizer_set_threads(tokenizer, atoi(argv[2]));
    int code = run(tokenizer);
    zn_tokenizer_close(tokenizer);
    return fflush(stdout) == 0 ? code : 1;
}
