#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Whether a byte goes on with a character. */
static inline bool utf8_is_inner(char byte)
{
    return ((unsigned char)byte & 0xC0U) == 0x80U;
}

/* Size of the UTF-8 character at the front of text, which has left bytes, at least one; or minus
 * the number of bytes that belong to a broken one (Unicode 15, section 3.9, table 3-7). */
int utf8_size(const char *text, size_t left);

/* The code point of a whole character of that size. */
uint32_t utf8_code(const char *text, int size);

/* Whether the text is whole UTF-8 characters. */
bool utf8_is_whole(const char *text, size_t size);

/* Writes a code point, up to 4 bytes, at at. Returns where they end. */
char *utf8_put(char *at, uint32_t code);

/* Names of files from macOS have their characters decomposed (Unicode's form NFD), and models and
 * keyboards write them composed (NFC). */

/* Whether two names are the same but for that. Marks in another order make them different. */
bool normal_same(const char *a, const char *b);

enum { NORMAL_BYTES = 16 };

/* The decomposed form of the whole character of that size at the front of text. Returns its size:
 * that of the character itself where it has no other. */
size_t normal_decompose(const char *text, int size, char out[NORMAL_BYTES]);

/* Written by build-aux/decompositions.py. */
struct decomposition {
    uint32_t code;
    uint32_t parts[4]; /* 0 after the last */
};
extern const struct decomposition decompositions[];
extern const size_t decompositions_count;

/* Words of others in the server's own sentences: names of files, variables, types and packages,
 * messages of pip, lines of code. Whoever chose them may have chosen one that ends the part, the
 * line or the sentence in which it is, or that reads as a sentence of the server's. Every such word
 * passes through here.
 *
 * A plain word is shown as it is. Any other is shown between double quotes, and in it a character
 * that is invisible, that moves or reorders text, or that has a meaning in a status line ('"',
 * '\', '|', and brackets, but for those of a word in which they are paired and nothing else needs
 * quotes) is written as in a Python string: \n, \x7c, \u202e, \U000e0041, and \udcff for a byte
 * that is not UTF-8, as os.fsdecode() has it. So quotes and brackets always come in pairs, and all
 * bars are the server's. */

enum {
    WORD_BYTES = 400,     /* the longest word that is shown whole, with its quotes */
    WORD_PHRASE = 700,    /* the same for a sentence */
    WORD_ESCAPE_MOST = 10 /* most bytes that one character takes: \U000e0041 */
};

/* Whether the code point is invisible or affects the characters next to it: a control, format, tag,
 * surrogate or private one, one of the planes that hold no characters, a variation selector, any
 * space but U+0020. */
bool word_is_unseen(uint32_t code);

/* Whether the word is shown as it is: it has at most two blanks, and nothing that separates words,
 * parts or sentences in the server's text. */
bool word_is_plain(const char *bytes, size_t size);

/* Writes a word to out, which has space bytes (at least 16), and a NUL. Cuts what is too long, and
 * adds "..." after the quotes. Returns out. */
const char *word_show(const char *bytes, size_t size, char *out, size_t space);

/* The same with quotes around plain words too, for sentences and lines of others. */
const char *word_quote(const char *bytes, size_t size, char *out, size_t space);

/* A line of the server's that may hold the words of others, for a log or a terminal: adds no
 * quotes, and escapes only the invisible characters. */
const char *word_line(const char *text, char *out, size_t space);

/* Appends word_show() with WORD_BYTES, and word_quote() with WORD_PHRASE. 0 or -ENOMEM. */
int word_append(struct buf *buf, const char *bytes, size_t size);
/* The same for a word after a blank of the server's: quotes one that begins as an entry of a
 * list. */
int word_append_next(struct buf *buf, const char *bytes, size_t size);
int word_append_quoted(struct buf *buf, const char *bytes, size_t size);
/* Appends one character, or a byte that is not UTF-8, as word_line() writes it. */
int word_append_visible(struct buf *buf, const char *bytes, size_t size);

/* A list as it grows: "a, b and 3 more". */
struct word_list {
    struct buf *out;
    const char *before; /* in front of the first item */
    size_t most;        /* that are shown */
    size_t shown;
    size_t count;
};

/* Counts one more item. Returns whether its caller is to append it, behind what stands before it.
 */
bool word_list_next(struct word_list *list);

/* Appends how many items are not shown. */
void word_list_end(const struct word_list *list);

/* File names as git writes them without core.quotePath (quote.c in git): a name with a control
 * character, '"' or '\' stands between double quotes, with escapes of C, and other bytes in three
 * octal digits. So does here one with an invisible character, or a byte that is not UTF-8. */

/* Appends prefix and name, as one word, quoted if needed or forced. 0 or -ENOMEM. */
int quote_append(struct buf *out, const char *prefix, const char *name, size_t size, bool force);

/* Appends the bytes that a quoted name stands for. 0, -ENOMEM, or -EINVAL: text is not one quoted
 * name, or there is a NUL in it; out may then have a part of it. */
int quote_parse(const char *text, size_t size, struct buf *out);
