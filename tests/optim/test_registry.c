/* Finding optimizers by name, and what a descriptor may not ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "optim/registry.h"

static void every_name_finds_its_optimizer(void **state)
{
    (void)state;
    const struct zn_hyperparameters h = {.beta1 = 0.9};
    char names[] = ZN_OPTIMIZER_NAMES;
    int n = 0;
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        const zn_optimizer *found;
        assert_int_equal(zn_optimizer_find(name, &h, &found), ZN_OK);
        assert_string_equal(found->name, name);
        assert_int_equal(zn_optimizer_check(found), ZN_OK);
        n++;
    }
    assert_int_equal(n, 8);
}

static void an_unknown_name_is_told_the_others(void **state)
{
    (void)state;
    const zn_optimizer *found = NULL;
    assert_int_equal(zn_optimizer_find("adafactor", &(struct zn_hyperparameters){0}, &found), ZN_ERR_USAGE);
    assert_string_equal(zn_error_message(), "--optimizer: 'adafactor' is not one of adamw, adam, sgd, lion, adagrad, adamw8bit, adamw-bf16, muon");
    assert_null(found);
}

static void momentum_is_a_state_of_sgd(void **state)
{
    (void)state;
    const zn_optimizer *without, *with;
    assert_int_equal(zn_optimizer_find("sgd", &(struct zn_hyperparameters){0}, &without), ZN_OK);
    assert_int_equal(zn_optimizer_find("sgd", &(struct zn_hyperparameters){.momentum = 0.9}, &with), ZN_OK);
    assert_int_equal(without->n_states, 0);
    assert_int_equal(zn_optimizer_bytes(without, false, 1), 0);
    assert_int_equal(with->n_states, 1);
    assert_int_equal(zn_optimizer_bytes(with, false, 1), 4);
    assert_string_equal(with->name, "sgd");
    assert_string_equal(with->state[0].name, "momentum_buffer"); /* as checkpoints have it */
}

static void sizes_follow_from_types_and_blocks(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        size_t n_bytes;
        bool is_lossy;
    } wanted[] = {{"adamw", 8 * 1024, false}, {"lion", 4 * 1024, false}, {"adamw-bf16", 4 * 1024, true},
                  {"adamw8bit", 2 * 1024 + 2 * 4 * 4, true}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const zn_optimizer *o;
        assert_int_equal(zn_optimizer_find(wanted[i].name, &(struct zn_hyperparameters){0}, &o), ZN_OK);
        assert_int_equal(zn_optimizer_bytes(o, false, 1024), wanted[i].n_bytes);
        assert_int_equal(zn_optimizer_is_lossy(o), wanted[i].is_lossy);
    }
    assert_int_equal(zn_optimizer_bytes(&zn_optimizer_muon, true, 1024), 4 * 1024);
    assert_int_equal(zn_optimizer_bytes(&zn_optimizer_muon, false, 1024), 8 * 1024);
}

static void refuse(zn_optimizer optimizer, const char *text)
{
    assert_int_equal(zn_optimizer_check(&optimizer), ZN_ERR_UNSUPPORTED);
    if (!strstr(zn_error_message(), text))
        fail_msg("'%s' does not say '%s'", zn_error_message(), text);
}

static void what_is_not_supported_is_refused_by_name(void **state)
{
    (void)state;
    const zn_optimizer plain = {.name = "new", .title = "new", .n_states = 2, .state = {{.name = "a"}, {.name = "b"}}};
    zn_optimizer o = plain;
    assert_int_equal(zn_optimizer_check(&o), ZN_OK);
    o.granularity = ZN_BY_MATRIX;
    refuse(o, "optimizer new: does not have all that updates by matrix need");
    o = plain;
    o.n_states = 4;
    refuse(o, "has 4 states, at most 3");
    o = plain;
    o.state[1].type = ZN_BF16;
    assert_int_equal(zn_optimizer_check(&o), ZN_OK);
    o.state[1].type = ZN_F16;
    refuse(o, "state b is neither fp32, nor bf16, nor 8-bit codes");
    o = plain;
    o.state[0].block = 128; /* fp32 with scales */
    refuse(o, "state a is neither fp32");
    o.state[0].type = ZN_U8; /* whose scales have no name */
    refuse(o, "state a is neither fp32");
    o.state[0].scales = "b.absmax";
    refuse(o, "state a is neither fp32");
    o.state[0].scales = "a.absmax";
    assert_int_equal(zn_optimizer_check(&o), ZN_OK);
    o.state[0].block = 96; /* would span two partitions */
    refuse(o, "blocks that divide 1024");
    static const char *const taken[] = {"master", "pending", "b", "", "a.b"};
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++) {
        o = plain;
        o.state[0].name = "b";
        o.state[1].name = taken[i];
        refuse(o, "state 1 cannot have the name");
    }
}

static void a_registered_optimizer_is_found(void **state)
{
    (void)state;
    static const zn_optimizer added = {.name = "added", .title = "added"}, bad = {.name = "bad", .title = "bad", .n_states = 9};
    const zn_optimizer *found;
    assert_int_equal(zn_optimizer_register(&added), ZN_OK);
    assert_int_equal(zn_optimizer_find("added", &(struct zn_hyperparameters){0}, &found), ZN_OK);
    assert_ptr_equal(found, &added);
    assert_int_equal(zn_optimizer_register(&added), ZN_ERR_USAGE);
    assert_int_equal(zn_optimizer_register(&bad), ZN_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_finds_its_optimizer), cmocka_unit_test(an_unknown_name_is_told_the_others),
        cmocka_unit_test(momentum_is_a_state_of_sgd),     cmocka_unit_test(what_is_not_supported_is_refused_by_name),
        cmocka_unit_test(a_registered_optimizer_is_found), cmocka_unit_test(sizes_follow_from_types_and_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
