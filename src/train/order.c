/* A pseudo-random permutation of 0 … n-1 by a Feistel network on the smallest even number of bits
 * that holds n, walked until it falls below n (Black and Rogaway, "Ciphers with arbitrary finite
 * domains"): at most four times as large a domain, so few walks. */
#include "train/order.h"

#include "base/rng.h"

enum { ROUNDS = 6 };

static uint64_t feistel(uint64_t key, uint64_t x, unsigned half_bits)
{
    uint64_t mask = ((uint64_t)1 << half_bits) - 1;
    uint64_t left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t mixed = left ^ (zn_random_bits(key + round, right) & mask);
        left = right;
        right = mixed;
    }
    return left << half_bits | right;
}

int64_t zn_order_window(const struct zn_order *order, int64_t sample)
{
    int64_t epoch = sample / order->n_windows, k = sample % order->n_windows;
    if (!order->shuffle || order->n_windows == 1)
        return k;
    unsigned half_bits = 1;
    while (((uint64_t)1 << (2 * half_bits)) < (uint64_t)order->n_windows)
        half_bits++;
    uint64_t key = zn_random_bits(order->seed, (uint64_t)epoch), x = (uint64_t)k;
    do
        x = feistel(key, x, half_bits);
    while (x >= (uint64_t)order->n_windows);
    return (int64_t)x;
}
