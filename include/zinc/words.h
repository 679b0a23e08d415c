/* A list of texts, in the order given. */
#ifndef ZINC_WORDS_H
#define ZINC_WORDS_H

#include <stddef.h>

struct zn_words {
    const char *const *word;
    size_t n;
};

#endif
