#include "tools/spill.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/own.h"

enum spill_state {
    SPILL_OPENING,
    SPILL_OPEN,
    SPILL_FULL, /* open, but what comes is dropped */
    SPILL_FAILED,
    SPILL_ORPHAN, /* freed while init had still to answer */
};

struct spill {
    struct spills *owner;
    enum spill_state state;
    struct buf held; /* until the file is open */
    int fd;          /* -1: there is no file */
    uint64_t size;
    const char *stem; /* of its name */
    unsigned number;
    bool torn; /* no memory for a piece: better no file than one with a hole */
    void (*on_open)(void *arg);
    void *open_arg;
    spill_fn fn; /* set by spill_finish */
    void *arg;
};

static void name_of(const char *stem, unsigned number, char out[LIMIT_SPILL_PATH_BYTES])
{
    (void)snprintf(out, LIMIT_SPILL_PATH_BYTES, "%s-%u.txt", stem, number);
}

void spills_init(struct spills *spills, struct workspace *workspace)
{
    *spills = (struct spills){.workspace = workspace,
                              .most_bytes = box_spec_disk_bytes(workspace_spec(workspace)) /
                                            LIMIT_SPILL_PART};
}

static void spills_remove(struct spills *spills, const char *stem, unsigned number)
{
    struct box *box = workspace_box(spills->workspace);
    char name[LIMIT_SPILL_PATH_BYTES];
    name_of(stem, number, name);
    if (box) {
        box_output_remove(box, name);
    }
}

/* The newest stays, whatever its size. */
static void spills_keep(struct spills *spills, const char *stem, unsigned number, uint64_t size)
{
    const unsigned most = sizeof spills->kept / sizeof *spills->kept;
    uint64_t sum = size;
    for (unsigned i = 0; i < spills->kept_count; i++) {
        sum += spills->kept[i].size;
    }
    while (spills->kept_count > 0 && (spills->kept_count == most || sum > spills->most_bytes)) {
        spills_remove(spills, spills->kept[0].stem, spills->kept[0].number);
        sum -= spills->kept[0].size;
        spills->kept_count--;
        memmove(spills->kept, spills->kept + 1, spills->kept_count * sizeof *spills->kept);
    }
    spills->kept[spills->kept_count++] = (struct spill_file){stem, number, size};
}

static void spill_release(struct spill *spill)
{
    drop_fd(&spill->fd);
    buf_done(&spill->held);
    free(spill);
}

static void spill_write(struct spill *spill, const char *bytes, size_t size)
{
    uint64_t room = spill->owner->most_bytes - spill->size;
    if (size > room) {
        size = (size_t)room;
        spill->state = SPILL_FULL;
    }
    while (size > 0) {
        ssize_t n = write(spill->fd, bytes, size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            spill->state = SPILL_FULL;
            return;
        }
        bytes += n;
        size -= (size_t)n;
        spill->size += (uint64_t)n;
    }
}

void spill_add(struct spill *spill, const char *bytes, size_t size)
{
    if (spill->state == SPILL_OPEN) {
        spill_write(spill, bytes, size);
    } else if (spill->state == SPILL_OPENING && buf_append(&spill->held, bytes, size) < 0) {
        spill->torn = true;
    }
}

static void spill_end(struct spill *spill)
{
    char name[LIMIT_SPILL_PATH_BYTES];
    char path[2 * LIMIT_SPILL_PATH_BYTES];
    bool made = spill->state == SPILL_OPEN || spill->state == SPILL_FULL;
    name_of(spill->stem, spill->number, name);
    (void)snprintf(path, sizeof path, "%s/%s", workspace_spec(spill->owner->workspace)->view.output,
                   name);
    if (made) {
        spills_keep(spill->owner, spill->stem, spill->number, spill->size);
    } else if (spill->fd >= 0) {
        spills_remove(spill->owner, spill->stem, spill->number);
    }
    spill->fn(spill->arg, made ? path : NULL, spill->size);
    spill_release(spill);
}

static void spill_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct spill *spill = arg;
    bool orphan = spill->state == SPILL_ORPHAN;
    (void)file;
    spill->fd = fd;
    spill->state = error || spill->torn ? SPILL_FAILED : SPILL_OPEN;
    if (orphan) {
        spill_free(spill);
        return;
    }
    if (spill->state == SPILL_OPEN) {
        spill_write(spill, buf_bytes(&spill->held), buf_size(&spill->held));
    }
    buf_done(&spill->held);
    if (spill->on_open) {
        spill->on_open(spill->open_arg);
    }
    if (spill->fn) {
        spill_end(spill);
    }
}

struct spill *spill_begin(struct spills *spills, const char *stem, const struct buf *bytes,
                          void (*on_open)(void *arg), void *arg)
{
    struct box *box = workspace_box(spills->workspace);
    struct spill *spill = box ? calloc(1, sizeof *spill) : NULL;
    if (!spill) {
        return NULL;
    }
    *spill = (struct spill){.owner = spills,
                            .fd = -1,
                            .stem = stem,
                            .number = spills->last_number + 1,
                            .on_open = on_open,
                            .open_arg = arg};
    char name[LIMIT_SPILL_PATH_BYTES];
    name_of(spill->stem, spill->number, name);
    if (buf_append(&spill->held, buf_bytes(bytes), buf_size(bytes)) < 0 ||
        box_output_make(box, name, spill_opened, spill) < 0) {
        spill_release(spill);
        return NULL;
    }
    spills->last_number++;
    return spill;
}

bool spill_is_open(const struct spill *spill)
{
    return spill->state != SPILL_OPENING;
}

void spill_detach(struct spill *spill)
{
    spill->on_open = NULL;
}

void spill_finish(struct spill *spill, spill_fn fn, void *arg)
{
    spill->fn = fn;
    spill->arg = arg;
    if (spill->state != SPILL_OPENING) {
        spill_end(spill);
    }
}

void spill_free(struct spill *spill)
{
    if (!spill) {
        return;
    }
    if (spill->state == SPILL_OPENING) {
        spill->state = SPILL_ORPHAN;
        spill->on_open = NULL;
        return;
    }
    if (spill->fd >= 0) {
        spills_remove(spill->owner, spill->stem, spill->number);
    }
    spill_release(spill);
}
