/* The ids that end a text, from config.json and generation_config.json. */
#include "files.h"

#include "text/stop.h"

/* generation NULL: no such file. `otherwise` is 9. */
static zn_status read_stop(const char *config_text, const char *generation, struct zn_stop *stop)
{
    zn_json *config;
    OK(zn_json_load_buffer(config_text, strlen(config_text), "config.json", &config));
    if (generation)
        make_text("generation_config.json", generation);
    zn_status status = zn_stop_init(stop, config, test_folder, 9);
    if (generation)
        remove(in_folder("generation_config.json"));
    zn_json_destroy(config);
    return status;
}

static void check(const char *config, const char *generation, const int32_t *ids, size_t n)
{
    struct zn_stop stop;
    OK(read_stop(config, generation, &stop));
    assert_int_equal(stop.n, n);
    for (size_t i = 0; i < n; i++)
        assert_true(zn_stop_has(&stop, ids[i]));
    assert_false(zn_stop_has(&stop, 77));
    zn_stop_fini(&stop);
}

static void a_number_or_a_list(void **state)
{
    (void)state;
    check("{\"eos_token_id\": 2}", NULL, (int32_t[]){2}, 1);
    check("{\"eos_token_id\": [2, 5, 2]}", NULL, (int32_t[]){2, 5}, 2);
}

static void both_files_count(void **state)
{
    (void)state;
    check("{\"eos_token_id\": 2}", "{\"eos_token_id\": [3, 2]}", (int32_t[]){2, 3}, 2);
    check("{}", "{\"eos_token_id\": 4}", (int32_t[]){4}, 1);
    check("{\"eos_token_id\": [1]}", "{\"temperature\": 0.6}", (int32_t[]){1}, 1);
}

static void without_any_the_tokenizer_decides(void **state)
{
    (void)state;
    check("{}", NULL, (int32_t[]){9}, 1);
    check("{\"eos_token_id\": null}", "{\"eos_token_id\": []}", (int32_t[]){9}, 1);
}

static void other_types_are_refused(void **state)
{
    (void)state;
    struct zn_stop stop;
    FAILS(read_stop("{\"eos_token_id\": \"x\"}", NULL, &stop), ZN_ERR_INPUT, "config.json", "eos_token_id");
    zn_stop_fini(&stop);
    FAILS(read_stop("{}", "{\"eos_token_id\": [1, -4]}", &stop), ZN_ERR_INPUT, "generation_config.json",
          "eos_token_id");
    zn_stop_fini(&stop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_or_a_list),
        cmocka_unit_test(both_files_count),
        cmocka_unit_test(without_any_the_tokenizer_decides),
        cmocka_unit_test(other_types_are_refused),
    };
    return cmocka_run_group_tests(tests, make_test_folder, remove_test_folder);
}
