/* The list of states in state.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/state.h"

/* A state.json with this list of states, its strings in `root`. */
static zn_status parse(const char *masters, const char *states, const char *pending, zn_json **root, struct zn_run_state *state)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"format\": 2, \"step\": 4, \"updates\": 3, \"skipped_in_a_row\": 1, \"data\": {\"windows\": 137, \"consumed\": 8, "
             "\"seq_len\": 16, \"seed\": 1, \"shuffle\": true, \"packing\": \"stream\", \"truncate_rows\": false, "
             "\"hash\": \"0123456789abcdef\"}, \"loss_scale\": {\"scale\": 65536, \"step\": 4, \"last_overflow\": -1, "
             "\"patience\": 2}, \"optimizer\": \"adamw\", \"precision\": \"fp32\", \"dtype\": \"fp32\", \"masters\": \"%s\", "
             "\"states\": [%s]%s, \"configuration\": {}}",
             masters, states, pending);
    assert_int_equal(zn_json_load_buffer(text, strlen(text), "state.json", root), ZN_OK);
    return zn_run_state_parse(*root, state);
}

static void the_optimizers_states_keep_their_order(void **state)
{
    (void)state;
    zn_json *root;
    struct zn_run_state s;
    assert_int_equal(parse("optimizer", "\"master\", \"exp_avg\", \"exp_avg_sq\", \"pending\"",
                           ", \"pending\": {\"lr\": 1, \"grad_scale\": 1}", &root, &s), ZN_OK);
    assert_string_equal(s.states[ZN_STATE_MASTER], "master");
    assert_string_equal(s.states[ZN_STATE_OPTIMIZER], "exp_avg");
    assert_string_equal(s.states[ZN_STATE_OPTIMIZER + 1], "exp_avg_sq");
    assert_null(s.states[ZN_STATE_OPTIMIZER + 2]);
    assert_string_equal(s.states[ZN_STATE_PENDING], "pending");
    assert_int_equal(zn_run_state_find(&s, "exp_avg_sq"), ZN_STATE_OPTIMIZER + 1);
    assert_int_equal(zn_run_state_find(&s, "velocity"), ZN_N_STATES);
    zn_json_destroy(root);
}

static void the_text_has_them_again(void **state)
{
    (void)state;
    struct zn_run_state s = {.packing = "stream", .optimizer = "new", .precision = "bf16"};
    zn_text text;
    zn_text_init(&text);
    s.states[ZN_STATE_MASTER] = "master";
    s.states[ZN_STATE_OPTIMIZER] = "velocity";
    zn_run_state_print(&s, "{}", &text);
    assert_int_equal(zn_text_status(&text), ZN_OK);
    assert_non_null(strstr(text.data, "\"states\": [\"master\", \"velocity\"]"));
    zn_text_fini(&text);
}

static void refuse(const char *states, const char *reason)
{
    zn_json *root;
    struct zn_run_state s;
    assert_int_not_equal(parse("model", states, "", &root, &s), ZN_OK);
    if (!strstr(zn_error_message(), reason))
        fail_msg("'%s' does not say '%s'", zn_error_message(), reason);
    zn_json_destroy(root);
}

static void lists_that_cannot_be_are_refused(void **state)
{
    (void)state;
    refuse("\"a\", \"b\", \"a\"", "state 'a' is there twice");
    refuse("\"a\", \"b\", \"c\", \"d\"", "state 'd' is one too many");
    refuse("\"master\"", "masters must be in the model");
    refuse("\"pending\"", "without its gradients, or the other way round");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_optimizers_states_keep_their_order),
        cmocka_unit_test(the_text_has_them_again),
        cmocka_unit_test(lists_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
