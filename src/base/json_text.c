/* JSON on its way out. */
#include "base/json_text.h"

#include <math.h>
#include <string.h>

void zn_json_put_string(FILE *out, const char *text)
{
    if (text)
        zn_json_put_text(out, text, strlen(text));
    else
        fputs("null", out);
}

void zn_json_put_text(FILE *out, const char *text, size_t n_bytes)
{
    fputc('"', out);
    for (size_t i = 0; i < n_bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", out);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
    fputc('"', out);
}

void zn_json_put_number(FILE *out, double value, int digits)
{
    if (isfinite(value))
        fprintf(out, "%.*g", digits, value);
    else
        fputs("null", out);
}
