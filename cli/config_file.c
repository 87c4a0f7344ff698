#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "cli/flags.h"

enum { CONFIG_BYTES = 64 * 1024 };

bool config_file_place(char *path, size_t size)
{
    const char *directory = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int length = -1;
    /* A relative one counts as unset: XDG Base Directory Specification 0.8. */
    if (directory && directory[0] == '/') {
        length = snprintf(path, size, "%s/sandpiper/config", directory);
    } else if (home && home[0] == '/') {
        length = snprintf(path, size, "%s/.config/sandpiper/config", home);
    }
    return length > 0 && (size_t)length < size;
}

/* Reads the whole file and adds a NUL. The memory is never freed: settings point into it. NULL:
 * there is no file to read. */
static char *load(struct options *options, const char *path, bool must_exist)
{
    static char text[CONFIG_BYTES + 1];
    OWNED(own_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) {
        if (must_exist || (errno != ENOENT && errno != ENOTDIR)) {
            options_error(options, "cannot open the configuration file %.200s: %s", path,
                          strerror(errno));
        }
        return NULL;
    }
    /* The file says which directories of the host code may write, so nobody else may write it. */
    options->config_exposed = status.st_mode & (S_IRGRP | S_IROTH);
    if (S_ISCHR(status.st_mode)) {
        text[0] = '\0'; /* /dev/null: no settings, whoever owns it */
        return text;
    }
    if (!S_ISREG(status.st_mode)) {
        options_error(options, "the configuration file %.200s is not a regular file", path);
    } else if (status.st_mode & S_IWOTH) {
        options_error(
            options, "the configuration file %.200s is writable by everybody: run chmod o-w", path);
    } else if (status.st_uid != 0 && status.st_uid != geteuid()) {
        options_error(options, "the configuration file %.200s belongs to another user", path);
    } else if (status.st_size > CONFIG_BYTES) {
        options_error(options, "the configuration file %.200s has more than %d bytes", path,
                      CONFIG_BYTES);
    } else {
        ssize_t size = fd_pread_all(fd, text, CONFIG_BYTES, 0);
        if (size < 0) {
            options_error(options, "cannot read the configuration file %.200s: %s", path,
                          strerror((int)-size));
        } else if (memchr(text, '\0', (size_t)size)) {
            options_error(options, "the configuration file %.200s is not text", path);
        } else {
            text[size] = '\0';
            return text;
        }
    }
    return NULL;
}

static char *trimmed(char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && strchr(" \t\r", text[size - 1])) {
        text[--size] = '\0';
    }
    return text;
}

static void take_setting(struct options *options, const char *name, const char *value)
{
    const struct flag *flag = flag_find(name);
    if (!flag || flag->commands) {
        options_error(options,
                      flag ? "%.64s belongs to one command, not in a configuration file"
                           : "%.64s is not a setting; sandpiper --help lists the flags",
                      name);
    } else if (flag_setting(options, flag) && !flag->many) {
        options_error(options, "%s is set twice", name);
    } else if (flag->value && !*value) {
        options_error(options, "%s needs a value: %s = %s", name, name, flag->value);
    } else if (!flag->value && strcmp(value, "yes") != 0 && strcmp(value, "no") != 0) {
        options_error(options, "%s takes yes or no, not \"%.64s\"", name, value);
    } else if (flag->value || strcmp(value, "yes") == 0) {
        flag_take(options, flag, value);
    }
}

void config_file_read(struct options *options, const char *path)
{
    static char place[4096];
    if (!path && !config_file_place(place, sizeof place)) {
        return;
    }
    options->config_file = path ? path : place;
    char *next = load(options, options->config_file, path != NULL);
    if (!next) {
        options->config_file = NULL;
        return;
    }
    while (next) {
        options->config_line++;
        char *line = trimmed(strsep(&next, "\n"));
        char *value = *line && *line != '#' ? strchr(line, '=') : NULL;
        if (value) {
            *value++ = '\0';
            take_setting(options, trimmed(line), trimmed(value));
        } else if (*line && *line != '#') {
            options_error(options, "a line must be \"name = value\" or begin with #, not \"%.64s\"",
                          line);
        }
    }
    options->config_line = 0;
}
