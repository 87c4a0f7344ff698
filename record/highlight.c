#include <stdbool.h>
#include <string.h>

#include "base/buf.h"
#include "record/escape.h"

static const char keywords[] =
    " False None True and as assert async await break case class continue def del elif else except "
    "finally for from global if import in is lambda match nonlocal not or pass raise return try "
    "while with yield ";

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (unsigned char)c >= 0x80;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_keyword(const char *word, size_t size)
{
    const char *at = size < 9 ? memmem(keywords, sizeof keywords - 1, word, size) : NULL;
    return at && at[-1] == ' ' && at[size] == ' ';
}

/* Size of the string at the front, which begins with a quote. One that does not end takes its
 * line, or, in triple quotes, all. */
static size_t string_size(const char *code, size_t size)
{
    char quote = code[0];
    bool triple = size >= 3 && code[1] == quote && code[2] == quote;
    size_t at = triple ? 3 : 1;
    while (at < size) {
        if (code[at] == '\\') {
            at += 2;
        } else if (code[at] == '\n' && !triple) {
            return at;
        } else if (code[at] == quote && !triple) {
            return at + 1;
        } else if (code[at] == quote && size - at >= 3 && code[at + 1] == quote &&
                   code[at + 2] == quote) {
            return at + 3;
        } else {
            at++;
        }
    }
    return size;
}

static size_t word_size(const char *code, size_t size)
{
    size_t at = 0;
    while (at < size && (is_letter(code[at]) || is_digit(code[at]))) {
        at++;
    }
    return at;
}

void record_highlight(struct buf *out, const char *code, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *from = code + at;
        size_t left = size - at;
        size_t piece = 1;
        char class = '\0';
        if (*from == '#') {
            const char *end = memchr(from, '\n', left);
            piece = end ? (size_t)(end - from) : left;
            class = 'c';
        } else if (*from == '"' || *from == '\'') {
            piece = string_size(from, left);
            class = 's';
        } else if (is_digit(*from)) {
            piece = word_size(from, left);
            class = 'n';
        } else if (is_letter(*from)) {
            piece = word_size(from, left);
            class = is_keyword(from, piece) ? 'k' : '\0';
        } else {
            while (piece < left && !is_letter(from[piece]) && !is_digit(from[piece]) &&
                   !strchr("#\"'", from[piece])) {
                piece++;
            }
        }
        if (class) {
            buf_appendf(out, "<span class=\"%c\">", class);
        }
        record_escape_html(out, from, piece);
        if (class) {
            buf_append_text(out, "</span>");
        }
        at += piece;
    }
}
