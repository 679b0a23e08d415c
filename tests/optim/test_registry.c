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
    assert_int_equal(n, 3);
}

static void an_unknown_name_is_told_the_others(void **state)
{
    (void)state;
    const zn_optimizer *found = NULL;
    assert_int_equal(zn_optimizer_find("lion", &(struct zn_hyperparameters){0}, &found), ZN_ERR_USAGE);
    assert_string_equal(zn_error_message(), "--optimizer: 'lion' is not one of adamw, adam, sgd");
    assert_null(found);
}

static void momentum_is_a_state_of_sgd(void **state)
{
    (void)state;
    const zn_optimizer *without, *with;
    assert_int_equal(zn_optimizer_find("sgd", &(struct zn_hyperparameters){0}, &without), ZN_OK);
    assert_int_equal(zn_optimizer_find("sgd", &(struct zn_hyperparameters){.momentum = 0.9}, &with), ZN_OK);
    assert_int_equal(without->n_states, 0);
    assert_int_equal(zn_optimizer_bytes(without), 0);
    assert_int_equal(with->n_states, 1);
    assert_int_equal(zn_optimizer_bytes(with), 4);
    assert_string_equal(with->name, "sgd");
    assert_string_equal(with->state[0].name, "exp_avg"); /* as checkpoints have it */
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
    refuse(o, "optimizer new: updates by matrix");
    o = plain;
    o.n_states = 4;
    refuse(o, "has 4 states, at most 3");
    o = plain;
    o.state[1].type = ZN_BF16;
    refuse(o, "state b is not plain fp32");
    o = plain;
    o.state[0].block = 128;
    refuse(o, "state a is not plain fp32");
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
        cmocka_unit_test(a_registered_optimizer_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
