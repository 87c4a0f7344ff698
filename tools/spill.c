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
    SPILL_COMMITTING,
    SPILL_ORPHAN, /* freed while pid 1 had still to answer */
};

struct spill {
    struct spills *owner;
    enum spill_state state;
    struct buf held; /* until the file is open */
    int fd;
    uint32_t token;
    uint64_t size;
    const char *stem; /* of its name */
    unsigned number;
    bool torn; /* no memory for a piece: better no file than one with a hole */
    void (*on_open)(void *arg);
    void *open_arg;
    spill_fn fn; /* set by spill_finish */
    void *arg;
};

static void path_of(const struct spills *spills, const char *stem, unsigned number,
                    char out[LIMIT_SPILL_PATH_BYTES])
{
    (void)snprintf(out, LIMIT_SPILL_PATH_BYTES, "%s/output/%s-%u.txt",
                   workspace_spec(spills->workspace)->view.tmp, stem, number);
}

void spills_init(struct spills *spills, struct workspace *workspace)
{
    *spills = (struct spills){.workspace = workspace,
                              .most_bytes = box_spec_disk_bytes(workspace_spec(workspace)) /
                                            LIMIT_SPILL_PART};
}

void spills_done(struct spills *spills)
{
    buf_done(&spills->drop);
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
        char path[LIMIT_SPILL_PATH_BYTES];
        path_of(spills, spills->kept[0].stem, spills->kept[0].number, path);
        (void)buf_appendf(&spills->drop, "%s\n", path);
        sum -= spills->kept[0].size;
        spills->kept_count--;
        memmove(spills->kept, spills->kept + 1, spills->kept_count * sizeof *spills->kept);
    }
    spills->kept[spills->kept_count++] = (struct spill_file){stem, number, size};
}

static struct box *box_of(const struct spill *spill)
{
    return workspace_box(spill->owner->workspace);
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

/* The temporary file goes where it has not become the file. */
static void spill_abort(struct spill *spill)
{
    struct box *box = box_of(spill);
    if (box && spill->token) {
        box_file_abort(box, spill->token);
    }
}

static void spill_end(struct spill *spill, bool made)
{
    char path[LIMIT_SPILL_PATH_BYTES];
    path_of(spill->owner, spill->stem, spill->number, path);
    spill->fn(spill->arg, made ? path : NULL, spill->size);
    spill_release(spill);
}

static void spill_committed(void *arg, int error, int fd, const struct box_file *file)
{
    struct spill *spill = arg;
    (void)fd;
    (void)file;
    if (error == 0) {
        spills_keep(spill->owner, spill->stem, spill->number, spill->size);
    }
    if (spill->state == SPILL_ORPHAN) {
        spill_release(spill);
    } else {
        spill_end(spill, error == 0);
    }
}

static void spill_commit(struct spill *spill)
{
    struct box *box = box_of(spill);
    bool open = spill->state == SPILL_OPEN || spill->state == SPILL_FULL;
    spill->state = SPILL_COMMITTING;
    if (!open || !box || box_file_commit(box, spill->token, spill_committed, spill) < 0) {
        spill_abort(spill);
        spill_end(spill, false);
    }
}

static void spill_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct spill *spill = arg;
    bool orphan = spill->state == SPILL_ORPHAN;
    spill->fd = fd;
    spill->token = error ? 0 : file->token;
    spill->state = error || spill->torn || orphan ? SPILL_FAILED : SPILL_OPEN;
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
        spill_commit(spill);
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
    char path[LIMIT_SPILL_PATH_BYTES];
    path_of(spill->owner, spill->stem, spill->number, path);
    if (buf_append(&spill->held, buf_bytes(bytes), buf_size(bytes)) < 0 ||
        box_file_write(box, path, BOX_WRITE_OVERWRITE, spill_opened, spill) < 0) {
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
        spill_commit(spill);
    }
}

void spill_free(struct spill *spill)
{
    if (!spill) {
        return;
    }
    if (spill->state == SPILL_OPENING || spill->state == SPILL_COMMITTING) {
        spill->state = SPILL_ORPHAN;
        spill->on_open = NULL;
        return;
    }
    spill_abort(spill);
    spill_release(spill);
}
