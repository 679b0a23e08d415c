/* Blocks lie where the plain first fit, which compares each with all others, puts them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>

#include "base/rng.h"
#include "memory/packing.h"

enum { MAX_BLOCKS = 400 };

static struct block blocks[MAX_BLOCKS];

static bool comes_before(const struct block *a, const struct block *b)
{
    int64_t a_life = a->last - a->first, b_life = b->last - b->first;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes > b->n_bytes;
    return a_life != b_life ? a_life > b_life : a < b;
}

/* The lowest place for b beside what is placed: 0 or the end of another. */
static size_t plain_place(const struct block *b, const bool *placed, int64_t n)
{
    size_t best = SIZE_MAX;
    for (int64_t i = -1; i < n; i++) {
        size_t at = i < 0 ? 0 : blocks[i].offset + blocks[i].n_bytes;
        bool free_there = (i < 0 || placed[i]) && at < best;
        for (int64_t j = 0; j < n && free_there; j++)
            free_there = !placed[j] || blocks[j].last < b->first || blocks[j].first > b->last ||
                         blocks[j].offset >= at + b->n_bytes || blocks[j].offset + blocks[j].n_bytes <= at;
        best = free_there ? at : best;
    }
    return best;
}

/* Packs, then takes the blocks out again, from the last to the first, and looks whether each is in its place. */
static void check(int64_t n, int64_t n_points)
{
    size_t peak, end = 0;
    static bool placed[MAX_BLOCKS];
    assert_int_equal(pack_blocks(blocks, n, n_points, &peak), ZN_OK);
    for (int64_t i = 0; i < n; i++) {
        placed[i] = true;
        end = blocks[i].offset + blocks[i].n_bytes > end ? blocks[i].offset + blocks[i].n_bytes : end;
    }
    assert_int_equal(peak, end);
    for (int64_t k = 0; k < n; k++) {
        int64_t last = -1;
        for (int64_t i = 0; i < n; i++)
            if (placed[i] && (last < 0 || comes_before(&blocks[last], &blocks[i])))
                last = i;
        placed[last] = false;
        if (blocks[last].offset != plain_place(&blocks[last], placed, n))
            fail_msg("block %lld of %lld is not where first fit puts it", (long long)last, (long long)n);
    }
}

/* Some live for one point, some for a while, some for long; sizes repeat. */
static void fill(uint64_t key, int64_t n, int64_t n_points, int64_t longest)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = (uint64_t)i * 4;
        int64_t first = (int64_t)zn_random_below(key, at, (uint64_t)n_points);
        int64_t life = (int64_t)zn_random_below(key, at + 1, zn_random_below(key, at + 2, 4) ? 6 : (uint64_t)longest);
        blocks[i] = (struct block){.n_bytes = 64 * (1 + (size_t)zn_random_below(key, at + 3, 12)),
                                   .first = first,
                                   .last = first + life < n_points ? first + life : n_points - 1};
    }
}

static void mixed_lives(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= 20; key++) {
        int64_t n = 1 + (int64_t)(key * 17 % 300), n_points = 1 + (int64_t)(key * key * 3);
        fill(key, n, n_points, 1 + n_points / (1 + (int64_t)(key % 7)));
        check(n, n_points);
    }
}

static void all_live_long(void **state)
{
    (void)state;
    fill(5, 200, 1000, 1000);
    for (int i = 0; i < 200; i++)
        blocks[i].first = i, blocks[i].last = 999 - i;
    check(200, 1000);
}

static void all_live_short(void **state)
{
    (void)state;
    fill(6, 400, 4000, 2);
    check(400, 4000);
}

static void all_live_at_one_moment(void **state)
{
    (void)state;
    fill(7, 100, 1, 1);
    check(100, 1);
}

static void none(void **state)
{
    (void)state;
    size_t peak = 7;
    assert_int_equal(pack_blocks(blocks, 0, 1, &peak), ZN_OK);
    assert_int_equal(peak, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_lives),
        cmocka_unit_test(all_live_long),
        cmocka_unit_test(all_live_short),
        cmocka_unit_test(all_live_at_one_moment),
        cmocka_unit_test(none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
