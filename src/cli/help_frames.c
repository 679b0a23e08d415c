/* zinc(1), and the fixed parts of completion. */
#include "cli/help.h"

#include "cli/bench.h"
#include "cli/commands.h"
#include "zinc/status.h"

void help_man(FILE *out)
{
    fprintf(out, ".TH ZINC 1 \"\" \"zinc %s\" \"Zinc manual\"\n.SH NAME\nzinc \\- train language models that are bigger than memory\n",
            zn_version());
    fputs(".SH SYNOPSIS\n.B zinc\n.I COMMAND\n[flags]\n"
          ".SH DESCRIPTION\nZinc trains, evaluates and runs language models of the hub by the methods of ZeRO: model states are "
          "partitioned over ranks, and what does not fit lies in host memory or on NVMe.\n"
          "Every command has a page of its own, and\n.B zinc help\n.I COMMAND\nprints its flags.\n.SH COMMANDS\n", out);
    for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++)
        fprintf(out, ".TP\n.BR zinc\\-%s (1)\n%s\n", entry->name, entry->summary);
    fputs(".SH ENVIRONMENT\n.TP\n.B ZINC_ISA\nForces an instruction set: plain, avx2 or avx512.\n"
          ".TP\n.B ZINC_BIND\noff: processes do not bind themselves to processors.\n"
          ".TP\n.BR HF_HUB_CACHE \", \" HF_HOME\nWhere ORG/NAME as a model is looked for.\n"
          ".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage.\n.SH SEE ALSO\n.BR mpirun (1)\n", out);
}

static void put_benches(FILE *out)
{
    const char *bar = "";
#define ENTRY(name, summary) fprintf(out, "%s'bench " #name "'", bar), bar = " | ";
    ZN_CLI_BENCHES(ENTRY)
#undef ENTRY
}

void help_bash_begin(FILE *out)
{
    fputs("# Completion of zinc for bash; made by `zinc help --format bash`.\n"
          "_zinc()\n{\n"
          "    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]}\n"
          "    local flag= flags= lists= words= kind= is_near= is_equal= first=2 i\n"
          "    COMPREPLY=()\n"
          "    if ((COMP_CWORD == 1)); then\n"
          "        COMPREPLY=($(compgen -W '" ZN_CLI_COMMAND_NAMES "--help --version' -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    if ((COMP_CWORD > 2)); then\n"
          "        case \"$command ${COMP_WORDS[2]}\" in\n"
          "        ", out);
    put_benches(out);
    fputs(") command=\"$command ${COMP_WORDS[2]}\" first=3 ;;\n"
          "        esac\n"
          "    fi\n"
          "    # The last flag, and whether its value stands at the cursor; `=` is a word of its own.\n"
          "    for ((i = first; i < COMP_CWORD; i++)); do\n"
          "        [[ ${COMP_WORDS[i]} == -[!0-9.]* ]] || continue\n"
          "        flag=${COMP_WORDS[i]} is_near=\n"
          "        ((i == COMP_CWORD - 1)) && is_near=1\n"
          "        ((i == COMP_CWORD - 2)) && [[ ${COMP_WORDS[i + 1]} == = ]] && is_near=1 is_equal=1\n"
          "    done\n"
          "    [[ $cur == = ]] && cur= is_equal=1\n"
          "    case $command in\n", out);
}

void help_bash_end(FILE *out)
{
    fputs("    esac\n"
          "    if [[ $cur == -* ]]; then\n"
          "        COMPREPLY=($(compgen -W \"$flags\" -- \"$cur\"))\n"
          "        return\n"
          "    fi\n"
          "    case $kind in\n"
          "    words) COMPREPLY=($(compgen -W \"$words\" -- \"$cur\")) ;;\n"
          "    files) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
          "    folders) mapfile -t COMPREPLY < <(compgen -d -- \"$cur\") ;;\n"
          "    value) ;;\n"
          "    *)\n"
          "        ((COMP_CWORD == first)) || words=\n"
          "        COMPREPLY=($(compgen -W \"$words $flags\" -- \"$cur\"))\n"
          "        ;;\n"
          "    esac\n"
          "}\n"
          "complete -o filenames -F _zinc zinc\n", out);
}

void help_zsh_begin(FILE *out)
{
    fputs("#compdef zinc\n# Completion of zinc for zsh; made by `zinc help --format zsh`.\n"
          "_zinc()\n{\n"
          "    local command=$words[2]\n"
          "    if ((CURRENT == 2)); then\n"
          "        local -a commands\n"
          "        commands=(\n", out);
    for (const struct cli_entry *entry = zn_cli_table; entry->name; entry++) {
        fprintf(out, "            '%s:", entry->name);
        for (const char *p = entry->summary; *p; p++)
            fprintf(out, "%s%c%s", *p == '\'' ? "'\\" : "", *p, *p == '\'' ? "'" : "");
        fputs("'\n", out);
    }
    fputs("        )\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    if ((CURRENT > 3)); then\n"
          "        case \"$words[2] $words[3]\" in\n"
          "        ", out);
    put_benches(out);
    fputs(")\n"
          "            command=\"$words[2] $words[3]\"\n"
          "            shift words\n"
          "            ((CURRENT--))\n"
          "            ;;\n"
          "        esac\n"
          "    fi\n"
          "    shift words\n"
          "    ((CURRENT--))\n"
          "    case $command in\n", out);
}

void help_zsh_end(FILE *out)
{
    fputs("    esac\n}\n_zinc \"$@\"\n", out);
}
