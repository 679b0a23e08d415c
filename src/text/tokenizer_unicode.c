/* A fast way through texts that are mostly ASCII; categories from utf8proc. */
#include "text/tokenizer_unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "text/utf8.h"

size_t utf8_put(char *out, uint32_t character)
{
    return (size_t)utf8proc_encode_char((utf8proc_int32_t)character, (utf8proc_uint8_t *)out);
}

static const struct recent_range *find_recent(uint32_t character)
{
    size_t low = 0, high = unicode_n_recent;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (character > unicode_recent[middle].last)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < unicode_n_recent && character >= unicode_recent[low].first;
    return found ? &unicode_recent[low] : NULL;
}

/* The large scripts have no recent characters. */
static bool is_recent(uint32_t character)
{
    if (character < 0x897 || (character >= 0x3200 && character < 0xa7cb))
        return false;
    return find_recent(character) != NULL;
}

size_t utf8_valid(const char *text, size_t n_bytes, size_t *skip, bool *recent)
{
    const unsigned char *c = (const unsigned char *)text;
    size_t i = 0;
    *skip = 0;
    while (i < n_bytes) {
        uint64_t eight;
        while (n_bytes - i >= 8) {
            memcpy(&eight, c + i, 8);
            if (eight & 0x8080808080808080u)
                break;
            i += 8;
        }
        if (i == n_bytes)
            break;
        if (c[i] < 0x80) {
            i++;
            continue;
        }
        size_t length = utf8_length(text + i, n_bytes - i, skip);
        if (length == 0)
            return i;
        if (length > 2 && is_recent(utf8_at(text + i, &length)))
            *recent = true;
        i += length;
    }
    *skip = 0;
    return i;
}

bool char_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

/* The first letter of the category. */
static char major_category(uint32_t c)
{
    const struct recent_range *recent = find_recent(c);
    return recent ? recent->category[0] : utf8proc_category_string((utf8proc_int32_t)c)[0];
}

bool char_is_numeric(uint32_t c)
{
    if (c < 0x80)
        return c >= '0' && c <= '9';
    /* Two ranges of Unicode 17. */
    return major_category(c) == 'N' || (c >= 0x11de0 && c <= 0x11de9) || (c >= 0x16ff4 && c <= 0x16ff6);
}

bool char_is_punctuation(uint32_t c)
{
    /* Category P since Unicode 9; the two that left it are below. */
    static const uint32_t later[][2] = {
        {0x61d, 0x61d},     {0x9fd, 0x9fd},     {0xa76, 0xa76},     {0xc77, 0xc77},
        {0xc84, 0xc84},     {0x1b7d, 0x1b7e},   {0x2e43, 0x2e4f},   {0x2e52, 0x2e5d},
        {0x10ead, 0x10ead}, {0x10f55, 0x10f59}, {0x10f86, 0x10f89}, {0x1144b, 0x1144f},
        {0x1145a, 0x1145b}, {0x1145d, 0x1145d}, {0x11660, 0x1166c}, {0x116b9, 0x116b9},
        {0x1183b, 0x1183b}, {0x11944, 0x11946}, {0x119e2, 0x119e2}, {0x11a3f, 0x11a46},
        {0x11a9a, 0x11a9c}, {0x11a9e, 0x11aa2}, {0x11b00, 0x11b09}, {0x11c41, 0x11c45},
        {0x11c70, 0x11c71}, {0x11ef7, 0x11ef8}, {0x11f43, 0x11f4f}, {0x11fff, 0x11fff},
        {0x12ff1, 0x12ff2}, {0x16e97, 0x16e9a}, {0x16fe2, 0x16fe2}, {0x1e95e, 0x1e95f},
    };
    if (c < 0x80)
        return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
               (c >= '{' && c <= '~');
    if (c == 0x166d || c == 0x111c9)
        return true;
    if (find_recent(c) || utf8proc_category_string((utf8proc_int32_t)c)[0] != 'P')
        return false;
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (c >= later[i][0] && c <= later[i][1])
            return false;
    return true;
}

/* Printable Latin-1 stands for itself; the other 68 bytes come in order from U+0100 on. */
uint32_t byte_to_char(unsigned char b)
{
    if (b <= ' ')
        return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0)
        return 0x100u + 33 + (b - 0x7fu);
    return b == 0xad ? 0x143 : b;
}

int char_to_byte(uint32_t c)
{
    if (c >= 0x100 && c <= 0x143) {
        uint32_t i = c - 0x100;
        return (int)(i <= ' ' ? i : i < 67 ? i - 33 + 0x7f : 0xad);
    }
    return (c >= '!' && c <= '~') || (c >= 0xa1 && c <= 0xff && c != 0xad) ? (int)c : -1;
}
