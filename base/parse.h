#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A run of bytes that has another owner. */
struct span {
    const char *bytes;
    size_t size;
};

/* Strict number parsing: the whole text must match, no sign, no white space, no overflow.
 * All but the last five return 0 or -EINVAL / -ERANGE and write the output only on success. */

/* The decimal digits at the front of text; *ret_rest is what follows them. */
int parse_digits(const char *text, uint64_t *ret_value, const char **ret_rest);

/* Decimal digits only. */
int parse_u64(const char *text, uint64_t *ret_value);

/* Decimal digits and an optional unit: K M G T, each also as KB, KiB, …; all are powers of 1024. */
int parse_size(const char *text, uint64_t *ret_bytes);

/* Seconds with up to three decimals ("1.5") and an optional "s". */
int parse_seconds(const char *text, uint64_t *ret_ms);

/* A decimal fraction with up to three digits ("1.5"), in thousandths. */
int parse_milli(const char *text, uint64_t *ret_milli);

/* ASCII alone: ctype(3) depends on the locale, and is not defined for bytes of UTF-8. */
static inline bool parse_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static inline char parse_lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static inline bool parse_is_alnum(char c)
{
    return parse_is_digit(c) || (parse_lower(c) >= 'a' && parse_lower(c) <= 'z');
}

/* The value of a hexadecimal digit of either case, or -1. */
int parse_hex_digit(char c);

/* Decodes percent-encoding (RFC 3986, section 2.1) into out, with a NUL behind it. Returns its
 * size; -1: it is malformed, has a NUL or does not fit. */
ssize_t parse_percent(const char *text, size_t size, char *out, size_t out_size);

/* A line of the table of mounts, proc_pid_mountinfo(5). Points into its text. */
struct parsed_mount {
    const char *device; /* "8:1" */
    const char *root;   /* in the file system */
    const char *point;  /* where it is mounted */
    const char *type;   /* of the file system, and its own options; "": unknown */
    const char *options;
};

/* Takes the next mount of the table's text, which is changed; *at is what follows it. False: there
 * is none. */
bool parse_mount(char **at, struct parsed_mount *ret_mount);

/* Whether text is one of the words, which end with NULL. */
bool parse_is_among(const char *text, const char *const *words);

/* The decimal number behind name at the beginning of a line of text, after blanks; missing where
 * there is none. In the middle of a line, code may have written the name: a process chooses its own
 * in /proc/PID/status, proc(5). */
uint64_t parse_field(const char *text, const char *name, uint64_t missing);
