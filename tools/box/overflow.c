#include "tools/box/overflow.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/own.h"

enum overflow_state {
    OVERFLOW_OPENING,
    OVERFLOW_OPEN,
    OVERFLOW_FULL, /* open, but what comes is dropped */
    OVERFLOW_FAILED,
    OVERFLOW_ORPHAN, /* freed while init's response was due */
};

struct overflow {
    struct overflows *owner;
    enum overflow_state state;
    struct buf held; /* until the file is open */
    int fd;          /* -1: there is no file */
    uint64_t size;
    const char *stem; /* of its name */
    unsigned number;
    bool torn; /* no memory for a piece: better no file than one with a hole */
    void (*on_open)(void *arg);
    void *open_arg;
    overflow_fn fn; /* set by overflow_finish */
    void *arg;
};

static void name_of(const char *stem, unsigned number, char out[LIMIT_OVERFLOW_NAME_BYTES])
{
    (void)snprintf(out, LIMIT_OVERFLOW_NAME_BYTES, "%s-%u.txt", stem, number);
}

void overflows_init(struct overflows *overflows, struct server_box *server_box,
                    void (*on_opened)(void *arg), void *arg)
{
    *overflows = (struct overflows){.server_box = server_box,
                                    .on_opened = on_opened,
                                    .arg = arg,
                                    .most_bytes = box_spec_disk_bytes(server_box_spec(server_box)) /
                                                  LIMIT_OVERFLOW_PART};
}

static void overflows_remove(struct overflows *overflows, const char *stem, unsigned number)
{
    struct box *box = server_box_get(overflows->server_box);
    char name[LIMIT_OVERFLOW_NAME_BYTES];
    name_of(stem, number, name);
    if (box) {
        box_output_remove(box, name);
    }
}

/* The newest stays, whatever its size. */
static void overflows_keep(struct overflows *overflows, const char *stem, unsigned number,
                           uint64_t size)
{
    const unsigned most = sizeof overflows->kept / sizeof *overflows->kept;
    uint64_t sum = size;
    for (unsigned i = 0; i < overflows->kept_count; i++) {
        sum += overflows->kept[i].size;
    }
    while (overflows->kept_count > 0 &&
           (overflows->kept_count == most || sum > overflows->most_bytes)) {
        overflows_remove(overflows, overflows->kept[0].stem, overflows->kept[0].number);
        sum -= overflows->kept[0].size;
        overflows->kept_count--;
        memmove(overflows->kept, overflows->kept + 1,
                overflows->kept_count * sizeof *overflows->kept);
    }
    overflows->kept[overflows->kept_count++] = (struct overflow_file){stem, number, size};
}

static void overflow_release(struct overflow *overflow)
{
    drop_fd(&overflow->fd);
    buf_done(&overflow->held);
    free(overflow);
}

static void overflow_write(struct overflow *overflow, const char *bytes, size_t size)
{
    uint64_t space = overflow->owner->most_bytes - overflow->size;
    if (size > space) {
        size = (size_t)space;
        overflow->state = OVERFLOW_FULL;
    }
    while (size > 0) {
        ssize_t n = TEMP_FAILURE_RETRY(write(overflow->fd, bytes, size));
        if (n <= 0) {
            overflow->state = OVERFLOW_FULL;
            return;
        }
        bytes += n;
        size -= (size_t)n;
        overflow->size += (uint64_t)n;
    }
}

void overflow_add(struct overflow *overflow, const char *bytes, size_t size)
{
    if (overflow->state == OVERFLOW_OPEN) {
        overflow_write(overflow, bytes, size);
    } else if (overflow->state == OVERFLOW_OPENING &&
               buf_append(&overflow->held, bytes, size) < 0) {
        overflow->torn = true;
    }
}

bool overflow_path(const struct overflow *overflow, char out[OVERFLOW_PATH_BYTES])
{
    char name[LIMIT_OVERFLOW_NAME_BYTES];
    name_of(overflow->stem, overflow->number, name);
    (void)snprintf(out, OVERFLOW_PATH_BYTES, "%s/%s",
                   server_box_spec(overflow->owner->server_box)->paths.output, name);
    return overflow->state != OVERFLOW_FAILED;
}

static void overflow_end(struct overflow *overflow)
{
    char path[OVERFLOW_PATH_BYTES];
    bool made = overflow->state == OVERFLOW_OPEN || overflow->state == OVERFLOW_FULL;
    (void)overflow_path(overflow, path);
    if (made) {
        overflows_keep(overflow->owner, overflow->stem, overflow->number, overflow->size);
    } else if (overflow->fd >= 0) {
        overflows_remove(overflow->owner, overflow->stem, overflow->number);
    }
    overflow->fn(overflow->arg, made ? path : NULL, overflow->size);
    overflow_release(overflow);
}

static void overflow_opened(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct overflow *overflow = arg;
    bool orphan = overflow->state == OVERFLOW_ORPHAN;
    struct overflows *owner = overflow->owner;
    owner->opening--;
    overflow->fd = take_fd(&fds[0]);
    overflow->state = reply->error || overflow->torn ? OVERFLOW_FAILED : OVERFLOW_OPEN;
    if (orphan) {
        overflow_free(overflow);
        owner->on_opened(owner->arg);
        return;
    }
    if (overflow->state == OVERFLOW_OPEN) {
        overflow_write(overflow, buf_bytes(&overflow->held), buf_size(&overflow->held));
    }
    buf_done(&overflow->held);
    if (overflow->on_open) {
        overflow->on_open(overflow->open_arg);
    }
    if (overflow->fn) {
        overflow_end(overflow);
    }
    owner->on_opened(owner->arg);
}

struct overflow *overflow_begin(struct overflows *overflows, const char *stem, unsigned number,
                                const struct buf *bytes, void (*on_open)(void *arg), void *arg)
{
    struct box *box = server_box_get(overflows->server_box);
    struct overflow *overflow = box ? calloc(1, sizeof *overflow) : NULL;
    if (!overflow) {
        return NULL;
    }
    *overflow = (struct overflow){.owner = overflows,
                                  .fd = -1,
                                  .stem = stem,
                                  .number = number ? number : overflows->last_number + 1,
                                  .on_open = on_open,
                                  .open_arg = arg};
    char name[LIMIT_OVERFLOW_NAME_BYTES];
    name_of(overflow->stem, overflow->number, name);
    if (buf_append(&overflow->held, buf_bytes(bytes), buf_size(bytes)) < 0 ||
        box_output_make(box, name, overflow_opened, overflow) < 0) {
        overflow_release(overflow);
        return NULL;
    }
    overflows->last_number += number == 0;
    overflows->opening++;
    return overflow;
}

void overflow_detach(struct overflow *overflow)
{
    overflow->on_open = NULL;
}

void overflow_finish(struct overflow *overflow, overflow_fn fn, void *arg)
{
    if (!overflow) {
        fn(arg, NULL, 0);
        return;
    }
    overflow->fn = fn;
    overflow->arg = arg;
    if (overflow->state != OVERFLOW_OPENING) {
        overflow_end(overflow);
    }
}

void overflow_free(struct overflow *overflow)
{
    if (!overflow) {
        return;
    }
    if (overflow->state == OVERFLOW_OPENING) {
        overflow->state = OVERFLOW_ORPHAN;
        overflow->on_open = NULL;
        return;
    }
    if (overflow->fd >= 0) {
        overflows_remove(overflow->owner, overflow->stem, overflow->number);
    }
    overflow_release(overflow);
}
