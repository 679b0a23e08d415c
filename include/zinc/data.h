/* What is trained on: files, or texts and tokens in memory, in the order in which they are added. */
#ifndef ZINC_DATA_H
#define ZINC_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "zinc/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct zn_data_handle zn_data;

/* Begins empty. Not collective. The caller destroys. */
ZN_API zn_status zn_data_create(zn_data **data);

/* Forgets it; engines keep what they need. Not collective; NULL is legal. */
ZN_API void zn_data_destroy(zn_data *data);

/* Adds a file or a folder as --data takes them: .txt, .jsonl, .json, .bin. Not collective. */
ZN_API zn_status zn_data_add_path(zn_data *data, const char *path);

/* Adds a document, which is UTF-8 and is copied: it is encoded by the model's tokenizer and ends in the end of text, as the row
 * {"text": …} of a file does. Not collective. */
ZN_API zn_status zn_data_add_text(zn_data *data, const char *text, size_t n_bytes);

/* Adds a row as a line of a .jsonl file has it, {"messages": […]} or {"prompt": …, "completion": …}, NUL-terminated and without
 * a line break. Not collective. */
ZN_API zn_status zn_data_add_row(zn_data *data, const char *row);

/* Adds tokens that go on where those before end. Ids are at least 0, and are copied. Not collective. */
ZN_API zn_status zn_data_add_tokens(zn_data *data, const int32_t *ids, size_t n_ids);

/* Holds words NEW=OLD of --map to the keys that rows have. Not collective. */
ZN_API zn_status zn_data_check_map(const char *const *map, size_t n_map);

#ifdef __cplusplus
}
#endif
#endif
