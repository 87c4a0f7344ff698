#include "tools/listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "tools/content.h"

enum { LISTING_SHOWN = 500, LISTING_READ = 20000 };

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A name may hold anything but "/" and NUL: what would end the line or move a terminal's cursor is
 * shown as "?", as ls(1) does. */
static void make_printable(char *name)
{
    for (; *name; name++) {
        if ((unsigned char)*name < ' ' || *name == '\177') {
            *name = '?';
        }
    }
}

static int append_entry(int dir_fd, char *name, struct buf *text)
{
    struct stat st;
    char size[16];
    char target[256];
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return 0; /* gone meanwhile */
    }
    ssize_t length = S_ISLNK(st.st_mode) ? readlinkat(dir_fd, name, target, sizeof target - 1) : 0;
    target[length > 0 ? length : 0] = '\0';
    make_printable(name);
    make_printable(target);
    if (S_ISDIR(st.st_mode)) {
        return buf_appendf(text, "%s/\n", name);
    }
    if (S_ISLNK(st.st_mode)) {
        return buf_appendf(text, "%s -> %s\n", name, target);
    }
    if (!S_ISREG(st.st_mode)) {
        return buf_appendf(text, "%s (not a regular file)\n", name);
    }
    return buf_appendf(text, "%s (%s)\n", name, content_size((uint64_t)st.st_size, size));
}

int listing_compose(int dir_fd, const char *path, struct buf *text)
{
    DIR *dir = fdopendir(dir_fd);
    char **names = calloc(LISTING_READ, sizeof *names);
    size_t count = 0;
    int r = 0;
    if (!dir || !names) {
        r = dir ? -ENOMEM : -errno;
        free(names);
        if (dir) {
            (void)closedir(dir);
        } else {
            (void)close(dir_fd);
        }
        return r;
    }
    const struct dirent *entry = NULL;
    bool more = false;
    while (!more && (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) {
            continue;
        }
        more = count == LISTING_READ;
        char *name = more ? NULL : strdup(entry->d_name);
        if (name) {
            names[count++] = name;
        }
    }
    qsort(names, count, sizeof *names, compare_names);
    r = buf_appendf(text, "[directory %s, %zu%s entries]\n", path, count, more ? " or more" : "");
    for (size_t i = 0; i < count; i++) {
        if (r == 0 && i < LISTING_SHOWN) {
            r = append_entry(dirfd(dir), names[i], text);
        }
        free(names[i]);
    }
    if (r == 0 && count > LISTING_SHOWN) {
        r = buf_appendf(text, "… and %zu more\n", count - LISTING_SHOWN);
    }
    free(names);
    (void)closedir(dir);
    return r;
}

json_t *listing_names(int dir_fd)
{
    DIR *dir = fdopendir(dir_fd);
    json_t *names = json_object();
    if (!dir) {
        (void)close(dir_fd);
        json_decref(names);
        return NULL;
    }
    const struct dirent *entry = NULL;
    for (unsigned i = 0; i < LISTING_READ && (entry = readdir(dir)); i++) {
        if (entry->d_name[0] != '.') {
            (void)json_object_set_new(names, entry->d_name, json_true()); /* not if not UTF-8 */
        }
    }
    (void)closedir(dir);
    return names;
}
