/* Best-fit packing against a plain search, and its edges. */
#include "files.h"

#include "base/rng.h"
#include "train/packing.h"

/* The fullest window with room, the first that became so full among equals; items longest first. */
struct plain {
    int64_t n_windows;
    int64_t room[4000], since[4000]; /* since: when a window came to its room */
    int64_t window_of[4000];
};

static void pack_plainly(const uint32_t *sizes, int64_t n, int64_t room, struct plain *p)
{
    int64_t clock = 0;
    p->n_windows = 0;
    for (int64_t size = room; size > 0; size--)
        for (int64_t i = 0; i < n; i++) {
            if (sizes[i] != size)
                continue;
            int64_t best = -1;
            for (int64_t w = 0; w < p->n_windows; w++)
                if (p->room[w] >= size && (best < 0 || p->room[w] < p->room[best] ||
                                           (p->room[w] == p->room[best] && p->since[w] < p->since[best])))
                    best = w;
            if (best < 0) {
                best = p->n_windows++;
                p->room[best] = room;
            }
            p->room[best] -= size;
            p->since[best] = clock++;
            p->window_of[i] = best;
        }
}

static void check(const uint32_t *sizes, int64_t n, int64_t room)
{
    static struct plain plain;
    struct zn_packed packed;
    pack_plainly(sizes, n, room, &plain);
    OK(zn_pack_best_fit(sizes, n, room, &packed));
    assert_int_equal(packed.n_windows, plain.n_windows);
    int64_t n_members = 0;
    for (int64_t w = 0; w < packed.n_windows; w++) {
        int64_t used = 0;
        uint32_t before = UINT32_MAX;
        assert_true(packed.first[w + 1] > packed.first[w]);
        for (int64_t m = packed.first[w]; m < packed.first[w + 1]; m++) {
            uint32_t item = packed.member[m];
            assert_int_equal(plain.window_of[item], w);
            assert_true(sizes[item] > 0 && sizes[item] <= before); /* the longest came first */
            before = sizes[item];
            used += before;
            n_members++;
        }
        assert_true(used <= room);
    }
    for (int64_t i = 0; i < n; i++)
        n_members -= sizes[i] > 0;
    assert_int_equal(n_members, 0); /* each once */
    zn_packed_fini(&packed);
}

static void packs_as_the_plain_search_does(void **state)
{
    (void)state;
    static const int64_t rooms[] = {1, 2, 7, 63, 64, 65, 127, 1024, 5000, 70000};
    for (size_t r = 0; r < COUNT(rooms); r++)
        for (uint64_t seed = 0; seed < 6; seed++) {
            uint32_t sizes[600];
            int64_t most = seed < 3 ? rooms[r] : 1 + rooms[r] / 9; /* few items a window, and many */
            for (uint64_t i = 0; i < COUNT(sizes); i++)
                sizes[i] = (uint32_t)(zn_random_bits(seed * 31 + r, i) % (uint64_t)(most + 1));
            check(sizes, COUNT(sizes), rooms[r]);
        }
}

static void fills_windows_to_the_brim(void **state)
{
    (void)state;
    const uint32_t sizes[] = {3, 5, 2, 6, 1, 7, 4, 8}; /* 36 places in windows of 9: four, all full */
    struct zn_packed packed;
    OK(zn_pack_best_fit(sizes, COUNT(sizes), 9, &packed));
    assert_int_equal(packed.n_windows, 4);
    const uint32_t expected[] = {7, 4, 5, 2, 3, 0, 1, 6}; /* 8+1, 7+2, 6+3, 5+4 */
    assert_memory_equal(packed.member, expected, sizeof expected);
    zn_packed_fini(&packed);
}

static void takes_no_items(void **state)
{
    (void)state;
    struct zn_packed packed;
    OK(zn_pack_best_fit(NULL, 0, 10, &packed));
    assert_int_equal(packed.n_windows, 0);
    zn_packed_fini(&packed);
    const uint32_t none[] = {0, 0};
    OK(zn_pack_best_fit(none, 2, 10, &packed));
    assert_int_equal(packed.n_windows, 0);
    zn_packed_fini(&packed);
}

static void one_each_keeps_the_order(void **state)
{
    (void)state;
    const uint32_t sizes[] = {3, 0, 2, 9};
    struct zn_packed packed;
    OK(zn_pack_one_each(sizes, COUNT(sizes), &packed));
    assert_int_equal(packed.n_windows, 3);
    const uint32_t expected[] = {0, 2, 3};
    assert_memory_equal(packed.member, expected, sizeof expected);
    for (int64_t w = 0; w <= 3; w++)
        assert_int_equal(packed.first[w], w);
    zn_packed_fini(&packed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packs_as_the_plain_search_does),
        cmocka_unit_test(fills_windows_to_the_brim),
        cmocka_unit_test(takes_no_items),
        cmocka_unit_test(one_each_keeps_the_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
