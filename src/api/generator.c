/* Generators by options, on the ranks of a context. */
#include "api/handles.h"
#include "infer/open.h"

static void release(void *kept)
{
    zn_options_destroy(kept);
}

zn_status zn_generator_open(zn_context *context, const zn_options *options, const struct zn_generate_listener *listener,
                            zn_generator **generator)
{
    zn_options *copy;
    if (options->which != ZN_FOR_GENERATE)
        return zn_fail(ZN_ERR_USAGE, "a generator takes the options of generate");
    ZN_TRY(options_copy(options, &copy));
    struct zn_generate_options o = {.settings = copy->settings};
    if (listener)
        o.listener = *listener;
    zn_status status = zn_generator_create_as_rank(&o, context->comm, generator);
    if (status != ZN_OK)
        zn_options_destroy(copy);
    else
        zn_generator_keep(*generator, copy, release);
    return status;
}
