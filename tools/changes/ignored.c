#include "tools/changes/ignored.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <wctype.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"

/* The file may be from anywhere, and the code in the sandbox chooses the paths. */
enum { FILE_MOST = 65536, RULES_MOST = 4000, DEPTH_MOST = 200, STEPS_MOST = 100000000 };

struct span {
    const char *at;
    const char *end;
};

struct rule {
    struct span pattern;
    bool negated;
    bool is_directory; /* it matches nothing else */
    bool is_name;      /* it has no slash: matches the last component at any depth */
};

/* The rules of one directory. */
struct level {
    size_t size; /* of the directory's path, in ignored->path */
    char *text;
    struct rule *rules;
    size_t count;
};

struct ignored {
    int fd;
    unsigned steps;              /* that are left */
    char path[LIMIT_PATH_BYTES]; /* the last one */
    size_t found;                /* its bytes that are ignored */
    struct level levels[DEPTH_MOST];
    size_t depth;
    size_t rules; /* of all levels */
};

/* --- patterns --- */

static bool has_class(struct span name, unsigned char c)
{
    char text[8];
    size_t size = (size_t)(name.end - name.at);
    if (size >= sizeof text || c >= 0x80) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%.*s", (int)size, name.at);
    return iswctype(c, wctype(text));
}

/* The bytes of a pattern "[…]", if c is in it, as wildmatch.c of git decides; else 0. */
static size_t bracket(struct span pattern, unsigned char c)
{
    const char *at = pattern.at + 1;
    bool negated = at < pattern.end && (*at == '!' || *at == '^');
    bool is_in = false;
    unsigned char before = 0;
    at += negated;
    for (bool is_first = true; at < pattern.end && (is_first || *at != ']'); is_first = false) {
        const char *colon = pattern.end - at > 2 && at[0] == '[' && at[1] == ':'
                                ? memchr(at + 2, ']', (size_t)(pattern.end - at - 2))
                                : NULL;
        bool is_range = *at == '-' && before && pattern.end - at > 1 && at[1] != ']';
        if (colon && colon[-1] == ':' && colon > at + 2) {
            is_in = is_in || has_class((struct span){at + 2, colon - 1}, c);
            at = colon + 1;
            before = 0;
            continue;
        }
        at += is_range;
        at += *at == '\\';
        if (at >= pattern.end) {
            return 0;
        }
        unsigned char last = (unsigned char)*at++;
        is_in = is_in || (is_range ? before <= c && c <= last : c == last);
        before = is_range ? 0 : last;
    }
    return at < pattern.end && is_in != negated ? (size_t)(at + 1 - pattern.at) : 0;
}

/* The bytes of the pattern's begin that stand for c; 0: it stands for something else. */
static size_t one(struct span pattern, unsigned char c)
{
    const char *at = pattern.at;
    if (at == pattern.end) {
        return 0;
    }
    if (*at == '\\') {
        return pattern.end - at > 1 && (unsigned char)at[1] == c ? 2 : 0;
    }
    return *at == '[' ? bracket(pattern, c) : *at == '?' || (unsigned char)*at == c ? 1 : 0;
}

/* Whether a component is like the pattern of one. */
static bool is_like(struct ignored *ignored, struct span pattern, struct span name)
{
    const char *star = NULL;
    const char *back = NULL;
    while (name.at < name.end && ignored->steps > 0) {
        ignored->steps--;
        size_t used = one(pattern, (unsigned char)*name.at);
        if (pattern.at < pattern.end && *pattern.at == '*') {
            star = ++pattern.at;
            back = name.at;
        } else if (used > 0) {
            pattern.at += used;
            name.at++;
        } else if (star) {
            pattern.at = star;
            name.at = ++back;
        } else {
            return false;
        }
    }
    while (pattern.at < pattern.end && *pattern.at == '*') {
        pattern.at++;
    }
    return pattern.at == pattern.end && name.at == name.end;
}

static struct span first(struct span path)
{
    const char *slash = memchr(path.at, '/', (size_t)(path.end - path.at));
    return (struct span){path.at, slash ? slash : path.end};
}

/* Makes it what is behind the first component; returns whether there is something. */
static bool next(struct span *path)
{
    path->at = first(*path).end;
    bool is = path->at < path->end;
    path->at += is;
    return is;
}

/* The same of whole paths. "**" is any number of components; at the end, at least one. */
static bool is_path_like(struct ignored *ignored, struct span pattern, struct span path)
{
    struct span star = {};
    struct span back = {};
    bool has_pattern = true;
    for (bool has_path = true; has_path;) {
        struct span part = first(pattern);
        if (has_pattern && part.end - part.at == 2 && memcmp(part.at, "**", 2) == 0) {
            has_pattern = next(&pattern);
            if (!has_pattern) {
                return true;
            }
            star = pattern;
            back = path;
        } else if (has_pattern && is_like(ignored, part, first(path))) {
            has_pattern = next(&pattern);
            has_path = next(&path);
        } else if (star.at && next(&back)) {
            has_pattern = true;
            pattern = star;
            path = back;
        } else {
            return false;
        }
    }
    return !has_pattern;
}

/* --- files --- */

static bool take_rule(struct span line, struct rule *ret)
{
    if (line.at < line.end && line.end[-1] == '\r') {
        line.end--;
    }
    while (line.at < line.end && line.end[-1] == ' ' &&
           !(line.end - line.at > 1 && line.end[-2] == '\\')) {
        line.end--;
    }
    bool negated = line.at < line.end && *line.at == '!';
    bool is_comment = line.at < line.end && *line.at == '#';
    line.at += negated;
    bool is_directory = line.at < line.end && line.end[-1] == '/';
    line.end -= is_directory;
    bool is_name = line.at < line.end && !memchr(line.at, '/', (size_t)(line.end - line.at));
    line.at += line.at < line.end && *line.at == '/';
    *ret = (struct rule){line, negated, is_directory, is_name};
    return line.at < line.end && !is_comment;
}

/* Takes the rules of a file's text, which the level has; none if there are too many. */
static void take_rules(struct ignored *ignored, struct level *level, size_t size)
{
    static const char mark[] = "\xEF\xBB\xBF";
    struct span rest = {level->text, level->text + size};
    size_t lines = 1;
    for (const char *at = rest.at; (at = memchr(at, '\n', (size_t)(rest.end - at))); at++) {
        lines++;
    }
    level->rules = ignored->rules + lines > RULES_MOST ? NULL : calloc(lines, sizeof(struct rule));
    rest.at += size >= 3 && memcmp(rest.at, mark, 3) == 0 ? 3 : 0;
    while (level->rules && rest.at < rest.end) {
        const char *end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        struct span line = {rest.at, end ? end : rest.end};
        level->count += take_rule(line, &level->rules[level->count]);
        rest.at = line.end + (end != NULL);
    }
    ignored->rules += level->count;
}

/* Adds the level of the directory that is the first size bytes of ignored->path. */
static void push(struct ignored *ignored, size_t size)
{
    struct stat st;
    char path[LIMIT_PATH_BYTES + sizeof "/.gitignore"];
    struct level *level = &ignored->levels[ignored->depth++];
    *level = (struct level){.size = size};
    (void)snprintf(path, sizeof path, "%.*s%s.gitignore", (int)size, ignored->path,
                   size ? "/" : "");
    defer_close int fd =
        ignored->fd < 0 ? -1 : fd_open_beneath(ignored->fd, path, O_RDONLY | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MOST ||
        !(level->text = malloc((size_t)st.st_size + 1))) {
        return;
    }
    ssize_t have = fd_pread_all(fd, level->text, (size_t)st.st_size, 0);
    take_rules(ignored, level, have > 0 ? (size_t)have : 0);
}

static void pop(struct ignored *ignored)
{
    struct level *level = &ignored->levels[--ignored->depth];
    ignored->rules -= level->count;
    free(level->rules);
    free(level->text);
}

/* Whether the first size bytes of ignored->path, in none that is ignored, are. The last rule that
 * matches decides, of the directory that is nearest. */
static bool is_ignored(struct ignored *ignored, size_t size, bool is_directory)
{
    const char *path = ignored->path;
    const char *slash = memrchr(path, '/', size);
    const struct span name = {slash ? slash + 1 : path, path + size};
    for (size_t i = ignored->depth; i-- > 0;) {
        const struct level *level = &ignored->levels[i];
        const struct span below = {path + level->size + (level->size > 0), path + size};
        for (size_t k = level->count; k-- > 0;) {
            const struct rule *rule = &level->rules[k];
            if ((is_directory || !rule->is_directory) &&
                (rule->is_name ? is_like(ignored, rule->pattern, name)
                               : is_path_like(ignored, rule->pattern, below))) {
                return !rule->negated;
            }
        }
    }
    return false;
}

/* Whether the first size bytes of both paths are the same directory. */
static bool is_same(const char *one, const char *other, size_t size)
{
    return strncmp(one, other, size) == 0 && (size == 0 || other[size] == '/');
}

size_t ignored_find(struct ignored *ignored, const char *path, bool is_directory)
{
    if (!ignored || strlen(path) >= sizeof ignored->path) {
        return 0;
    }
    if (ignored->found > 0 && is_same(ignored->path, path, ignored->found)) {
        return ignored->found;
    }
    while (ignored->depth > 0 &&
           !is_same(ignored->path, path, ignored->levels[ignored->depth - 1].size)) {
        pop(ignored);
    }
    memcpy(ignored->path, path, strlen(path) + 1);
    ignored->found = 0;
    if (ignored->depth == 0) {
        push(ignored, 0);
    }
    size_t begin = ignored->levels[ignored->depth - 1].size;
    while (ignored->found == 0) {
        size_t end = begin + (begin > 0) + strcspn(path + begin + (begin > 0), "/");
        if (is_ignored(ignored, end, path[end] || is_directory) && ignored->steps > 0) {
            ignored->found = end;
        } else if (!path[end] || ignored->depth == DEPTH_MOST) {
            return 0;
        } else {
            push(ignored, end);
            begin = end;
        }
    }
    return ignored->found;
}

struct ignored *ignored_new(const char *path)
{
    struct ignored *ignored = calloc(1, sizeof *ignored);
    if (ignored) {
        ignored->fd = fd_open_straight(path, O_PATH | O_DIRECTORY);
        ignored->steps = STEPS_MOST;
    }
    return ignored;
}

void ignored_free(struct ignored *ignored)
{
    while (ignored && ignored->depth > 0) {
        pop(ignored);
    }
    if (ignored) {
        own_close(&ignored->fd);
    }
    free(ignored);
}
