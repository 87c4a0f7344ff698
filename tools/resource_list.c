/* Lists the workspace's files for a host, a page at a time. A page holds no state: the walk goes
 * through the folders in the order of their names, and begins behind the path that the cursor holds.
 * Folders are opened by pid 1, in the guest's view and with its rights, one after the other. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/call.h"
#include "rpc/code.h"
#include "tools/listing.h"
#include "tools/resource_uri.h"
#include "tools/tool.h"

enum { PAGE_BYTES = 400000 /* with hostile names a page would else grow too long for hosts */ };

struct level {
    DIR *dir;
    struct listing listing;
    size_t at;
    size_t path_size; /* of the folder's own path, with a slash unless it is empty */
};

struct list_job {
    struct tools *tools;
    struct rpc_call *call;
    struct workspace_waiter waiter;
    char cursor[LIMIT_PATH_BYTES]; /* empty: from the beginning */
    char path[LIMIT_PATH_BYTES];   /* what is looked at */
    char last[LIMIT_PATH_BYTES];   /* what was listed last */
    struct level levels[LIMIT_RESOURCE_DEPTH];
    unsigned depth;
    unsigned folders;
    size_t bytes;
    json_t *page;
};

static void pop(struct list_job *job)
{
    struct level *level = &job->levels[--job->depth];
    listing_done(&level->listing);
    (void)closedir(level->dir);
}

/* next: the path behind which the next page begins, or NULL: this is the last one. */
static void list_end(struct list_job *job, const char *next)
{
    json_t *result = job->page ? json_pack("{s:O, s:o*}", "resources", job->page, "nextCursor",
                                           next ? resource_cursor(next) : NULL)
                               : NULL;
    while (job->depth > 0) {
        pop(job);
    }
    rpc_call_answer(job->call, result);
    json_decref(job->page);
    free(job);
}

static void list_fail(struct list_job *job, int code, const char *sentence)
{
    while (job->depth > 0) {
        pop(job);
    }
    rpc_call_fail(job->call, code, sentence);
    json_decref(job->page);
    free(job);
}

static void append_file(struct list_job *job, uint64_t size)
{
    char name[WORD_BYTES + 1]; /* hosts show it to people */
    json_t *uri = resource_uri(job->path);
    job->bytes += json_string_length(uri) + strlen(job->path);
    json_t *file = json_pack("{s:o, s:s, s:I}", "uri", uri, "name",
                             word_show(job->path, strlen(job->path), name, sizeof name), "size",
                             (json_int_t)size);
    if (json_array_append_new(job->page, file) < 0) {
        json_decref(take_ptr(job->page));
        return;
    }
    (void)snprintf(job->last, sizeof job->last, "%s", job->path);
}

static void folder_opened(void *arg, int error, int fd, const struct box_file *file);

enum list_step { LIST_ON, LIST_WAIT, LIST_ENDED };

/* Looks at one entry of the innermost folder. */
static enum list_step list_entry(struct list_job *job, struct level *level)
{
    const char *name = level->listing.names[level->at++];
    struct stat st;
    size_t room = sizeof job->path - level->path_size;
    if (name[0] == '.' || strlen(name) >= room) {
        return LIST_ON; /* hidden, as in a shell */
    }
    memcpy(job->path + level->path_size, name, strlen(name) + 1);
    enum resource_place place =
        job->cursor[0] ? resource_place(job->path, job->cursor) : RESOURCE_BEHIND;
    if (place == RESOURCE_BEFORE ||
        fstatat(dirfd(level->dir), name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
        return LIST_ON;
    }
    bool folder = S_ISDIR(st.st_mode) && job->depth < LIMIT_RESOURCE_DEPTH;
    bool listed = S_ISREG(st.st_mode) && place == RESOURCE_BEHIND;
    bool full = json_array_size(job->page) >= LIMIT_RESOURCES || job->bytes >= PAGE_BYTES;
    if (full && (folder || listed)) {
        list_end(job, job->last);
        return LIST_ENDED;
    }
    if (listed) {
        append_file(job, (uint64_t)st.st_size);
    }
    if (!folder) {
        return LIST_ON;
    }
    if (job->folders++ == LIMIT_RESOURCE_FOLDERS) { /* what is below it comes with the next page */
        list_end(job, job->path);
        return LIST_ENDED;
    }
    struct box *box = workspace_box(job->tools->workspace);
    return box && box_file_open(box, job->path, folder_opened, job) == 0 ? LIST_WAIT : LIST_ON;
}

static void list_go_on(struct list_job *job)
{
    enum list_step step = LIST_ON;
    while (step == LIST_ON) {
        struct level *level = job->depth > 0 ? &job->levels[job->depth - 1] : NULL;
        if (!level || !job->page) {
            list_end(job, NULL);
            return;
        }
        if (level->at < level->listing.count) {
            step = list_entry(job, level);
        } else {
            pop(job);
        }
    }
}

/* A folder that cannot be opened is passed over: it is the guest's own, or gone meanwhile. */
static void folder_opened(void *arg, int error, int fd, const struct box_file *file)
{
    struct list_job *job = arg;
    struct level *level = &job->levels[job->depth];
    if (error == ECONNRESET) {
        list_fail(job, RPC_INTERNAL_ERROR, "The sandbox ended meanwhile; try again");
        return;
    }
    DIR *dir = !error && S_ISDIR(file->mode) ? fdopendir(fd) : NULL;
    if (!dir) {
        own_close(&fd);
    } else if (listing_read(dir, &level->listing) < 0) {
        (void)closedir(dir);
    } else {
        size_t size = strlen(job->path);
        size_t slash = size > 0 && size < sizeof job->path - 1;
        memcpy(job->path + size, slash ? "/" : "", slash + 1);
        level->dir = dir;
        level->at = 0;
        level->path_size = size + slash;
        job->depth++;
    }
    list_go_on(job);
}

static void list_begin(void *arg, struct box *box, const struct fail *)
{
    struct list_job *job = arg;
    if (!box || box_file_open(box, ".", folder_opened, job) < 0) {
        list_fail(job, RPC_INTERNAL_ERROR, "The sandbox is not available");
    }
}

void resource_list(void *ctx, struct rpc_call *call, const char *cursor)
{
    struct tools *tools = ctx;
    struct list_job *job = calloc(1, sizeof *job);
    json_t *page = json_array();
    if (!job || !page) {
        json_decref(page);
        free(job);
        rpc_call_answer(call, NULL);
        return;
    }
    job->tools = tools;
    job->call = call;
    job->page = page;
    if (cursor && !resource_cursor_read(cursor, job->cursor)) {
        list_fail(job, RPC_INVALID_PARAMS, "Unknown cursor");
    } else if (!workspace_box(tools->workspace) && !workspace_is_host_folder(tools->workspace)) {
        list_end(job,
                 NULL); /* a workspace in memory begins empty: no sandbox is started for that */
    } else {
        workspace_wait(tools->workspace, &job->waiter, list_begin, job);
    }
}
