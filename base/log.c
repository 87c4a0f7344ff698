#include "base/log.h"

#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/word.h"

enum { LOG_MODULES = 8, LOG_LINE = 1024 };

static const char *const level_names[LOG_LEVEL_COUNT] = {"error", "warn", "info", "debug", "trace"};

static struct {
    enum log_level all;
    struct {
        char module[16];
        enum log_level level;
    } modules[LOG_MODULES];
    unsigned module_count;
    unsigned long dropped;
} state = {.all = LOG_WARN};

static bool level_from_name(const char *name, size_t size, enum log_level *ret_level)
{
    for (unsigned i = 0; i < LOG_LEVEL_COUNT; i++) {
        if (strlen(level_names[i]) == size && memcmp(level_names[i], name, size) == 0) {
            *ret_level = (enum log_level)i;
            return true;
        }
    }
    return false;
}

static bool log_take_word(const char *word, size_t size)
{
    const char *equals = memchr(word, '=', size);
    if (!equals) {
        return level_from_name(word, size, &state.all);
    }
    size_t module_size = (size_t)(equals - word);
    if (state.module_count == LOG_MODULES || module_size >= sizeof state.modules[0].module) {
        return false;
    }
    enum log_level level = LOG_WARN;
    if (!level_from_name(equals + 1, size - module_size - 1, &level)) {
        return false;
    }
    memcpy(state.modules[state.module_count].module, word, module_size);
    state.modules[state.module_count].module[module_size] = '\0';
    state.modules[state.module_count++].level = level;
    return true;
}

void log_init(void)
{
    const char *word = getenv("SANDPIPER_LOG");
    while (word && *word) {
        size_t size = strcspn(word, ",");
        if (size > 0 && !log_take_word(word, size)) {
            log_warn("base", "SANDPIPER_LOG: unknown word \"%.*s\"", (int)size, word);
        }
        word += size;
        word += *word == ',';
    }
}

static bool log_enabled(enum log_level level, const char *module)
{
    for (unsigned i = 0; i < state.module_count; i++) {
        if (strcmp(state.modules[i].module, module) == 0) {
            return level <= state.modules[i].level;
        }
    }
    return level <= state.all;
}

void log_line(enum log_level level, const char *module, const char *fmt, ...)
{
    if (!log_enabled(level, module)) {
        return;
    }
    char line[LOG_LINE];
    int head = snprintf(line, sizeof line, "%s %s ", level_names[level], module);
    if (state.dropped > 0) {
        head += snprintf(line + head, sizeof line - (size_t)head, "(%lu lines dropped) ",
                         state.dropped);
    }
    char text[LOG_LINE];
    va_list args;
    va_start(args, fmt);
    int body = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (body < 0) {
        return;
    }
    (void)word_line(text, line + head, sizeof line - (size_t)head - 1);
    size_t size = strlen(line);
    line[size++] = '\n';
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT) ||
        write(STDERR_FILENO, line, size) < 0) {
        state.dropped++;
        return;
    }
    state.dropped = 0;
}
