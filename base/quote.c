#include "base/quote.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "base/word.h"

static const char letters[] = "abtnvfr\"\\";
static const char meanings[] = "\a\b\t\n\v\f\r\"\\";

static bool is_special(unsigned char byte)
{
    return byte < ' ' || byte >= 0x7f || byte == '"' || byte == '\\';
}

/* The bytes of the character at the front of name if it is one beyond ASCII that is shown as it is,
 * else 0. */
static size_t shown_size(const char *name, size_t size)
{
    int n = (unsigned char)*name < 0x80 ? 0 : utf8_size(name, size);
    return n > 0 && !word_is_unseen(utf8_code(name, n)) ? (size_t)n : 0;
}

static bool is_needed(const char *name, size_t size)
{
    for (size_t i = 0; i < size;) {
        size_t shown = shown_size(name + i, size - i);
        if (!shown && is_special((unsigned char)name[i])) {
            return true;
        }
        i += shown ? shown : 1;
    }
    return false;
}

static int append_byte(struct buf *out, unsigned char byte)
{
    const char *known = byte ? strchr(meanings, byte) : NULL;
    if (known) {
        return buf_append(out, (char[]){'\\', letters[known - meanings]}, 2);
    }
    const char octal[] = {'\\', (char)('0' + (byte >> 6)), (char)('0' + (byte >> 3 & 7)),
                          (char)('0' + (byte & 7))};
    return is_special(byte) ? buf_append(out, octal, sizeof octal) : buf_append(out, &byte, 1);
}

int quote_append(struct buf *out, const char *prefix, const char *name, size_t size, bool force)
{
    bool quoted = force || is_needed(name, size);
    int r = buf_append(out, "\"", quoted);
    r = r ? r : buf_append_text(out, prefix);
    if (!quoted) {
        return r ? r : buf_append(out, name, size);
    }
    for (size_t i = 0; r == 0 && i < size;) {
        size_t shown = shown_size(name + i, size - i);
        r = shown ? buf_append(out, name + i, shown) : append_byte(out, (unsigned char)name[i]);
        i += shown ? shown : 1;
    }
    return r ? r : buf_append(out, "\"", 1);
}

/* The byte of the escape behind a backslash; *used: its characters. -1: none. */
static int escaped(const char *text, size_t size, size_t *used)
{
    const char *letter = size > 0 && *text ? strchr(letters, *text) : NULL;
    *used = letter ? 1 : 3;
    if (letter) {
        return (unsigned char)meanings[letter - letters];
    }
    if (size < 3 || text[0] < '0' || text[0] > '3' || text[1] < '0' || text[1] > '7' ||
        text[2] < '0' || text[2] > '7') {
        return -1;
    }
    return (text[0] - '0') << 6 | (text[1] - '0') << 3 | (text[2] - '0');
}

int quote_parse(const char *text, size_t size, struct buf *out)
{
    if (size < 2 || text[0] != '"' || text[size - 1] != '"') {
        return -EINVAL;
    }
    for (size_t i = 1; i < size - 1; i++) {
        int byte = (unsigned char)text[i];
        if (byte == '\\') {
            size_t used = 0;
            byte = escaped(text + i + 1, size - 2 - i, &used);
            i += used;
        } else if (byte == '"') {
            return -EINVAL;
        }
        if (byte <= 0) {
            return -EINVAL;
        }
        int r = buf_append(out, &(char){(char)byte}, 1);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}
