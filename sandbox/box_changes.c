/* The changes of a copy-on-write workspace: lists of them, and applying them to the user's
 * directory with a process of its own. */
#include "sandbox/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/helpers.h"
#include "sandbox/trust/trust.h"
#include "sandbox/workspace/protected.h"
#include "sandbox/workspace/store.h"

int keeper_name_path(struct box *box, const char *path, size_t size)
{
    struct wire_request request = {.op = KEEP_PATH};
    if (size >= sizeof request.path) {
        return -ENAMETOOLONG;
    }
    memcpy(request.path, path, size);
    return box_ask_keeper(box, &request, NULL, NULL);
}

/* Sends the request, with paths before it; else like box_ask_keeper(). */
static int keeper_ask_paths(struct box *box, struct wire_request *request, struct path_list paths,
                            init_client_fn fn, void *arg)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < paths.count; i++) {
        r = keeper_name_path(box, paths.at[i], strlen(paths.at[i]));
    }
    return r ? r : box_ask_keeper(box, request, fn, arg);
}

/* The same of a file that is the server's own. */
static int keeper_read_own(int fd, size_t most, struct buf *out)
{
    struct stat st;
    char *space = NULL;
    if (fstat(fd, &st) < 0) {
        return -errno;
    }
    if (st.st_size < 0 || (size_t)st.st_size > most) {
        return -E2BIG;
    }
    int r = buf_reserve(out, (size_t)st.st_size, &space);
    ssize_t size = r ? r : fd_pread_all(fd, space, (size_t)st.st_size, 0);
    if (size > 0) {
        buf_commit(out, (size_t)size);
    }
    return size < 0 ? (int)size : 0;
}

/* The seals tell that it is a memfd: reading another file could block. */
int keeper_read(int fd, size_t most, struct buf *out)
{
    return fd < 0 || fcntl(fd, F_GET_SEALS) < 0 ? -EPROTO : keeper_read_own(fd, most, out);
}

/* --- requests --- */

int box_changes_ask(struct box *box, enum box_changes_request what, struct path_list paths,
                    init_client_fn fn, void *arg)
{
    struct wire_request request = {.op = what == BOX_CHANGES_DISCARD ? KEEP_DISCARD : KEEP_LIST,
                                   .list = what == BOX_CHANGES_PATCH  ? KEEP_LIST_PATCH
                                           : what == BOX_CHANGES_LIST ? KEEP_LIST_SHOWS
                                                                      : KEEP_LIST_COUNTS};
    return keeper_ask_paths(box, &request, paths, fn, arg);
}

int box_changes_read(const struct wire_reply *reply, const int fds[WIRE_FDS], struct buf *records)
{
    int error = reply->error ? reply->error : -keeper_read(fds[0], KEEPER_REPLY_BYTES, records);
    if (error == 0 && !change_records_are_valid(buf_bytes(records), buf_size(records))) {
        error = EPROTO;
    }
    if (error) {
        buf_clear(records, 0);
    }
    return error;
}

int box_count_processes(struct box *box, init_client_fn fn, void *arg)
{
    return box_ask(box, &(struct wire_request){.op = WIRE_COUNT}, fn, arg);
}

/* --- applying --- */

/* In the store: the journal outlives the server until it is carried out. */
#define JOURNAL_NAME "journal"
#define JOURNAL_FRESH "journal.new"

struct box_apply {
    struct box_apply *next; /* waits for this one */
    bool is_begun;
    struct box *box;
    struct path_list paths; /* borrowed */
    bool is_resumed;        /* only finishes what was left; for nobody */
    bool finishes;          /* at present the journal is the one that was left */
    box_apply_choose_fn choose;
    box_applied_fn done;
    void *arg;
    struct buf collected; /* the keeper's journal, and */
    int collected_fd;     /* where it reads what has become of the items */
    struct buf journal;   /* of the chosen items: the keeper cannot change it any more */
    int journal_fd;
    int dir_fd;
    int upper_fd;
    struct apply *process;
    bool again; /* the process was killed and has been started a second time */
};

/* A journal that was not carried out is finished before the next one: it knows which temporary
 * name is left. */
static void keep_journal(struct box_apply *apply)
{
    drop_fd(&apply->box->cow.left_journal_fd);
    drop_fd(&apply->box->cow.left_upper_fd);
    apply->box->cow.left_journal_fd = take_fd(&apply->journal_fd);
    apply->box->cow.left_upper_fd = take_fd(&apply->upper_fd);
}

static void remove_journal(struct box_apply *apply)
{
    int store_fd = box_store_fd(apply->box->spec);
    if (store_fd >= 0) {
        (void)unlinkat(store_fd, JOURNAL_NAME, 0);
    }
    drop_fd(&apply->journal_fd);
}

static int begin(struct box_apply *apply);

static void end(struct box_apply *apply, int error)
{
    box_applied_fn done = apply->done;
    void *arg = apply->arg;
    struct buf journal = apply->journal;
    struct box *box = apply->box;
    box->cow.applying = apply->next;
    apply_free(apply->process);
    buf_done(&apply->collected);
    own_close(&apply->collected_fd);
    own_close(&apply->journal_fd);
    own_close(&apply->dir_fd);
    own_close(&apply->upper_fd);
    free(apply);
    done(arg, error, buf_size(&journal) > 0 ? (const void *)buf_bytes(&journal) : NULL);
    buf_done(&journal);
    struct box_apply *next = box->cow.applying;
    if (next && !next->is_begun) {
        int r = box->state == BOX_DEAD ? -ECONNRESET : begin(next);
        if (r < 0) {
            end(next, -r);
        }
    }
}

/* Reads what the process has written, and passes it on to the keeper's journal. */
static int take_results(struct box_apply *apply)
{
    OWNED(buf_done) struct buf results = BUF_EMPTY;
    int r = keeper_read_own(apply->journal_fd, KEEPER_REPLY_BYTES, &results);
    if (r < 0 || !apply_journal_is_valid(buf_bytes(&results), buf_size(&results))) {
        return r ? r : -EPROTO;
    }
    struct buf before = apply->journal;
    apply->journal = results;
    results = before;
    struct apply_journal *to = (void *)apply->collected.data;
    const struct apply_journal *from = (const void *)apply->journal.data;
    struct apply_item *to_item = apply_journal_next(to, NULL);
    for (const struct apply_item *item = NULL; (item = apply_journal_next(from, item));) {
        while (to_item && strcmp(to_item->path, item->path) != 0) {
            to_item = apply_journal_next(to, to_item);
        }
        if (!to_item) {
            return -EPROTO;
        }
        to_item->status = item->status;
        to_item->error = item->error;
        to_item->after = item->after;
    }
    (void)pwrite(apply->collected_fd, to, buf_size(&apply->collected), 0);
    return 0;
}

/* A keeper that has died meanwhile has nothing to learn: the next one compares the files. */
static void keeper_informed(void *arg, const struct wire_reply *, int[WIRE_FDS])
{
    struct box_apply *apply = arg;
    const struct apply_journal *journal = (const void *)buf_bytes(&apply->journal);
    end(apply, journal->complete ? 0 : EINTR);
}

static int start_process(struct box_apply *apply);
static void collect(struct box_apply *apply);

static void process_ended(void *arg, bool completed)
{
    struct box_apply *apply = arg;
    apply_free(take_ptr(apply->process));
    int r = 0;
    if (!completed && !apply->again) { /* it was killed: another one continues */
        apply->again = true;
        r = start_process(apply);
        if (r == 0) {
            return;
        }
    }
    if (completed) {
        r = apply->finishes ? 0 : take_results(apply);
        remove_journal(apply);
    } else {
        r = apply->finishes ? -EINTR : take_results(apply);
        keep_journal(apply);
    }
    bool for_nobody = apply->finishes && apply->is_resumed;
    if (completed && for_nobody) {
        /* Has it compare the files before code changes them again: what has been applied is then
         * the base of the next change. */
        (void)box_ask_keeper(apply->box, &(struct wire_request){.op = KEEP_LIST}, NULL, NULL);
    }
    if (r < 0 || for_nobody) {
        end(apply, -r);
    } else if (apply->finishes) {
        collect(apply);
    } else if (box_ask_keeper(apply->box, &(struct wire_request){.op = KEEP_APPLIED},
                              keeper_informed, apply) < 0) {
        keeper_informed(apply, NULL, NULL);
    }
}

static int start_process(struct box_apply *apply)
{
    struct fail fail = {};
    const struct apply_setup setup = {.dir_fd = apply->dir_fd,
                                      .upper_fd = apply->upper_fd,
                                      .journal_fd = apply->journal_fd,
                                      .done = process_ended,
                                      .arg = apply};
    int r = apply_start(apply->box->loop, &setup, &apply->process, &fail);
    if (r < 0) {
        log_warn("apply", "%s", fail_text(&fail));
    }
    return r;
}

/* The user's directory, which the server has resolved at its start. 0 or -errno. */
static int open_directory(struct box_apply *apply)
{
    const char *path = apply->box->spec->workspace;
    int fd = fd_open_straight(path, O_RDONLY | O_DIRECTORY);
    apply->dir_fd = fd < 0 ? -1 : fd;
    return fd < 0 ? fd : 0;
}

/* Adds an item to the journal. 0 or -errno. */
static int add_item(struct buf *journal, const struct apply_item *item,
                    enum box_apply_choice choice)
{
    size_t at = buf_size(journal);
    int r = apply_journal_add(journal, item->path, &item->before, &item->source);
    if (r < 0) {
        return r;
    }
    struct apply_item *added = (void *)(journal->data + at);
    added->marks = item->marks;
    added->above = item->above;
    added->parent = item->parent;
    added->hash = item->hash;
    bool unseen = (S_ISREG(item->source.mode) && !item->hash) || item->marks & APPLY_UNREAD;
    if (choice != BOX_APPLY_TAKE) {
        added->status = APPLY_REFUSED;
        added->marks |= choice == BOX_APPLY_CACHE ? APPLY_CACHED : 0;
    } else if (unseen) { /* nobody can have seen it */
        added->status = APPLY_FAILED;
        added->error = EACCES;
    }
    return 0;
}

/* A new directory that tells only of what is in it is not made where nothing of that is applied. */
static void drop_empty(const struct apply_journal *journal)
{
    struct apply_item *item = NULL;
    while ((item = apply_journal_next(journal, item))) {
        const struct apply_item *below = item;
        bool implied = item->marks & APPLY_IMPLIED && S_ISDIR(item->source.mode) &&
                       item->before.mode == 0 && item->status == APPLY_TO_DO;
        bool holds = !implied;
        while (!holds && (below = apply_journal_next(journal, below)) &&
               apply_path_is_below(below->path, item->path)) {
            holds = below->status == APPLY_TO_DO && !(below->marks & APPLY_IMPLIED);
        }
        item->status = holds ? item->status : APPLY_REFUSED;
    }
}

/* Makes the journal of the items, those that are not chosen too. 0 or -errno; *ret_count: of the
 * chosen. */
static int choose_items(struct box_apply *apply, size_t *ret_count)
{
    *ret_count = 0;
    struct stat st;
    const struct apply_journal *collected = (const void *)buf_bytes(&apply->collected);
    if (fstat(apply->dir_fd, &st) < 0) {
        return -errno;
    }
    int r = apply_journal_begin(&apply->journal, st.st_uid, st.st_gid);
    if (r == 0) {
        memcpy(((struct apply_journal *)(void *)apply->journal.data)->key, collected->key,
               sizeof collected->key);
    }
    for (const struct apply_item *item = NULL;
         r == 0 && (item = apply_journal_next(collected, item));) {
        enum box_apply_choice choice = apply->choose(apply->arg, item);
        *ret_count += choice == BOX_APPLY_TAKE;
        r = choice == BOX_APPLY_LEAVE ? 0 : add_item(&apply->journal, item, choice);
    }
    if (r == 0) {
        drop_empty((const void *)buf_bytes(&apply->journal));
    }
    return r;
}

/* Writes it where the process, and maybe the next server, finds it. 0 or -errno. */
static int write_journal(struct box_apply *apply)
{
    int store_fd = box_store_fd(apply->box->spec);
    if (store_fd >= 0) {
        (void)unlinkat(store_fd, JOURNAL_FRESH, 0);
    }
    apply->journal_fd = store_fd < 0
                            ? memfd_create("sandpiper-journal", MFD_CLOEXEC)
                            : openat(store_fd, JOURNAL_FRESH,
                                     O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (apply->journal_fd < 0) {
        return -errno;
    }
    int r = fd_write_all(apply->journal_fd, buf_bytes(&apply->journal), buf_size(&apply->journal));
    return r < 0                                                                            ? r
           : store_fd >= 0 && renameat(store_fd, JOURNAL_FRESH, store_fd, JOURNAL_NAME) < 0 ? -errno
                                                                                            : 0;
}

static void journal_collected(void *arg, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    struct box_apply *apply = arg;
    apply->collected_fd = take_fd(&fds[0]);
    apply->upper_fd = take_fd(&fds[1]);
    int r = reply->error ? -reply->error
                         : keeper_read(apply->collected_fd, KEEPER_REPLY_BYTES, &apply->collected);
    if (r == 0 && (apply->upper_fd < 0 || !apply_journal_is_valid(buf_bytes(&apply->collected),
                                                                  buf_size(&apply->collected)))) {
        r = -EPROTO;
    }
    r = r ? r : open_directory(apply);
    size_t count = 0;
    r = r ? r : choose_items(apply, &count);
    if (r == 0 && count > 0) {
        r = write_journal(apply);
    }
    if (r < 0) {
        buf_done(&apply->journal); /* nothing was begun */
        apply->journal = BUF_EMPTY;
        end(apply, -r);
    } else if (count == 0) {
        end(apply, 0);
    } else {
        r = start_process(apply);
        if (r < 0) {
            end(apply, -r);
        }
    }
}

static void collect(struct box_apply *apply)
{
    apply->finishes = false;
    apply->again = false;
    drop_fd(&apply->dir_fd);
    drop_fd(&apply->upper_fd);
    int r = keeper_ask_paths(apply->box, &(struct wire_request){.op = KEEP_COLLECT}, apply->paths,
                             journal_collected, apply);
    if (r < 0) {
        end(apply, -r);
    }
}

static void add_target(void *arg, const char *path)
{
    (void)buf_append(arg, path, strlen(path) + 1);
}

void box_changes_find_rules(const struct box_spec *spec, struct refused_rules *ret)
{
    *ret = (struct refused_rules){.flags = directory_is_home(spec->workspace) ? REFUSED_HOME : 0};
    protect_find(spec->workspace, add_target, &ret->targets);
}

/* Ends the items of a store's journal that are applied only if named: nobody here knows that they
 * were. They stay changes. 0 or -errno */
static int refuse_unnamed(const struct box_spec *spec, int journal_fd)
{
    OWNED(buf_done) struct buf journal = BUF_EMPTY;
    OWNED(refused_rules_done) struct refused_rules rules = {};
    struct apply_item *item = NULL;
    struct refused refused;
    box_changes_find_rules(spec, &rules);
    int r = keeper_read_own(journal_fd, KEEPER_REPLY_BYTES, &journal);
    if (r < 0 || !apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal))) {
        return r < 0 ? r : -EBADMSG;
    }
    while ((item = apply_journal_next((const void *)buf_bytes(&journal), item))) {
        if (item->status == APPLY_TO_DO &&
            refused_find(&rules, item->path, item->marks & APPLY_BARE, NULL, 0, &refused)) {
            item->status = APPLY_FAILED;
            item->error = EPERM;
        }
    }
    ssize_t written = pwrite(journal_fd, buf_bytes(&journal), buf_size(&journal), 0);
    return written < 0 ? -errno : (size_t)written == buf_size(&journal) ? 0 : -EIO;
}

/* Starts the process for the journal that was left. 0 or -errno. */
static int finish_left(struct box_apply *apply)
{
    apply->finishes = true;
    apply->journal_fd = take_fd(&apply->box->cow.left_journal_fd);
    apply->upper_fd = take_fd(&apply->box->cow.left_upper_fd);
    int r = open_directory(apply);
    if (r == 0 && apply->is_resumed) {
        r = refuse_unnamed(apply->box->spec, apply->journal_fd);
    }
    r = r ? r : start_process(apply);
    if (r < 0) {
        keep_journal(apply);
    }
    return r;
}

static int begin(struct box_apply *apply)
{
    apply->is_begun = true;
    return apply->box->cow.left_journal_fd >= 0
               ? finish_left(apply)
               : keeper_ask_paths(apply->box, &(struct wire_request){.op = KEEP_COLLECT},
                                  apply->paths, journal_collected, apply);
}

/* Begins a copy of what is wanted, or has it wait for those before it. 0 or -errno */
static int add(const struct box_apply *wanted)
{
    struct box_apply *apply = malloc(sizeof *apply);
    struct box_apply **at = &wanted->box->cow.applying;
    if (!apply) {
        return -ENOMEM;
    }
    *apply = *wanted;
    apply->collected_fd = apply->journal_fd = apply->dir_fd = apply->upper_fd = -1;
    while (*at) {
        at = &(*at)->next;
    }
    *at = apply;
    int r = apply == wanted->box->cow.applying ? begin(apply) : 0;
    if (r < 0) {
        *at = NULL;
        own_close(&apply->dir_fd);
        free(apply);
    }
    return r;
}

int box_changes_apply(struct box *box, struct path_list paths, box_apply_choose_fn choose,
                      box_applied_fn done, void *arg)
{
    struct box_apply *running = box->cow.applying;
    if (running && running->is_resumed) { /* which goes on with this */
        running->is_resumed = false;
        running->paths = paths;
        running->choose = choose;
        running->done = done;
        running->arg = arg;
        return 0;
    }
    return add(&(struct box_apply){
        .box = box, .paths = paths, .choose = choose, .done = done, .arg = arg});
}

static void resumed(void *, int error, const struct apply_journal *)
{
    log_info("apply", "changes that an earlier server was applying: %s",
             error ? strerror(error) : "done");
}

void box_changes_resume(struct box *box)
{
    OWNED(buf_done) struct buf journal = BUF_EMPTY;
    int store_fd = box->installer ? -1 : box_store_fd(box->spec);
    int flags = O_NOFOLLOW | O_CLOEXEC;
    defer_close int fd = store_fd < 0 ? -1 : openat(store_fd, JOURNAL_NAME, O_RDWR | flags);
    if (store_fd < 0 || (fd < 0 && errno == ENOENT)) {
        return;
    }
    defer_close int upper_fd = openat(store_fd, "layers/upper", O_RDONLY | O_DIRECTORY | flags);
    if (fd < 0 || upper_fd < 0 || keeper_read_own(fd, KEEPER_REPLY_BYTES, &journal) < 0 ||
        !apply_journal_is_valid(buf_bytes(&journal), buf_size(&journal))) {
        log_warn("apply", "the journal in the store is damaged: nothing is continued");
        (void)unlinkat(store_fd, JOURNAL_NAME, 0);
        return;
    }
    box->cow.left_journal_fd = take_fd(&fd);
    box->cow.left_upper_fd = take_fd(&upper_fd);
    int r = add(&(struct box_apply){.box = box, .is_resumed = true, .done = resumed});
    if (r < 0) {
        resumed(NULL, -r, NULL);
    }
}

void box_changes_stop(struct box *box)
{
    struct box_apply *apply = box->cow.applying;
    if (apply && apply->process) { /* else the keeper's connection ends the request */
        apply_free(take_ptr(apply->process));
        if (!apply->finishes) {
            (void)take_results(apply);
        }
        end(apply, ECONNRESET);
    }
    drop_fd(&box->cow.left_journal_fd);
    drop_fd(&box->cow.left_upper_fd);
}
