#include "tools/servers/tool_log.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/own.h"
#include "base/word.h"

enum { SHOWN_BYTES = 400 };

/* Replaces a line of a secret. is_cut: the rest of the text is missing, and may have been the rest
 * of one. */
static void hide(const char *secret, size_t length, char *text, size_t size, bool is_cut)
{
    enum { SHORT = 4 /* such a value hides nothing, and is in every text */ };
    for (size_t at = 0; length >= SHORT && at < size; at++) {
        size_t have = size - at < length ? size - at : length;
        if ((have == length || is_cut) && memcmp(text + at, secret, have) == 0) {
            memset(text + at, '*', have);
        }
    }
}

/* The values of env are secrets; a key may have several lines. */
static void hide_secrets(const struct tool_log *log, char *text, size_t size, bool is_cut)
{
    json_t *env = (json_t *)(uintptr_t)log->entry->env; /* jansson's iterators take no const */
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach (env, key, value) {
        const char *line = json_string_value(value);
        size_t length = 0;
        for (; *line; line += length + (line[length] == '\n')) {
            length = strcspn(line, "\n");
            hide(line, length, text, size, is_cut);
        }
    }
}

static void log_stderr(struct tool_log *log, bool is_cut)
{
    char name[80];
    char shown[SHOWN_BYTES];
    char text[TOOL_LOG_LINE_BYTES + 1];
    memcpy(text, log->line, log->size);
    hide_secrets(log, text, log->size, is_cut);
    for (size_t i = 0; i < log->size; i++) {
        if (!text[i]) {
            text[i] = '?';
        }
    }
    text[log->size] = '\0';
    log_info("tools", "%s: %s",
             word_show(log->entry->name, strlen(log->entry->name), name, sizeof name),
             word_line(text, shown, sizeof shown));
}

/* Cuts a line that is too long: its rest could begin with half of a secret. */
static void on_stderr(void *arg, uint32_t)
{
    struct tool_log *log = arg;
    ssize_t n = read(log->fd, log->line + log->size, sizeof log->line - log->size);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        loop_io_remove(&log->io);
        return;
    }
    size_t size = log->size + (size_t)n;
    const char *end = NULL;
    while ((end = memchr(log->line, '\n', size)) || size == sizeof log->line) {
        log->size = end ? (size_t)(end - log->line) : size;
        if (!log->skips) {
            log_stderr(log, end == NULL);
        }
        log->skips = end == NULL;
        size_t used = log->size + (end != NULL);
        memmove(log->line, log->line + used, size - used);
        size -= used;
    }
    log->size = size;
}

int tool_log_begin(struct tool_log *log, struct loop *loop)
{
    return loop_io_add(loop, &log->io, log->fd, EPOLLIN, on_stderr, log);
}

void tool_log_end(struct tool_log *log)
{
    loop_io_remove(&log->io);
    drop_fd(&log->fd);
    log->size = 0;
}
