#include "tools/changes/paths.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "base/own.h"
#include "base/quote.h"
#include "base/word.h"
#include "sandbox/sandbox.h"
#include "tools/changes/ignored.h"
#include "tools/content/mounts.h"

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

static size_t cache_of(const char *path)
{
    static const char *const caches[] = {
        "__pycache__", ".pytest_cache",      ".mypy_cache",  ".ruff_cache", ".hypothesis", ".tox",
        ".nox",        ".ipynb_checkpoints", "node_modules", ".venv",       "venv"};
    size_t size = 0;
    for (const char *at = path; *at && size == 0; at += *at == '/') {
        size_t length = strcspn(at, "/");
        for (unsigned i = 0; i < sizeof caches / sizeof *caches; i++) {
            if (strlen(caches[i]) == length && strncmp(at, caches[i], length) == 0) {
                size = (size_t)(at - path) + length;
            }
        }
        at += length;
    }
    return size;
}

enum changes_left changes_paths_left(const struct changes_paths *paths, const char *path,
                                     uint32_t mode, size_t *ret_size)
{
    size_t cache = cache_of(path);
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
