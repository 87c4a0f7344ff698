#include "sandbox/programs/keeper/patch.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "base/utf8.h"
#include "base/word.h"
#include "sandbox/programs/keeper/diff.h"

enum {
    CONTEXT = 3,
    BINARY_BYTES = 8000, /* git's buffer_is_binary() searches as many for a NUL */
};

static const struct patch_file none = {.bytes = ""};

/* What git knows of a mode; 0: nothing, as of a directory or a device. */
static unsigned git_mode(uint32_t mode)
{
    return S_ISLNK(mode) ? 0120000 : !S_ISREG(mode) ? 0 : mode & S_IXUSR ? 0100755 : 0100644;
}

/* Whether the first component of path is this name, as NTFS spells it too. */
static bool begins_with(const char *path, const char *name)
{
    size_t size = strlen(name);
    if (strncasecmp(path, name, size) != 0) {
        return false;
    }
    const char *end = path + size + strspn(path + size, " .");
    return !*end || strchr("/\\:", *end);
}

/* Whether git apply refuses a patch with this name, and with it the whole patch: verify_path() in
 * git's read-cache.c. */
static bool git_refuses(const char *path)
{
    for (const char *at = path; at; at = strpbrk(at, "/\\")) {
        at += at > path;
        if (begins_with(at, ".git") || begins_with(at, "git~1")) {
            return true;
        }
    }
    return false;
}

static bool is_read(const struct patch_file *file)
{
    return file->bytes && file->size <= PATCH_FILE_BYTES;
}

static bool is_binary(const struct patch_file *file)
{
    size_t size = file->size < BINARY_BYTES ? (size_t)file->size : BINARY_BYTES;
    return S_ISREG(file->mode) && is_read(file) && memchr(file->bytes, '\0', size);
}

static bool is_same(const struct patch_file *old, const struct patch_file *new)
{
    return is_read(old) && is_read(new) && old->size == new->size &&
           (old->size == 0 || memcmp(old->bytes, new->bytes, (size_t)old->size) == 0);
}

/* --- what a reader does not see --- */

/* Spaces, and what makes a picture of the character before it, are ordinary in texts. */
static bool is_ordinary(uint32_t code)
{
    return code == '\t' || code == '\n' || code == '\f' || code == 0xa0 || code == 0x1680 ||
           (code >= 0x2000 && code <= 0x200a) || code == 0x202f || code == 0x205f ||
           code == 0x3000 || code == 0xfe0f;
}

static bool has_invisible(const char *text, size_t size, bool is_start)
{
    enum { BYTE_ORDER_MARK = 0xfeff };
    for (size_t at = 0; at < size;) {
        int length = utf8_size(text + at, size - at);
        uint32_t code = length > 0 ? utf8_code(text + at, length) : 'x';
        bool ends_line = code == '\r' && at + 1 < size && text[at + 1] == '\n';
        bool marks = is_start && at == 0 && code == BYTE_ORDER_MARK;
        if (word_is_unseen(code) && !is_ordinary(code) && !ends_line && !marks) {
            return true;
        }
        at += length > 0 ? (size_t)length : 1;
    }
    return false;
}

static bool adds_invisible(const struct diff *diff, struct diff_text new)
{
    for (size_t i = 0; i < diff->count; i++) {
        const struct diff_edit *edit = diff_edit(diff, i);
        if (has_invisible(new.bytes + edit->new_at, edit->new_size, edit->new_at == 0)) {
            return true;
        }
    }
    return false;
}

/* --- comments --- */

static const char *size_text(uint64_t bytes, char out[24])
{
    static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB"};
    unsigned unit = 0;
    uint64_t tenths = bytes < UINT64_MAX / 10 ? bytes * 10 : bytes;
    while (tenths >= 10000 && unit < 4) {
        tenths /= 1000;
        unit++;
    }
    (void)snprintf(out, 24, "%llu %s", (unsigned long long)tenths / 10, units[unit]);
    return out;
}

/* "# out.png: binary, 18 kB, not in this patch": git apply skips lines between files. */
static int comment(const char *path, const struct patch_file *old, const struct patch_file *new,
                   struct buf *out)
{
    char size[24];
    const struct patch_file *file = new->mode ? new : old;
    bool odd = (old->mode && !git_mode(old->mode)) || (new->mode && !git_mode(new->mode));
    const char *kind = odd                              ? "no regular file"
                       : !is_read(old) || !is_read(new) ? "too large for a diff"
                       : git_refuses(path)              ? "git applies no such name"
                                                        : "binary";
    (void)buf_append_text(out, "# ");
    (void)quote_append(out, "", path, strlen(path), /* force= */ false);
    return buf_appendf(out, ": %s, %s, not in this patch\n", kind,
                       new->mode ? size_text(file->size, size) : "deleted");
}

/* --- hunks --- */

/* A place between two lines of a text. */
struct place {
    size_t at;
    size_t line;
};

static struct place back(const char *bytes, struct place place, size_t least)
{
    for (unsigned i = 0; i < CONTEXT && place.at > least; i++) {
        const char *end = memrchr(bytes, '\n', place.at - 1);
        place.at = end && (size_t)(end - bytes) + 1 > least ? (size_t)(end - bytes) + 1 : least;
        place.line--;
    }
    return place;
}

static struct place ahead(const char *bytes, struct place place, size_t most)
{
    for (unsigned i = 0; i < CONTEXT && place.at < most; i++) {
        const char *end = memchr(bytes + place.at, '\n', most - place.at);
        place.at = end ? (size_t)(end - bytes) + 1 : most;
        place.line++;
    }
    return place;
}

static void append_lines(struct buf *out, char sign, const char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        size_t length = end ? (size_t)(end - bytes) + 1 - at : size - at;
        (void)buf_append(out, &sign, 1);
        (void)buf_append(out, bytes + at, length);
        (void)buf_append_text(out, end ? "" : "\n\\ No newline at end of file\n");
        at += length;
    }
}

static void append_range(struct buf *out, const char *sign, size_t line, size_t lines)
{
    (void)buf_appendf(out, "%s%zu", sign, lines ? line + 1 : line);
    if (lines != 1) {
        (void)buf_appendf(out, ",%zu", lines);
    }
}

/* Appends the hunk of the edits from first to last. */
static void append_hunk(struct buf *out, const struct diff *diff, size_t first, size_t last,
                        struct diff_text old, struct diff_text new)
{
    const struct diff_edit *edit = diff_edit(diff, first);
    const struct diff_edit *end = diff_edit(diff, last);
    struct place from = back(old.bytes, (struct place){edit->old_at, edit->old_line}, 0);
    struct place old_end = {end->old_at + end->old_size, end->old_line + end->old_lines};
    struct place to = ahead(old.bytes, old_end, old.size);
    size_t new_line = edit->new_line - (edit->old_line - from.line);
    size_t new_end = end->new_line + end->new_lines + (to.line - old_end.line);
    append_range(out, "@@ -", from.line, to.line - from.line);
    append_range(out, " +", new_line, new_end - new_line);
    (void)buf_append_text(out, " @@\n");
    size_t at = from.at;
    for (size_t i = first; i <= last; i++) {
        edit = diff_edit(diff, i);
        append_lines(out, ' ', old.bytes + at, edit->old_at - at);
        append_lines(out, '-', old.bytes + edit->old_at, edit->old_size);
        append_lines(out, '+', new.bytes + edit->new_at, edit->new_size);
        at = edit->old_at + edit->old_size;
    }
    append_lines(out, ' ', old.bytes + at, to.at - at);
}

static void append_hunks(struct buf *out, const struct diff *diff, struct diff_text old,
                         struct diff_text new)
{
    for (size_t first = 0; first < diff->count;) {
        size_t last = first;
        while (last + 1 < diff->count && diff_edit(diff, last + 1)->old_line -
                                                 diff_edit(diff, last)->old_line -
                                                 diff_edit(diff, last)->old_lines <=
                                             2UL * CONTEXT) {
            last++;
        }
        append_hunk(out, diff, first, last, old, new);
        first = last + 1;
    }
}

/* --- headers --- */

static void append_name(struct buf *out, const char *before, const char *prefix, const char *path,
                        const char *after)
{
    (void)buf_append_text(out, before);
    if (prefix) {
        (void)quote_append(out, prefix, path, strlen(path), /* force= */ false);
    } else {
        (void)buf_append_text(out, "/dev/null");
    }
    (void)buf_append_text(out, after);
}

static void append_header(struct buf *out, const char *path, unsigned old_mode, unsigned new_mode)
{
    append_name(out, "diff --git ", "a/", path, " ");
    append_name(out, "", "b/", path, "\n");
    if (!old_mode) {
        (void)buf_appendf(out, "new file mode %06o\n", new_mode);
    } else if (!new_mode) {
        (void)buf_appendf(out, "deleted file mode %06o\n", old_mode);
    } else if (old_mode != new_mode) {
        (void)buf_appendf(out, "old mode %06o\nnew mode %06o\n", old_mode, new_mode);
    }
}

/* A file of one type on both sides, or on one. */
static int write_change(const char *path, const struct patch_file *old,
                        const struct patch_file *new, uint64_t *work, struct buf *out,
                        struct patch_counts *counts)
{
    struct diff_text old_text = {old->bytes, (size_t)old->size};
    struct diff_text new_text = {new->bytes, (size_t) new->size};
    OWNED(diff_done) struct diff diff = {};
    int r = 0;
    if (!is_same(old, new)) {
        r = diff_lines(old_text, new_text, work, &diff);
        counts->added += (uint32_t)diff.added;
        counts->removed += (uint32_t)diff.removed;
        counts->invisible = counts->invisible || adds_invisible(&diff, new_text);
    }
    if (r < 0 || !out) {
        return r;
    }
    /* A tab ends a name with a blank, as git writes it. */
    const char *end = strchr(path, ' ') ? "\t\n" : "\n";
    append_header(out, path, git_mode(old->mode), git_mode(new->mode));
    if (diff.count > 0) {
        append_name(out, "--- ", old->mode ? "a/" : NULL, path, old->mode ? end : "\n");
        append_name(out, "+++ ", new->mode ? "b/" : NULL, path, new->mode ? end : "\n");
        append_hunks(out, &diff, old_text, new_text);
    }
    return buf_error(out);
}

int patch_write(const char *path, const struct patch_file *old, const struct patch_file *new,
                uint64_t *work, struct buf *out, struct patch_counts *ret)
{
    /* Git knows no directories: they are what is in them. */
    old = S_ISDIR(old->mode) || !old->mode ? &none : old;
    new = S_ISDIR(new->mode) || !new->mode ? &none : new;
    unsigned old_mode = git_mode(old->mode);
    unsigned new_mode = git_mode(new->mode);
    bool same = is_same(old, new);
    *ret = (struct patch_counts){};
    if ((!old->mode && !new->mode) || (old_mode && old_mode == new_mode && same)) {
        return 0;
    }
    bool odd = (old->mode && !old_mode) || (new->mode && !new_mode);
    bool only_mode = S_ISREG(old->mode) && S_ISREG(new->mode) && same;
    if (odd || !is_read(old) || !is_read(new) ||
        (!only_mode && (is_binary(old) || is_binary(new)))) {
        *ret = (struct patch_counts){.added = UINT32_MAX, .removed = UINT32_MAX};
        return out ? comment(path, old, new, out) : 0;
    }
    if (out && git_refuses(path)) {
        int r = write_change(path, old, new, work, NULL, ret);
        return r ? r : comment(path, old, new, out);
    }
    if (old_mode && new_mode && S_ISLNK(old->mode) != S_ISLNK(new->mode)) {
        int r = write_change(path, old, &none, work, out, ret);
        return r ? r : write_change(path, &none, new, work, out, ret);
    }
    return write_change(path, old, new, work, out, ret);
}
