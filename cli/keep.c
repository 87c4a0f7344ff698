/* sandpiper keep: which sessions are kept, and how one is removed, or an earlier one comes back. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/own.h"
#include "base/word.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "tools/keep/keep_files.h"

enum { PATH_SHOWN = PATH_MAX + 300 };

struct listing {
    int dir_fd;
    const char *wanted; /* the session, of each workspace; NULL: all */
    unsigned count;
    int error;
};

static void show(void *arg, const char *name, const struct keep_header *header)
{
    struct listing *listing = arg;
    char text[PATH_SHOWN];
    char shown[PATH_SHOWN];
    char at[32];
    listing->count++;
    (void)snprintf(text, sizeof text, "%s%s: %s, %" PRIu64 " kB, Python %s, %s", header->session,
                   keep_is_earlier(name) ? " (earlier)" : "", keep_time(header->time_s, at),
                   (header->bytes + 999) / 1000, header->python,
                   header->workspace[0] ? header->workspace : "workspace in memory");
    (void)puts(word_line(text, shown, sizeof shown));
}

static void drop(void *arg, const char *name, const struct keep_header *header)
{
    struct listing *listing = arg;
    if (!listing->wanted || strcmp(header->session, listing->wanted) == 0) {
        listing->count++;
        listing->error = unlinkat(listing->dir_fd, name, 0) < 0 ? errno : listing->error;
    }
}

static void restore(void *arg, const char *name, const struct keep_header *header)
{
    struct listing *listing = arg;
    if (keep_is_earlier(name) && strcmp(header->session, listing->wanted) == 0) {
        int r = keep_restore(listing->dir_fd, name);
        listing->count++;
        listing->error = r < 0 ? -r : listing->error;
    }
}

static int say_unknown(const char *session)
{
    terminal_say("keep: no session %s is kept there; sandpiper keep list names those that are",
                 session);
    return 1;
}

static int change(const struct options *options, struct listing *listing)
{
    const char *session = options->kept.session;
    if (flock(listing->dir_fd, LOCK_EX | LOCK_NB) < 0 && !options->records.force) {
        terminal_say("keep: a server uses the directory; end it, or add --force");
        return 1;
    }
    listing->wanted = options->kept.all ? NULL : session;
    keep_list(listing->dir_fd, strcmp(options->kept.action, "drop") == 0 ? drop : restore, listing);
    if (listing->error) {
        terminal_say("keep: %s", strerror(listing->error));
        return 1;
    }
    return listing->count > 0 || options->kept.all ? 0 : say_unknown(session);
}

int command_keep(const struct options *options)
{
    const char *directory =
        options->kept.directory ? options->kept.directory : options->keep.directory;
    char path[PATH_MAX];
    struct fail fail = {};
    struct box_spec spec;
    box_spec_init(&spec);
    if (!directory) {
        terminal_say("keep: name the directory of --keep");
        return 2;
    }
    int r = box_apart_resolve(&spec, "--keep", directory, path, &fail);
    defer_close int fd = r < 0 ? r : keep_directory_open(path, /* create= */ false, &fail);
    if (fd < 0) {
        terminal_say("keep: %s", fail_text(&fail));
        return 1;
    }
    struct listing listing = {.dir_fd = fd};
    if (strcmp(options->kept.action, "list") != 0) {
        return change(options, &listing);
    }
    keep_list(fd, show, &listing);
    return 0;
}
