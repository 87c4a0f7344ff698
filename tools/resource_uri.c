#include "tools/resource_uri.h"

#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/parse.h"
#include "tools/content.h"

/* unreserved of RFC 3986 section 2.3, and what separates the segments of a path. */
static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("-._~/", c));
}

json_t *resource_uri(const char *path)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    int r = buf_append_text(&out, RESOURCE_PREFIX);
    for (; r == 0 && *path; path++) {
        r = is_plain(*path) ? buf_append(&out, path, 1)
                            : buf_appendf(&out, "%%%02X", (unsigned char)*path);
    }
    return r < 0 ? NULL : json_stringn(buf_bytes(&out), buf_size(&out));
}

/* Whether path is made of names only, so that each file has one spelling. */
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

bool resource_path(const char *uri, char out[LIMIT_PATH_BYTES])
{
    size_t size = 0;
    if (strncmp(uri, RESOURCE_PREFIX, sizeof RESOURCE_PREFIX - 1) != 0) {
        return false;
    }
    for (uri += sizeof RESOURCE_PREFIX - 1; *uri; uri++) {
        int value = (unsigned char)*uri;
        if (*uri == '%') {
            int high = parse_hex_digit(uri[1]);
            int low = high < 0 ? -1 : parse_hex_digit(uri[2]);
            value = low < 0 ? 0 : high << 4 | low;
            uri += low < 0 ? 0 : 2;
        }
        if (value == 0 || *uri == '?' || *uri == '#' || size == LIMIT_PATH_BYTES - 1) {
            return false;
        }
        out[size++] = (char)value;
    }
    out[size] = '\0';
    return is_canonical(out);
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
    defer_free void *bytes = NULL;
    size_t size = 0;
    if (content_base64_decode(cursor, strlen(cursor), &bytes, &size) < 0 ||
        size >= LIMIT_PATH_BYTES || memchr(bytes, '\0', size)) {
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
    /* A folder's own files come before those names that only begin like it. */
    int a = path[same] == '/' ? 0 : (unsigned char)path[same];
    int b = !cursor[same] ? -1 : cursor[same] == '/' ? 0 : (unsigned char)cursor[same];
    return a < b ? RESOURCE_BEFORE : RESOURCE_BEHIND;
}
