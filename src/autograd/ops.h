/* The operators models are written with: those of zinc/network.h, which programs have too, and more. x is (B,T,C) unless said;
 * results are new tensors owned by the tape. */
#ifndef ZN_AUTOGRAD_OPS_H
#define ZN_AUTOGRAD_OPS_H

#include "autograd/tape.h"
#include "zinc/network.h"

/* Between what all ranks of a tensor-parallel group have and the slices that each computes (Megatron-LM's f and g). Where the weight
 * is not sliced, x itself and a plain linear operator.
 *   x as the input of `weight`, which has a slice of the outputs: the gradients of x, one from each rank, are summed.
 *   The linear operator whose weight has a slice of the inputs: the results of all ranks are summed, and the bias added once. */
zn_tensor *zn_copy_to_slices(zn_tape *t, zn_tensor *x, const zn_param *weight);
zn_tensor *zn_linear_of_slices(zn_tape *t, zn_tensor *x, const zn_param *weight, const zn_param *bias, zn_layout layout);

/* Rotary embedding of (B,T,heads·head_dim); cos and sin are (≥T, head_dim/2). */
zn_tensor *zn_rope(zn_tape *t, zn_tensor *x, int64_t heads, const zn_constant *cos,
                   const zn_constant *sin);

struct zn_attention {
    int64_t heads, kv_heads, head_dim;
    int64_t window; /* 0 is none */
    float scale;
};

/* q (B,T,heads·head_dim), k and v (B,T,kv_heads·head_dim) → like q; causal. */
zn_tensor *zn_attention(zn_tape *t, zn_tensor *q, zn_tensor *k, zn_tensor *v,
                        const struct zn_attention *how);

/* The same with q, k and v side by side in one (B,T,(heads+2·kv_heads)·head_dim). */
zn_tensor *zn_attention_fused(zn_tape *t, zn_tensor *qkv, const struct zn_attention *how);

/* The output layer with cross-entropy: x (B,T,C), weight (V,C), targets (B,T) int32 with -1 for
 * ignored positions. The sum of the token losses is added to the double at `loss`; gradients
 * are those of that sum × scale. Logits exist for one chunk of tokens and vocabulary at a time
 * (`keep_logits` false: computed again for the gradient, one panel at a time) or of tokens alone
 * (true, unless the weight is sliced); both give the same bits. While recording, all is computed in backward: the loss is there after it. */
struct zn_head {
    const zn_param *weight;
    zn_tensor *targets;
    zn_addr loss;
    float scale;
    bool keep_logits;
    /* A pass of the reference leaves, for each row of x, the log-sum-exp and then, after all of those, the target's logit here; 0:
     * it is none. */
    zn_addr reference_to;
    /* The loss of pairs of answers in place of tokens' (zn_pair_loss_args): `sums` gets it, with what was left by the reference's
     * pass, and `loss` has nothing of use. Log-probabilities of all tokens come before the first gradient, so logits are computed
     * twice whatever keep_logits says. sequences NULL: tokens. */
    struct {
        zn_tensor *sequences; /* (B,T) int32 */
        zn_addr reference, sums;
        float beta;
    } pairs;
};
zn_tensor *zn_head_loss(zn_tape *t, zn_tensor *x, const struct zn_head *head);

/* The output layer where a sequence is extended: the logits (V) of the last token alone, written to
 * `logits`. */
zn_tensor *zn_head_logits(zn_tape *t, zn_tensor *x, const zn_param *weight, zn_addr logits);

#endif
