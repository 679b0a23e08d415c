/* The two kinds of tokenizer that llama.cpp has for these models. */
#ifndef ZN_TEXT_GGUF_PRIVATE_H
#define ZN_TEXT_GGUF_PRIVATE_H

#include "text/gguf_tokenizer.h"
#include "text/tokenizer_private.h"

/* llama.cpp's name for the pre_tokenizer of a byte-level BPE; tokenizer.json is the root. */
zn_status gguf_find_pre(zn_json *root, const zn_tokenizer *tokenizer, const struct zn_gguf_vocabulary *how, const char **name);

/* Whether the tokenizer is SentencePiece's BPE with byte fallback, in the form that tokenizer.json has it. */
bool gguf_is_sentencepiece(const zn_tokenizer *tokenizer);

/* Refuses what llama.cpp would merge otherwise. *prefix: a space goes before texts. */
zn_status gguf_check_sentencepiece(const zn_tokenizer *tokenizer, const struct zn_gguf_vocabulary *how, bool *prefix);

/* The score of each id, by which llama.cpp merges; n_tokens of them, which the caller frees. */
zn_status gguf_find_scores(const zn_tokenizer *tokenizer, int64_t n_tokens, float **scores);

#endif
