#include "tools/changes/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/path.h"
#include "base/word.h"
#include "sandbox/sandbox.h"
#include "tools/content/mounts.h"

/* The file may be from anywhere, and the code in the sandbox chooses the paths. */
enum { FILE_MOST = 65536, RULES_MOST = 4000, DEPTH_MOST = 200, STEPS_MOST = 100000000 };

/* Components of a path or of a pattern for one, a NUL behind each. */
struct parts {
    const char *at;
    const char *end;
};

struct rule {
    struct parts pattern;
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
    unsigned steps;               /* that are left */
    char path[LIMIT_PATH_BYTES];  /* the last one */
    char parts[LIMIT_PATH_BYTES]; /* its components */
    size_t found;                 /* its bytes that are ignored */
    struct level levels[DEPTH_MOST];
    size_t depth;
    size_t rules; /* of all levels */
};

/* --- patterns --- */

/* Whether a component is like the pattern of one. A step is some eight of fnmatch(3), whose work is
 * at most the product of the sizes. */
static bool is_like(struct ignored *ignored, const char *pattern, const char *name)
{
    size_t steps = strchr(pattern, '*') ? 1 + strlen(pattern) * strlen(name) / 8 : 1;
    ignored->steps -= steps < ignored->steps ? (unsigned)steps : ignored->steps;
    return ignored->steps > 0 && fnmatch(pattern, name, 0) == 0;
}

/* Makes it what is behind the first component; returns whether there is something. */
static bool next(struct parts *path)
{
    path->at += strlen(path->at) + 1;
    return path->at < path->end;
}

/* The same of whole paths. "**" is any number of components; at the end, at least one. */
static bool is_path_like(struct ignored *ignored, struct parts pattern, struct parts path)
{
    struct parts star = {};
    struct parts back = {};
    bool has_pattern = true;
    for (bool has_path = true; has_path;) {
        if (has_pattern && strcmp(pattern.at, "**") == 0) {
            has_pattern = next(&pattern);
            if (!has_pattern) {
                return true;
            }
            star = pattern;
            back = path;
        } else if (has_pattern && is_like(ignored, pattern.at, path.at)) {
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

static bool take_rule(struct parts line, struct rule *ret)
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

/* Puts a NUL behind each component. */
static void split(char *path, size_t size)
{
    path[size] = '\0';
    for (char *slash = path; (slash = memchr(slash, '/', size - (size_t)(slash - path)));) {
        *slash = '\0';
    }
}

/* Takes the rules of a file's text, which the level has; none if there are too many. */
static void take_rules(struct ignored *ignored, struct level *level, size_t size)
{
    static const char mark[] = "\xEF\xBB\xBF";
    struct parts rest = {level->text, level->text + size};
    size_t lines = 1;
    for (const char *at = rest.at; (at = memchr(at, '\n', (size_t)(rest.end - at))); at++) {
        lines++;
    }
    level->rules = ignored->rules + lines > RULES_MOST ? NULL : calloc(lines, sizeof(struct rule));
    rest.at += size >= 3 && memcmp(rest.at, mark, 3) == 0 ? 3 : 0;
    while (level->rules && rest.at < rest.end) {
        const char *end = memchr(rest.at, '\n', (size_t)(rest.end - rest.at));
        struct parts line = {rest.at, end ? end : rest.end};
        rest.at = line.end + (end != NULL);
        struct rule *rule = &level->rules[level->count];
        if (take_rule(line, rule)) {
            split(level->text + (rule->pattern.at - level->text),
                  (size_t)(rule->pattern.end - rule->pattern.at));
            level->count++;
        }
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
    const char *path = ignored->parts;
    const char *slash = memrchr(path, '\0', size);
    const char *name = slash ? slash + 1 : path;
    for (size_t i = ignored->depth; i-- > 0;) {
        const struct level *level = &ignored->levels[i];
        const struct parts below = {path + level->size + (level->size > 0), path + size};
        for (size_t k = level->count; k-- > 0;) {
            const struct rule *rule = &level->rules[k];
            if ((is_directory || !rule->is_directory) &&
                (rule->is_name ? is_like(ignored, rule->pattern.at, name)
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
    memcpy(ignored->parts, path, strlen(path) + 1);
    split(ignored->parts, strlen(path));
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

static const char outside[] = "is outside of the workspace; send paths that are relative to it";

/* Appends the normal form of path. Returns what is wrong with it, or NULL. */
static const char *normalise(const char *work, const char *path, size_t size, struct buf *out)
{
    size_t work_size = strlen(work);
    if (size == 0) {
        return "is empty; \".\" is the whole workspace";
    }
    if (memchr(path, '\0', size)) {
        return "contains a NUL character";
    }
    if (path[0] == '/') {
        if (size < work_size || memcmp(path, work, work_size) != 0 ||
            (size > work_size && path[work_size] != '/')) {
            return outside;
        }
        path += work_size;
        size -= work_size;
    }
    for (const char *end = path + size; path < end;) {
        const char *slash = memchr(path, '/', (size_t)(end - path));
        size_t length = (size_t)((slash ? slash : end) - path);
        if (length == 2 && memcmp(path, "..", 2) == 0) {
            return "contains \"..\"; send the path without it";
        }
        if (length > 0 && !(length == 1 && *path == '.')) {
            buf_append(out, "/", buf_size(out) > 0);
            buf_append(out, path, length);
        }
        path += length + 1;
    }
    return buf_size(out) >= LIMIT_PATH_BYTES ? "is longer than 4095 bytes"
           : buf_error(out)                  ? "out of memory"
                                             : NULL;
}

int changes_paths_take(const struct box_spec *spec, const json_t *argument,
                       struct changes_paths *ret, struct buf *why)
{
    size_t i = 0;
    const json_t *item = NULL;
    *ret = (struct changes_paths){.ignored = ignored_new(spec->workspace)};
    if (!ret->ignored) {
        return -ENOMEM;
    }
    json_array_foreach (argument, i, item) {
        OWNED(buf_done) struct buf quoted = BUF_EMPTY;
        OWNED(buf_done) struct buf normal = BUF_EMPTY;
        const char *text = json_string_value(item);
        size_t size = json_string_length(item);
        if (i >= CHANGES_PATHS) {
            buf_append_text(why, "/paths: has too many items; send their directories");
            return buf_error(why) ? -ENOMEM : -EINVAL;
        }
        /* A name that begins with a quote is listed in quotes. */
        bool is_quoted = quote_parse(text, size, &quoted) == 0;
        char inside[LIMIT_PATH_BYTES];
        bool is_host =
            text[0] == '/' && strlen(text) == size && data_find(spec, text, inside, sizeof inside);
        const char *path = is_quoted ? buf_bytes(&quoted) : is_host ? inside : text;
        const char *wrong = normalise(spec->paths.work, path,
                                      is_quoted ? buf_size(&quoted)
                                      : is_host ? strlen(inside)
                                                : size,
                                      &normal);
        if (wrong) {
            buf_appendf(why, "/paths/%zu: ", i);
            word_append(why, text, size);
            buf_appendf(why, " %s.", wrong);
            return buf_error(why) ? -ENOMEM : -EINVAL;
        }
        ret->at[ret->count] = strdup(buf_text(&normal));
        if (!ret->at[ret->count]) {
            return -ENOMEM;
        }
        ret->count++;
    }
    return 0;
}

void changes_paths_done(struct changes_paths *paths)
{
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->at[i]);
    }
    paths->count = 0;
    ignored_free(take_ptr(paths->ignored));
}

bool changes_paths_have(const struct changes_paths *paths, const char *path)
{
    size_t i = 0;
    while (i < paths->count && !refused_is_in(path, paths->at[i])) {
        i++;
    }
    return paths->count == 0 || i < paths->count;
}

bool changes_paths_is_there(const struct changes_paths *paths, size_t index)
{
    const char *path = paths->at[index];
    int root_fd = paths->ignored ? paths->ignored->fd : -1;
    defer_close int fd =
        root_fd < 0 || !path[0] ? -EBADF : fd_open_beneath(root_fd, path, O_PATH | O_NOFOLLOW);
    return fd != -ENOENT && fd != -ENOTDIR;
}

enum changes_left changes_paths_left(const struct changes_paths *paths, const char *path,
                                     uint32_t mode, size_t *ret_size)
{
    size_t cache = path_cache_size(path);
    size_t size = cache ? cache : ignored_find(paths->ignored, path, S_ISDIR(mode));
    for (size_t i = 0; size > 0 && i < paths->count; i++) {
        if (strncmp(paths->at[i], path, size) == 0 &&
            (paths->at[i][size] == '/' || !paths->at[i][size])) {
            return CHANGES_LEFT_NONE;
        }
    }
    *ret_size = size;
    return cache ? CHANGES_LEFT_CACHE : size ? CHANGES_LEFT_IGNORED : CHANGES_LEFT_NONE;
}
