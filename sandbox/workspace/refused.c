#include "sandbox/workspace/refused.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

#include "base/path.h"
#include "base/utf8.h"
#include "base/word.h"
#include "sandbox/workspace/names.h"

/* Writes the first component of path as a file system that ignores case compares it: without
 * characters that it ignores, and with the two letters outside ASCII that become letters of ASCII
 * (Unicode, CaseFolding.txt). strcasecmp(3) does the rest. Windows, whose directories can be
 * mounted too, opens ".git", ".git. " and ".git:x" by one name ("Naming Files, Paths, and
 * Namespaces" of its documentation). */
static void fold(const char *path, char out[NAME_MAX + 1])
{
    size_t size = strcspn(path, "/");
    size_t used = 0;
    for (size_t at = 0; at < size && used < NAME_MAX;) {
        int length = utf8_size(path + at, size - at);
        uint32_t code = length > 0 ? utf8_code(path + at, length) : 0;
        if (code == 0x017f || code == 0x212a) {
            out[used++] = code == 0x017f ? 's' : 'k';
        } else if (code < 0x80 || !word_is_unseen(code)) {
            out[used++] = path[at];
            length = 1;
        }
        at += (size_t)(length > 0 ? length : 1);
    }
    out[used] = '\0';
    out[strcspn(out, ":")] = '\0';
    for (size_t end = strlen(out); end > 0 && strchr(" .", out[end - 1]); end--) {
        out[end - 1] = '\0';
    }
}

/* Windows' other name for a long one, or one that begins with a dot: "GIT~1", "PRE-CO~1.YAM". Which
 * it is for depends on what else is in the directory. */
static bool is_short_name(const char *name)
{
    enum { BASE = 8, SUFFIX = 4 };
    size_t base = strcspn(name, ".");
    size_t before = strcspn(name, "~");
    return before > 0 && before + 1 < base && base <= BASE && strlen(name + base) <= SUFFIX &&
           before + 1 + strspn(name + before + 1, "0123456789") == base;
}

/* Whether a folded name is the first part of a row, in which a star stands for anything. */
static bool is_like(const char *name, const char *row, size_t size)
{
    const char *star = memchr(row, '*', size);
    size_t length = strlen(name);
    size_t before = star ? (size_t)(star - row) : size;
    size_t after = star ? size - before - 1 : 0;
    return (star ? length >= before + after : length == size) &&
           strncasecmp(name, row, before) == 0 &&
           strncasecmp(name + length - after, row + size - after, after) == 0;
}

/* The bytes of path that are the row; 0: it begins with something else. first: the path's first
 * component, folded: once for all rows, because code chooses how long it is. */
static size_t match(const char *path, const char *first, const char *row)
{
    char name[NAME_MAX + 1];
    const char *at = path;
    for (const char *folded = first;; folded = name) {
        size_t size = strcspn(row, "/");
        if (!is_like(folded, row, size)) {
            return 0;
        }
        at += strcspn(at, "/");
        if (!row[size]) {
            return (size_t)(at - path);
        }
        row += size + 1;
        at += *at == '/';
        fold(at, name);
    }
}

bool refused_is_in(const char *path, const char *parent)
{
    return !*parent || path_behind(path, parent);
}

/* Whether one of the named paths, which has the changed one in it, names the row: the first size
 * bytes of path. */
static bool is_named(const char *path, size_t size, bool is_whole, const char *const *named,
                     size_t named_count)
{
    for (size_t i = 0; i < named_count; i++) {
        size_t length = strlen(named[i]);
        if (refused_is_in(path, named[i]) && (is_whole ? length == size : length >= size)) {
            return true;
        }
    }
    return false;
}

/* The row that begins at this component of the path. */
static const char *find_row(const char *at, bool is_top, unsigned flags, size_t *ret_size)
{
    char name[NAME_MAX + 1];
    fold(at, name);
    const char *any = NULL;
    for (unsigned i = 0; (any = protected_name(i)); i++) {
        *ret_size = match(at, name, any);
        if (*ret_size > 0) {
            return any;
        }
    }
    for (const char *const *row = protected_bare; (flags & REFUSED_BARE) && *row; row++) {
        *ret_size = match(at, name, *row);
        if (*ret_size > 0) {
            return *row;
        }
    }
    *ret_size = strcspn(at, "/");
    return is_short_name(name)                              ? "~1"
           : is_top && (flags & REFUSED_HOME) && *at == '.' ? "dot files"
                                                            : NULL;
}

static bool find_rule(const struct refused_rules *rules, const char *path, bool is_bare,
                      const char *const *named, size_t named_count, struct refused *ret)
{
    unsigned flags = rules->flags | (is_bare ? REFUSED_BARE : 0);
    for (const char *at = path; *at; at += *at == '/') {
        size_t size = 0;
        const char *row = find_row(at, at == path, flags, &size);
        size_t end = (size_t)(at - path) + size;
        bool is_git = row && strcmp(row, PROTECTED_GIT) == 0;
        if (row && !is_named(path, end, is_git, named, named_count)) {
            *ret = (struct refused){row, end};
            return true;
        }
        if (is_git) { /* all of it is open */
            break;
        }
        at += strcspn(at, "/");
    }
    return false;
}

bool refused_find(const struct refused_rules *rules, const char *path, bool is_bare,
                  const char *const *named, size_t named_count, struct refused *ret)
{
    const char *targets = buf_bytes(&rules->targets);
    bool is_refused = find_rule(rules, path, is_bare, named, named_count, ret);
    for (size_t at = 0; !is_refused && at < buf_size(&rules->targets);) {
        size_t length = strlen(targets + at);
        if (refused_is_in(path, targets + at) &&
            !is_named(path, length, /* is_whole= */ false, named, named_count)) {
            *ret = (struct refused){"target", length};
            is_refused = true;
        }
        at += length + 1;
    }
    return is_refused;
}

void refused_rules_done(struct refused_rules *rules)
{
    buf_done(&rules->targets);
}
