#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* Words of others in the server's own sentences: names of files, variables, types and packages, messages of
 * pip, lines of code. Whoever chose them may have chosen one that ends the part, the line or the sentence in
 * which it stands, or that reads as a sentence of the server's. Every such word goes through here.
 *
 * A plain word is shown as it is. Any other is shown between double quotes, and in it a character that nobody
 * can see, that moves or reorders text, or that has a meaning in a status line ('"', '\', '|', and brackets,
 * but for those of a word in which they are paired and nothing else needs it) is written as in a Python string: \n, \x7c, \u202e, \U000e0041, and \udcff for a byte
 * that is no UTF-8, as os.fsdecode() has it. So quotes and brackets always come in pairs, and the bars are the
 * server's. */

enum {
    WORD_BYTES = 400,     /* the longest word that is shown whole, with its quotes */
    WORD_PHRASE = 700,    /* the same of a sentence */
    WORD_ESCAPE_MOST = 10 /* bytes that one character takes at most: \U000e0041 */
};

/* Whether the code point is one that nobody sees or that does something to its surroundings: a control,
 * format, tag, surrogate or private one, one of the planes that hold no characters, a variation selector, any space
 * but U+0020. */
bool word_is_unseen(uint32_t code);

/* Whether the word is shown as it is: it has at most two blanks, and nothing that separates words, parts or
 * sentences in what the server says. */
bool word_is_plain(const char *bytes, size_t size);

/* Writes a word to out, which has room bytes (at least 16), and a NUL. What is too long is cut, and "..."
 * stands behind its quotes. Returns out. */
const char *word_show(const char *bytes, size_t size, char *out, size_t room);

/* The same, with quotes around plain words too: for sentences and lines of others. */
const char *word_quote(const char *bytes, size_t size, char *out, size_t room);

/* A line that is the server's but may hold the words of others, for a log or a terminal: no quotes, only the
 * unseen characters are written as above. */
const char *word_line(const char *text, char *out, size_t room);

/* Appends word_show() with WORD_BYTES, and word_quote() with WORD_PHRASE. 0 or -ENOMEM. */
int word_append(struct buf *buf, const char *bytes, size_t size);
/* The same for a word that stands behind a blank of the server's: quoted where it begins as an entry of a list. */
int word_append_next(struct buf *buf, const char *bytes, size_t size);
int word_append_quoted(struct buf *buf, const char *bytes, size_t size);
