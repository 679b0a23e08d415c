/* How every subcommand begins and ends. */
#include "cli/commands.h"

#include "formats/hub_cache.h"

int zn_cli_begin(const struct zn_command *command, int argc, char **argv, void *target,
                 struct zn_options *options)
{
    zn_status status = zn_options_parse(command, argc, argv, target, options);
    if (status != ZN_OK)
        return zn_cli_end(command, status);
    if (!options->help)
        return -1;
    zn_options_help(command, stdout);
    return fflush(stdout) == 0 ? ZN_EXIT_DONE : ZN_EXIT_FAILED;
}

zn_status zn_cli_find_model(const struct zn_command *command, const char **model, char **kept)
{
    *kept = NULL;
    ZN_TRY(zn_hub_cache_find(*model, kept));
    if (!*kept)
        return ZN_OK;
    fprintf(stderr, "%s: %s is %s\n", command->name, *model, *kept);
    *model = *kept;
    return ZN_OK;
}

int zn_cli_code(zn_status status)
{
    return status == ZN_OK ? ZN_EXIT_DONE : status == ZN_ERR_USAGE ? ZN_EXIT_USAGE : ZN_EXIT_FAILED;
}

int zn_cli_end(const struct zn_command *command, zn_status status)
{
    if (status != ZN_OK)
        fprintf(stderr, "%s: %s\n", command->name, zn_error_message());
    return zn_cli_code(status);
}
