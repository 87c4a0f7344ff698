#include "tools/content/resource_uri.h"

#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "tools/content/content.h"

/* unreserved of RFC 3986 section 2.3, and the separator of a path's segments. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~/", c));
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
