/* Memory on two devices, filled alike and compared. */
#include "device/check/both.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "device/discrete/launch.h"

enum { FIRST_PLACE = 64 /* 0 is no address */, MAX_ARGS = 64 /* words */ };

zn_status both_init(struct both *b, zn_device *processor, zn_device *device, uint64_t seed, struct zn_check *check)
{
    *b = (struct both){.device = {processor, device}, .key = zn_random_key(seed, "both"), .check = check, .used = FIRST_PLACE};
    *check = (struct zn_check){0};
    b->image = calloc(1, ZN_CHECK_BYTES);
    for (int i = 0; i < 2; i++) {
        b->result[i] = malloc(ZN_CHECK_BYTES);
        if (!b->image || !b->result[i])
            return zn_fail(ZN_ERR_MEMORY, "no memory to check a device with");
        ZN_TRY(zn_device_alloc(b->device[i], ZN_TIER_DEVICE, ZN_KIND_BUFFERS, ZN_CHECK_BYTES, &b->base[i]));
    }
    return ZN_OK;
}

void both_fini(struct both *b)
{
    for (int i = 0; i < 2; i++) {
        zn_device_free(b->device[i], ZN_TIER_DEVICE, ZN_KIND_BUFFERS, b->base[i], ZN_CHECK_BYTES);
        free(b->result[i]);
    }
    free(b->image);
}

int64_t both_draw(struct both *b, int64_t low, int64_t high)
{
    return low + (int64_t)zn_random_below(b->key, b->counter++, (uint64_t)(high - low + 1));
}

void both_begin(struct both *b)
{
    b->used = FIRST_PLACE;
    b->n_scratch = 0;
}

/* ---- Places ---- */

zn_addr both_bytes(struct both *b, int64_t n_bytes)
{
    zn_addr at = b->used;
    size_t taken = ((size_t)n_bytes + 7) / 8 * 8 + 8 * (size_t)both_draw(b, 0, 3);
    if (b->status == ZN_OK && taken > ZN_CHECK_BYTES - b->used)
        b->status = zn_fail(ZN_ERR_INTERNAL, "a check takes more than its memory");
    if (b->status != ZN_OK)
        return FIRST_PLACE; /* nothing is run any more */
    b->used += taken;
    return at;
}

float *both_values(struct both *b, zn_addr place)
{
    return (float *)(void *)(b->image + place);
}

/* Whether so many bytes may be written at the place: not after a failure. */
static bool has_place(const struct both *b)
{
    return b->status == ZN_OK;
}

zn_addr both_floats(struct both *b, int64_t n, float size)
{
    zn_addr at = both_bytes(b, 4 * n);
    for (int64_t i = 0; i < n && has_place(b); i++)
        both_values(b, at)[i] = size * (float)zn_random_normal(b->key, b->counter++);
    return at;
}

zn_addr both_bits(struct both *b, int64_t n_bytes)
{
    zn_addr at = both_bytes(b, n_bytes);
    for (int64_t i = 0; i < n_bytes && has_place(b); i++)
        b->image[at + (zn_addr)i] = (unsigned char)zn_random_bits(b->key, b->counter++);
    return at;
}

zn_addr both_params(struct both *b, int64_t n, zn_dtype type)
{
    if (type == ZN_F32)
        return both_floats(b, n, 1);
    zn_addr at = both_bits(b, 2 * n);
    uint16_t *x = (uint16_t *)(void *)(b->image + at);
    for (int64_t i = 0; i < n && has_place(b); i++) /* between 2^-7 and 2, of both signs */
        x[i] = type == ZN_BF16 ? (uint16_t)((x[i] & 0x83ff) | 0x3c00) : (uint16_t)((x[i] & 0x9fff) | 0x2000);
    return at;
}

zn_addr both_ids(struct both *b, int64_t n, int64_t low, int64_t high)
{
    zn_addr at = both_bytes(b, 4 * n);
    for (int64_t i = 0; i < n && has_place(b); i++)
        ((int32_t *)(void *)(b->image + at))[i] = (int32_t)both_draw(b, low, high);
    return at;
}

zn_addr both_examples(struct both *b, int64_t rows, int64_t seq_len)
{
    zn_addr at = both_bytes(b, 4 * rows);
    int32_t *x = (int32_t *)(void *)(b->image + at);
    for (int64_t i = 0; i < rows && has_place(b); i++)
        x[i] = i % seq_len == 0 || both_draw(b, 0, 20) == 0 ? 0 : x[i - 1] + 1;
    return at;
}

zn_addr both_scratch(struct both *b, int64_t n_bytes)
{
    zn_addr at = both_bits(b, n_bytes);
    if (b->status == ZN_OK && b->n_scratch == BOTH_MAX_SCRATCH)
        b->status = zn_fail(ZN_ERR_INTERNAL, "a check has too much scratch");
    if (b->status == ZN_OK) {
        b->scratch[b->n_scratch].place = at;
        b->scratch[b->n_scratch++].n_bytes = (size_t)n_bytes;
    }
    return at;
}

/* ---- Running and comparing ---- */

static bool is_over(const struct both *b)
{
    return b->status != ZN_OK || b->check->difference[0];
}

static int n_addresses(zn_kernel kernel)
{
    int n[ZN_N_KERNELS] = {0};
    n[ZN_KERNEL_zero] = 1;
    n[ZN_KERNEL_copy] = 2;
#define COUNT(name, args, addresses, items) n[ZN_KERNEL_##args] = addresses;
    ZN_LAUNCHES(COUNT)
#undef COUNT
    return n[kernel];
}

void both_move(const struct both *b, int which, zn_kernel kernel, const void *args, size_t n_bytes, void *moved)
{
    uint64_t words[MAX_ARGS];
    memcpy(words, args, n_bytes);
    for (int i = 0; i < n_addresses(kernel); i++)
        words[i] += words[i] ? b->base[which] : 0;
    memcpy(moved, words, n_bytes);
}

void both_take(struct both *b, int which)
{
    if (is_over(b))
        return;
    b->status = zn_device_read(b->device[which], b->result[which], b->base[which], b->used);
    for (int i = 0; i < b->n_scratch; i++)
        memset(b->result[which] + b->scratch[i].place, 0, b->scratch[i].n_bytes);
}

void both_run(struct both *b, int which, zn_kernel kernel, const void *args, size_t n_bytes)
{
    uint64_t moved[MAX_ARGS];
    if (is_over(b))
        return;
    both_move(b, which, kernel, args, n_bytes, moved);
    b->status = zn_device_write(b->device[which], b->base[which], b->image, b->used);
    if (b->status == ZN_OK)
        b->status = b->device[which]->ops->run(b->device[which], kernel, moved);
    both_take(b, which);
}

void both_compare(struct both *b, zn_kernel kernel, const char *what)
{
    const uint32_t *x = (const void *)b->result[0], *y = (const void *)b->result[1];
    size_t n_other = 0, first = 0;
    if (is_over(b))
        return;
    b->check->n_checked++;
    for (size_t i = FIRST_PLACE / 4; i < b->used / 4; i++)
        if (x[i] != y[i]) {
            first = n_other ? first : i;
            n_other++;
        }
    if (n_other)
        snprintf(b->check->difference, sizeof b->check->difference,
                 "%s (%s): %zu of %zu words differ, the first at byte %zu: 0x%08x, on the device 0x%08x", zn_kernel_name(kernel), what,
                 n_other, b->used / 4, 4 * first, x[first], y[first]);
}
