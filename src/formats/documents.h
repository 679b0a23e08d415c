/* The documents of a row of tokens. One begins with each file, with each row that was an example, and after each end-of-text
 * id: so text of several rows is told apart, and what `zinc tokenize` writes. */
#ifndef ZN_FORMATS_DOCUMENTS_H
#define ZN_FORMATS_DOCUMENTS_H

#include "formats/tokens.h"

/* Where each begins, ascending, eight bytes a document; the caller frees it. Reads all of the source; blocks. */
zn_status zn_documents_find(const zn_token_source *source, int64_t **first, int64_t *n_documents);

#endif
