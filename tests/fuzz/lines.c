#include "tests/fuzz/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"

static void lines_message(const json_t *message, void (*fn)(void *arg, const json_t *message),
                          void *arg)
{
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));
    if (!version || strcmp(version, "2.0") != 0) {
        abort();
    }
    fn(arg, message);
}

static void lines_one(const char *line, size_t size, void (*fn)(void *arg, const json_t *message),
                      void *arg)
{
    json_auto_t *value = json_loadb(line, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    size_t index = 0;
    json_t *message = NULL;
    if (json_is_object(value)) {
        lines_message(value, fn, arg);
        return;
    }
    if (json_array_size(value) == 0) {
        abort();
    }
    json_array_foreach (value, index, message) {
        lines_message(message, fn, arg);
    }
}

void lines_read(struct buf *rest, int fd, void (*fn)(void *arg, const json_t *message), void *arg)
{
    char bytes[16384];
    ssize_t n = 0;
    while ((n = read(fd, bytes, sizeof bytes)) > 0) {
        const char *end = NULL;
        if (buf_append(rest, bytes, (size_t)n) < 0) {
            abort();
        }
        while (buf_size(rest) > 0 && (end = memchr(buf_bytes(rest), '\n', buf_size(rest)))) {
            size_t size = (size_t)(end - buf_bytes(rest));
            lines_one(buf_bytes(rest), size, fn, arg);
            buf_consume(rest, size + 1);
        }
    }
}
