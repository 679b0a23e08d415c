/* Quantised parameters: 8 bits, or 4-bit NormalFloat with double quantisation (Dettmers et al. 2023, QLoRA), as bitsandbytes has it.
 *
 * A block is 64 consecutive elements of a parameter, the last of which may be short. int8: scale = the block's largest |x| / 127, a
 * value is code × scale. nf4: a value is zn_nf4_map[code] × scale, and the scale, less the mean of all scales of the parameter, is
 * itself a code of the signed dynamic map in groups of 256 blocks: scale = map[code] × group_scale + mean, each operation rounded.
 *
 * Parameters lie in quanta of ZN_QUANTUM elements, each with its codes and all that they are widened with: what 16 quanta of a group
 * share, and the mean, stand in each. So partitions, tiles and chunks may end after any quantum. */
#ifndef ZN_TENSOR_QUANTUM_H
#define ZN_TENSOR_QUANTUM_H

#include <stdint.h>

#include "tensor/dtype.h"

enum {
    ZN_QUANTISED_BLOCK = 64, /* elements */
    ZN_QUANTUM_BLOCKS = ZN_QUANTUM / ZN_QUANTISED_BLOCK,
    ZN_QUANTISED_GROUP = 256 * ZN_QUANTISED_BLOCK /* elements whose scales are quantised together */
};

struct zn_int8_quantum {
    int8_t codes[ZN_QUANTUM];
    float scales[ZN_QUANTUM_BLOCKS];
};

struct zn_nf4_quantum {
    uint8_t codes[ZN_QUANTUM / 2]; /* two elements each, the first in the upper four bits */
    uint8_t scales[ZN_QUANTUM_BLOCKS];
    float group_scale, mean;
    uint8_t unused[8]; /* quanta begin at multiples of 32 bytes */
};

_Static_assert(sizeof(struct zn_int8_quantum) == ZN_INT8_QUANTUM_BYTES, "bytes of an int8 quantum");
_Static_assert(sizeof(struct zn_nf4_quantum) == ZN_NF4_QUANTUM_BYTES, "bytes of an nf4 quantum");

enum { ZN_NF4_CODES = 16 };

static const float zn_nf4_map[ZN_NF4_CODES] = {
    -1.0f,       -0.6961928f, -0.52507305f, -0.39491749f, -0.28444138f, -0.18477343f, -0.091050036f, 0.0f,
    0.0795803f,  0.1609302f,  0.2461123f,   0.33791524f,  0.44070983f,  0.562617f,    0.72295684f,  1.0f,
};

#endif
