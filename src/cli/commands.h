/* The subcommands, and what they share. Each is one file with one function, which gets its own
 * name as argv[0] and returns the exit code: 0 done, 1 failed, 2 wrong usage. */
#ifndef ZN_CLI_COMMANDS_H
#define ZN_CLI_COMMANDS_H

#include "base/options.h"
#include "base/status.h"

enum { ZN_EXIT_DONE = 0, ZN_EXIT_FAILED = 1, ZN_EXIT_USAGE = 2 };

/* Those of this build: NAME(name, one line for `zinc --help`). */
#define ZN_CLI_COMMANDS(X)                                                                         \
    X(train, "train or fine-tune a model of the hub")                                              \
    X(eval, "loss and perplexity of a model on data")                                              \
    X(generate, "text from a model")                                                               \
    X(tokenize, "text or JSONL to a token file")                                                   \
    X(plan, "where every byte and second of a run goes, before it runs")                           \
    X(bench, "measures, each beside the machine's limit")                                          \
    X(export, "a model as a GGUF file for llama.cpp")                                              \
    X(merge, "a model and its adapter as one hub folder")                                          \
    X(report, "one self-contained HTML page of a run, or of several")                              \
    X(checkpoint, "list, inspect, verify and export checkpoints")                                  \
    X(doctor, "what this machine has, and what each backend found")                                \
    X(help, "what commands do, their manual pages, and completion for shells")                     \
    X(version, "the version, and what this build has")

/* "train eval … " */
#define ZN_CLI_COMMAND_NAME(name, summary) #name " "
#define ZN_CLI_COMMAND_NAMES ZN_CLI_COMMANDS(ZN_CLI_COMMAND_NAME)

#define ZN_CLI_DECLARE(name, summary) int zn_cli_##name(int argc, char **argv);
ZN_CLI_COMMANDS(ZN_CLI_DECLARE)
#undef ZN_CLI_DECLARE

/* All of them, in this order; the last one has no name. */
struct cli_entry {
    const char *name, *summary;
    int (*run)(int argc, char **argv);
};
extern const struct cli_entry zn_cli_table[];

/* Runs the command that argv[0] names; where there is none, says so with the nearest. */
int zn_cli_run(int argc, char **argv);

/* The commands, one a line. */
void zn_cli_print_commands(FILE *out);

/* Reads the command line into `target`, a zeroed struct. Returns -1 to go on; else the exit code,
 * with the help or the mistake printed. The caller calls zn_options_fini in both cases. */
int zn_cli_begin(const struct zn_command *command, int argc, char **argv, void *target,
                 struct zn_options *options);

/* What a flag of another tool is called in the command; NULL: it has none like it. */
const char *zn_cli_hint(const struct zn_command *command, const char *unknown);

/* Where *model is a name on the hub: makes it the snapshot in the local cache and says so on standard error. The caller frees
 * *kept, also after a failure. */
zn_status zn_cli_find_model(const struct zn_command *command, const char **model, char **kept);

/* The command line as one could type it; that of the process that started this one where -n did. The caller frees it. */
zn_status zn_cli_command_line(int argc, char **argv, char **line);

/* In the environment of ranks that -n has started: that line. */
#define ZN_CLI_COMMAND_LINE "ZINC_COMMAND_LINE"

/* The exit code of a command that ends so. */
int zn_cli_code(zn_status status);

/* Prints "zinc train: message" when `status` is a failure, and returns the exit code. */
int zn_cli_end(const struct zn_command *command, zn_status status);

#endif
