/* Packing of blocks by their lifetimes: nothing alive together overlaps, and little is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "memory/lifetimes.h"

enum { MAX_BLOCKS = 600 };

/* The program's own account of what it did. */
struct record {
    size_t n_bytes[MAX_BLOCKS];
    int64_t first[MAX_BLOCKS], last[MAX_BLOCKS];
    int64_t n_blocks, now;
};

static zn_lifetimes *new_lifetimes(void)
{
    zn_lifetimes *l;
    assert_int_equal(zn_lifetimes_create(&l), ZN_OK);
    return l;
}

static int64_t add(zn_lifetimes *l, struct record *r, size_t n_bytes)
{
    int64_t block;
    assert_int_equal(zn_lifetimes_add(l, n_bytes, &block), ZN_OK);
    assert_int_equal(block, r->n_blocks);
    r->n_bytes[block] = n_bytes;
    r->first[block] = r->last[block] = r->now;
    r->n_blocks++;
    return block;
}

static void touch(zn_lifetimes *l, struct record *r, int64_t block)
{
    zn_lifetimes_touch(l, block);
    r->last[block] = r->now;
}

static void next_point(zn_lifetimes *l, struct record *r)
{
    zn_lifetimes_next_point(l);
    r->now++;
}

static size_t rounded(size_t n_bytes)
{
    return (n_bytes + ZN_BLOCK_ALIGNMENT - 1) / ZN_BLOCK_ALIGNMENT * ZN_BLOCK_ALIGNMENT;
}

/* The most that was alive at one point. */
static size_t most_alive(const struct record *r)
{
    size_t most = 0;
    for (int64_t point = 0; point <= r->now; point++) {
        size_t alive = 0;
        for (int64_t i = 0; i < r->n_blocks; i++)
            if (r->first[i] <= point && point <= r->last[i])
                alive += rounded(r->n_bytes[i]);
        most = alive > most ? alive : most;
    }
    return most;
}

/* Packs and checks all that packing promises; the bound is peak ≤ slack × least possible. */
static void check_packing(zn_lifetimes *l, const struct record *r, double slack)
{
    assert_int_equal(zn_lifetimes_pack(l), ZN_OK);
    assert_int_equal(zn_lifetimes_n_blocks(l), r->n_blocks);
    size_t end = 0;
    for (int64_t i = 0; i < r->n_blocks; i++) {
        size_t at = zn_lifetimes_offset(l, i), n = zn_lifetimes_block_bytes(l, i);
        assert_int_equal(at % ZN_BLOCK_ALIGNMENT, 0);
        assert_int_equal(n, rounded(r->n_bytes[i]));
        end = at + n > end ? at + n : end;
        for (int64_t j = 0; j < i; j++) {
            size_t other = zn_lifetimes_offset(l, j), m = zn_lifetimes_block_bytes(l, j);
            bool together = r->first[i] <= r->last[j] && r->first[j] <= r->last[i];
            if (together && at < other + m && other < at + n)
                fail_msg("blocks %lld and %lld live together and overlap", (long long)j,
                         (long long)i);
        }
    }
    size_t peak = zn_lifetimes_peak(l), least = zn_lifetimes_peak_live(l);
    assert_int_equal(peak, end);
    assert_int_equal(least, most_alive(r));
    assert_true(peak >= least);
    if ((double)peak > slack * (double)least)
        fail_msg("%zu bytes for %zu that live at once", peak, least);
}

/* Blocks of any size, touched at any later point. */
static void random_program(zn_lifetimes *l, struct record *r, uint64_t key, int64_t n_blocks)
{
    uint64_t n = 0;
    while (r->n_blocks < n_blocks) {
        if (zn_random_below(key, n++, 3) > 0)
            add(l, r, 1 + (size_t)zn_random_below(key, n++, 5000));
        for (int i = 0; i < 2 && r->n_blocks > 0; i++)
            touch(l, r, (int64_t)zn_random_below(key, n++, (uint64_t)r->n_blocks));
        if (zn_random_below(key, n++, 2) > 0)
            next_point(l, r);
    }
}

static void random_programs_never_overlap(void **state)
{
    (void)state;
    for (uint64_t key = 1; key <= 60; key++) {
        static struct record r;
        memset(&r, 0, sizeof r);
        zn_lifetimes *l = new_lifetimes();
        random_program(l, &r, key, 1 + (int64_t)(key * 37 % 300));
        check_packing(l, &r, 2.0); /* most of these blocks live long: nothing typical */
        zn_lifetimes_destroy(l);
    }
}

/* Forward keeps three blocks of each layer, backward takes them in reverse; each point has a scratch. */
static void stack_program(zn_lifetimes *l, struct record *r, int layers, size_t width,
                          bool recompute)
{
    enum { KEPT = 4 };
    static const size_t sizes[KEPT] = {1, 3, 1, 4};
    int64_t kept[64][KEPT], boundary[65];
    boundary[0] = add(l, r, width);
    for (int layer = 0; layer < layers; layer++) {
        for (int i = 0; i < KEPT; i++) {
            kept[layer][i] = add(l, r, sizes[i] * width);
            touch(l, r, i ? kept[layer][i - 1] : boundary[layer]);
            next_point(l, r);
        }
        boundary[layer + 1] = add(l, r, width);
        touch(l, r, kept[layer][KEPT - 1]);
        next_point(l, r);
    }
    int64_t gradient = add(l, r, width);
    for (int layer = layers - 1; layer >= 0; layer--) {
        for (int i = 0; i < KEPT && recompute; i++) {
            kept[layer][i] = add(l, r, sizes[i] * width);
            touch(l, r, boundary[layer]);
            next_point(l, r);
        }
        for (int i = KEPT - 1; i >= 0; i--) {
            int64_t before = gradient;
            gradient = add(l, r, sizes[i] * width);
            add(l, r, width / 3); /* partial sums */
            touch(l, r, before);
            touch(l, r, kept[layer][i]);
            next_point(l, r);
        }
    }
}

static void typical_stacks_lose_at_most_a_fifth(void **state)
{
    (void)state;
    static const size_t widths[] = {64, 4096, 100000, 1 << 20};
    for (int recompute = 0; recompute < 2; recompute++) {
        for (int layers = 1; layers <= 32; layers = 2 * layers + 1) {
            for (size_t w = 0; w < sizeof widths / sizeof widths[0]; w++) {
                static struct record r;
                memset(&r, 0, sizeof r);
                zn_lifetimes *l = new_lifetimes();
                stack_program(l, &r, layers, widths[w], recompute);
                check_packing(l, &r, 1.2);
                zn_lifetimes_destroy(l);
            }
        }
    }
}

static void the_same_program_gets_the_same_places(void **state)
{
    (void)state;
    static struct record a, b;
    memset(&a, 0, sizeof a);
    memset(&b, 0, sizeof b);
    zn_lifetimes *one = new_lifetimes(), *two = new_lifetimes();
    random_program(one, &a, 99, 300);
    void *between = malloc(12345); /* other addresses for the second list */
    random_program(two, &b, 99, 300);
    assert_int_equal(zn_lifetimes_pack(one), ZN_OK);
    assert_int_equal(zn_lifetimes_pack(two), ZN_OK);
    for (int64_t i = 0; i < a.n_blocks; i++)
        assert_int_equal(zn_lifetimes_offset(one, i), zn_lifetimes_offset(two, i));
    assert_int_equal(zn_lifetimes_peak(one), zn_lifetimes_peak(two));
    free(between);
    zn_lifetimes_destroy(one);
    zn_lifetimes_destroy(two);
}

/* A block dies after the point of its last touch, not during it. */
static void a_dead_block_gives_its_place_to_the_next_point_only(void **state)
{
    (void)state;
    zn_lifetimes *l = new_lifetimes();
    struct record r = {0};
    int64_t first = add(l, &r, 640), same = add(l, &r, 640);
    next_point(l, &r);
    int64_t later = add(l, &r, 1280);
    check_packing(l, &r, 1.0);
    assert_int_not_equal(zn_lifetimes_offset(l, first), zn_lifetimes_offset(l, same));
    assert_int_equal(zn_lifetimes_offset(l, later), 0);
    zn_lifetimes_destroy(l);
}

static void nothing_is_packed_into_nothing(void **state)
{
    (void)state;
    zn_lifetimes *l = new_lifetimes();
    assert_int_equal(zn_lifetimes_pack(l), ZN_OK);
    assert_int_equal(zn_lifetimes_peak(l), 0);
    assert_int_equal(zn_lifetimes_peak_live(l), 0);
    assert_int_equal(zn_lifetimes_n_blocks(l), 0);
    zn_lifetimes_destroy(l);
    zn_lifetimes_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_programs_never_overlap),
        cmocka_unit_test(typical_stacks_lose_at_most_a_fifth),
        cmocka_unit_test(the_same_program_gets_the_same_places),
        cmocka_unit_test(a_dead_block_gives_its_place_to_the_next_point_only),
        cmocka_unit_test(nothing_is_packed_into_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
