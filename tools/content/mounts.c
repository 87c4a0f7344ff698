#include "tools/content/mounts.h"

#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/word.h"
#include "sandbox/sandbox.h"
#include "tools/content/content.h"

/* Whether it is named with the mount before: directories of the home directory that code sees in
 * one directory are named as one. */
static bool is_reported_before(const struct box_spec *spec, unsigned at)
{
    const char *name = spec->mounts[at].name;
    size_t size = strcspn(name, "/");
    return spec->paths.data && at > 0 && name[size] == '/' &&
           strncmp(spec->mounts[at - 1].name, name, size + 1) == 0;
}

/* Appends its path for code. whole: not only the home directory that stands for it. Returns the
 * length. */
static size_t put_place(const struct box_spec *spec, const struct box_mount *mount, bool whole,
                        char *out, size_t size)
{
    const char *data = spec->paths.data;
    int length = data ? (int)(whole ? strlen(mount->name) : strcspn(mount->name, "/")) : 0;
    return (size_t)(data ? snprintf(out, size, "%s/%.*s", data, length, mount->name)
                         : snprintf(out, size, "%s", mount->path));
}

/* Appends the mounts of one kind, if there are any. before: in front of them. */
static void append_kind(const struct box_spec *spec, bool writable, const char *before,
                        struct buf *out)
{
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        if (mount->writable == writable && !is_reported_before(spec, i)) {
            char place[PATH_MAX];
            (void)put_place(spec, mount, /* whole= */ false, place, sizeof place);
            buf_appendf(out, "%s%s", before, place);
            before = ", ";
        }
    }
}

void data_describe(const struct box_spec *spec, char *out, size_t size)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    out[0] = '\0';
    if (spec->mount_count == 0) {
        return;
    }
    buf_append_text(&text, " The user's directories, ");
    size_t begin = buf_size(&text);
    append_kind(spec, /* writable= */ false, "read-only: ", &text);
    append_kind(spec, /* writable= */ true,
                buf_size(&text) > begin ? "; writable: " : "writable: ", &text);
    buf_append_text(&text, ".");
    if (buf_size(&text) < size) {
        (void)snprintf(out, size, "%s", buf_text(&text));
    } else {
        (void)snprintf(out, size, " The user's directories are %s%s; the instructions list them.",
                       spec->paths.data ? "below " : "there",
                       spec->paths.data ? spec->paths.data : "");
    }
}

int data_list(const struct box_spec *spec, struct buf *out)
{
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        char place[PATH_MAX];
        (void)put_place(spec, mount, /* whole= */ true, place, sizeof place);
        buf_appendf(out, "Data: %s is the user's directory%s%s%s.\n", place,
                    spec->paths.data ? " " : "", spec->paths.data ? mount->path : "",
                    mount->writable ? ", writable" : ", read-only");
    }
    return buf_error(out);
}

/* One of the user's directories. */
struct place {
    const char *host;
    char path[PATH_MAX]; /* in the sandbox */
};

/* The next of the user's directories, the workspace first. *at: 0 to begin with. */
static bool next_place(const struct box_spec *spec, unsigned *at, struct place *place)
{
    if (*at == 0 && !spec->workspace) {
        ++*at;
    }
    unsigned index = (*at)++;
    if (index > spec->mount_count) {
        return false;
    }
    if (index == 0) {
        place->host = spec->workspace;
        (void)snprintf(place->path, sizeof place->path, "%s", spec->paths.work);
    } else {
        place->host = spec->mounts[index - 1].path;
        (void)put_place(spec, &spec->mounts[index - 1], /* whole= */ true, place->path,
                        sizeof place->path);
    }
    return true;
}

/* Length of directory if path is at or below it, else 0. */
static size_t length_within(const char *path, const char *directory)
{
    return directory && path_behind(path, directory) ? strlen(directory) : 0;
}

/* The longest of the sandbox's own directories that path is in. */
static size_t length_inside(const struct box_spec *spec, const char *path)
{
    const char *const own[] = {spec->paths.work, spec->paths.tmp, spec->paths.data,
                               spec->paths.run};
    struct place place;
    size_t most = 0;
    for (unsigned i = 0; i < sizeof own / sizeof *own; i++) {
        size_t length = length_within(path, own[i]);
        most = length > most ? length : most;
    }
    for (unsigned at = 0; next_place(spec, &at, &place);) {
        size_t length = length_within(path, place.path);
        most = length > most ? length : most;
    }
    return most;
}

static bool climbs(const char *path)
{
    const char *last = strrchr(path, '/');
    return strstr(path, "/../") || (last && strcmp(last, "/..") == 0);
}

/* In the longest of the directories whose names have more than most bytes. */
static bool find_place(const struct box_spec *spec, const char *path, size_t most, char *out,
                       size_t size)
{
    struct place place;
    bool found = false;
    for (unsigned at = 0; next_place(spec, &at, &place);) {
        size_t length = length_within(path, place.host);
        if (length > most && !climbs(path + length)) {
            most = length;
            found = (size_t)snprintf(out, size, "%s%s", place.path, path + length) < size;
        }
    }
    return found;
}

bool data_find(const struct box_spec *spec, const char *path, char *out, size_t size)
{
    return find_place(spec, path, length_inside(spec, path), out, size);
}

bool data_find_home(const struct box_spec *spec, const char *rest, char *out, size_t size)
{
    char path[LIMIT_PATH_BYTES];
    const char *home = getenv("HOME");
    return home && (size_t)snprintf(path, sizeof path, "%s%s", home, rest) < sizeof path &&
           find_place(spec, path, 0, out, size);
}

/* Whether text has directory itself or a path below it, as a whole path. */
static const char *find_below(const char *text, const char *directory)
{
    size_t size = strlen(directory);
    const char *at = text;
    while ((at = strstr(at, directory))) {
        bool begins = at == text || !(parse_is_alnum(at[-1]) || strchr("/._-", at[-1]));
        if (begins && !(parse_is_alnum(at[size]) || (at[size] && strchr("._-", at[size])))) {
            return at;
        }
        at += size;
    }
    return NULL;
}

bool data_explain(const struct box_spec *spec, const char *text, char *out, size_t size)
{
    struct place place;
    char shown[WORD_BYTES + 1];
    char there[WORD_BYTES + 1];
    for (unsigned at = 0; next_place(spec, &at, &place);) {
        const char *found = find_below(text, place.host);
        if (found && length_inside(spec, found) < strlen(place.host)) {
            (void)snprintf(out, size, "the user's directory %s is %s here",
                           word_show(place.host, strlen(place.host), shown, sizeof shown),
                           word_show(place.path, strlen(place.path), there, sizeof there));
            return true;
        }
    }
    return false;
}

bool data_beside(const struct box_spec *spec, unsigned at, const char *path, char *out, size_t size)
{
    const char *inside = path_behind(path, spec->paths.work);
    const char *relative = inside && *inside ? inside : path;
    if (at >= spec->mount_count) {
        return false;
    }
    size_t used = put_place(spec, &spec->mounts[at], /* whole= */ true, out, size);
    bool fits = *relative != '/' && used < size &&
                (size_t)snprintf(out + used, size - used, "/%s", relative) < size - used;
    out[0] = (char)(fits ? out[0] : '\0');
    return true;
}

bool data_guess(const struct box_spec *spec, const char *path, char *out, size_t size)
{
    const char *inside = path_behind(path, spec->paths.work);
    const char *relative = inside && *inside ? inside : path;
    for (unsigned i = 0; i < spec->mount_count; i++) {
        const struct box_mount *mount = &spec->mounts[i];
        const char *rest = path_behind(relative, mount->name);
        size_t used = rest ? put_place(spec, mount, /* whole= */ true, out, size) : size;
        if (used < size) {
            return (size_t)snprintf(out + used, size - used, "%s%s", *rest ? "/" : "", rest) <
                   size - used;
        }
    }
    return false;
}

/* unreserved of RFC 3986 section 2.3, and the separator of a path's segments. */
static bool is_plain(char c)
{
    return parse_is_alnum(c) || (c && strchr("-._~/", c));
}

json_t *resource_uri(const char *path)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    buf_append_text(&out, RESOURCE_PREFIX);
    for (; *path; path++) {
        buf_appendf(&out, is_plain(*path) ? "%c" : "%%%02X", (unsigned char)*path);
    }
    return buf_error(&out) ? NULL : json_stringn(buf_bytes(&out), buf_size(&out));
}

/* Whether path has only names, so that each file has one spelling. */
static bool is_canonical(const char *path)
{
    do {
        size_t size = strcspn(path, "/");
        if (size == 0 || (size == 1 && path[0] == '.') ||
            (size == 2 && path[0] == '.' && path[1] == '.')) {
            return false;
        }
        path += size;
    } while (*path++);
    return true;
}

/* False for what is no path alone, or too long. */
static bool decode(const char *uri, char out[LIMIT_PATH_BYTES])
{
    return !strpbrk(uri, "?#") && parse_percent(uri, strlen(uri), out, LIMIT_PATH_BYTES) >= 0;
}

/* What follows prefix in uri; NULL: uri begins otherwise. */
static const char *behind(const char *uri, const char *prefix)
{
    size_t size = strlen(prefix);
    return strncmp(uri, prefix, size) == 0 ? uri + size : NULL;
}

bool resource_path(const char *uri, char out[LIMIT_PATH_BYTES])
{
    const char *path = behind(uri, RESOURCE_PREFIX);
    return path && decode(path, out) && is_canonical(out);
}

bool resource_file_path(const char *uri, char out[LIMIT_PATH_BYTES])
{
    const char *path = behind(uri, "file://localhost/");
    path = path ? path - 1 : behind(uri, "file://");
    path = path ? path : behind(uri, "sandbox:");
    return path && path[0] == '/' && decode(path, out);
}

/* Whether it is in no hidden directory and not hidden itself: a client lists no such file. */
static bool is_listed(const char *path)
{
    return path[0] != '.' && !strstr(path, "/.");
}

static const struct {
    const char *suffix;
    const char *type;
} types[] = {
    {".csv", "text/csv"},        {".gif", "image/gif"},       {".html", "text/html"},
    {".jpeg", "image/jpeg"},     {".jpg", "image/jpeg"},      {".json", "application/json"},
    {".md", "text/markdown"},    {".pdf", "application/pdf"}, {".png", "image/png"},
    {".py", "text/x-python"},    {".svg", "image/svg+xml"},   {".tsv", "text/tab-separated-values"},
    {".txt", "text/plain"},      {".webp", "image/webp"},     {".xml", "application/xml"},
    {".zip", "application/zip"},
};

const char *resource_type(const char *path)
{
    size_t size = strlen(path);
    for (unsigned i = 0; i < sizeof types / sizeof *types; i++) {
        size_t suffix = strlen(types[i].suffix);
        if (size > suffix && strncmp(path + size - suffix, types[i].suffix, suffix) == 0) {
            return types[i].type;
        }
    }
    return "application/octet-stream";
}

const char *resource_text_type(const char *path)
{
    const char *type = resource_type(path);
    bool is_text = strncmp(type, "text/", 5) == 0 || strstr(type, "json") || strstr(type, "xml");
    return is_text ? type : "text/plain";
}

json_t *resource_link(const char *path, uint64_t size)
{
    char name[WORD_BYTES + 1];
    if (!is_canonical(path) || !is_listed(path)) {
        return NULL;
    }
    return json_pack("{s:s, s:o, s:s, s:s, s:I}", "type", "resource_link", "uri",
                     resource_uri(path), "name", word_show(path, strlen(path), name, sizeof name),
                     "mimeType", resource_type(path), "size", (json_int_t)size);
}

json_t *resource_cursor(const char *path)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    return content_base64_encode(path, strlen(path), &out) < 0
               ? NULL
               : json_stringn(buf_bytes(&out), buf_size(&out));
}

bool resource_cursor_read(const char *cursor, char out[LIMIT_PATH_BYTES])
{
    unsigned char bytes[LIMIT_PATH_BYTES + 3];
    size_t length = strlen(cursor);
    size_t size = 0;
    if (length / 4 * 3 > LIMIT_PATH_BYTES ||
        content_base64_decode(cursor, length, bytes, &size) < 0 || size >= LIMIT_PATH_BYTES ||
        memchr(bytes, '\0', size)) {
        return false;
    }
    memcpy(out, bytes, size);
    out[size] = '\0';
    return is_canonical(out);
}

enum resource_place resource_place(const char *path, const char *cursor)
{
    size_t same = 0;
    while (path[same] && path[same] == cursor[same]) {
        same++;
    }
    if (!path[same]) {
        return !cursor[same] || cursor[same] == '/' ? RESOURCE_LEADS : RESOURCE_BEFORE;
    }
    /* A directory's own files come before other names with the same beginning. */
    int a = path[same] == '/' ? 0 : (unsigned char)path[same];
    int b = !cursor[same] ? -1 : cursor[same] == '/' ? 0 : (unsigned char)cursor[same];
    return a < b ? RESOURCE_BEFORE : RESOURCE_BEHIND;
}
