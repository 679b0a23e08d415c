/* Training with --math fast on a CUDA device, here the stand-ins for its driver and cuBLASLt: losses close to the exact ones, other bits, and
 * the same bits again where placement and ranks are the same. */
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "device/on_cuda.h"
#include "zero/discrete_job.h"

static void fast_math_repeats_itself(void **state)
{
    (void)state;
    zn_json *json;
    zn_model *model = new_model(config, TIME, &json);
    size_t n_bytes = (size_t)zn_model_n_elements(model) * sizeof(float);
    for (int n_ranks = 1; n_ranks <= 2; n_ranks++) {
        struct zn_engine_options o = options_of(3, 2), on_device;
        struct job plain, runs[2];
        o.type = n_ranks == 1 ? ZN_BF16 : ZN_F32;
        on_device = o;
        on_device.is_discrete = on_device.stages_comm = true;
        on_device.offload = (struct zn_offload){.optimizer = ZN_TIER_HOST, .gradients = ZN_TIER_HOST};
        run_ranks(&plain, model, &o, n_ranks, 0);
        for (int i = 0; i < 2; i++)
            run_ranks(&runs[i], model, &on_device, n_ranks, 0);
        for (int s = 0; s < STEPS; s++)
            assert_true(fabs(runs[0].losses[s] - plain.losses[s]) < 1e-3 * fabs(plain.losses[s]));
        assert_memory_equal(runs[0].losses, runs[1].losses, sizeof plain.losses);
        assert_memory_equal(runs[0].norms, runs[1].norms, sizeof plain.norms);
        assert_memory_equal(runs[0].weights, runs[1].weights, n_bytes);
        assert_memory_not_equal(runs[0].weights, plain.weights, n_bytes); /* it is not the exact kernel that ran */
        free(plain.weights);
        free(runs[0].weights);
        free(runs[1].weights);
    }
    zn_model_destroy(model);
    zn_json_destroy(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(fast_math_repeats_itself)};
    setenv("ZINC_STANDIN_LAG", "9", 0);
    job_backend = &on_cuda;
    if (on_cuda.open(&job_opened) != ZN_OK || zn_cuda_use_fast_math(job_opened) != ZN_OK) {
        fprintf(stderr, "%s\n", zn_error_message());
        return 1;
    }
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = bark}, NULL);
    int failures = cmocka_run_group_tests(tests, NULL, NULL);
    on_cuda.close(job_opened);
    return failures;
}
