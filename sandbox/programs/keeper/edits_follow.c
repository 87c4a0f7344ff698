/* What inotify reports of edits, and what has become of them: see edits.h. */
#include "sandbox/programs/keeper/edits_follow.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/list.h"
#include "base/own.h"
#include "sandbox/programs/keeper/edits_trial.h"

enum {
    EVENTS = IN_OPEN | IN_CLOSE | IN_CREATE | IN_DELETE | IN_MOVE,
    DIRECTORIES = 2000, /* watched: they count for the user outside, and code chooses how many */
    READS = 256,        /* more than a queue holds, inotify(7): code can fill it as fast */
};

const char *edits_last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* --- the active edits, by what inotify reports --- */

static struct edit **bucket_of(struct keeper *keeper, int watch, const char *name)
{
    return &keeper->edits.active[(table_hash(name) + (uint32_t)watch) % KEEPER_KNOWN];
}

void edit_activate(struct keeper *keeper, struct edit *edit)
{
    struct edit **bucket = bucket_of(keeper, edit->watch, edits_last_part(edit_place(edit)));
    edit->next = *bucket;
    *bucket = edit;
    edit->active = true;
}

void edit_deactivate(struct keeper *keeper, struct edit *edit)
{
    if (edit->active) {
        list_remove(bucket_of(keeper, edit->watch, edits_last_part(edit_place(edit))), edit);
        edit->active = false;
    }
}

/* The state's latest edit that ends at the name. */
struct edit *edit_active(struct keeper *keeper, const struct state *state, int watch,
                         const char *name)
{
    struct edit *edit = *bucket_of(keeper, watch, name);
    while (edit && (edit->state != state->id || edit->watch != watch ||
                    strcmp(edits_last_part(edit_place(edit)), name) != 0)) {
        edit = edit->next;
    }
    return edit;
}

int edits_watch(struct keeper *keeper, const char *path, uint64_t *ret_inode)
{
    struct stat st;
    const char *name = NULL;
    defer_close int fd = place_parent(keeper->work_fd, path, &name);
    /* By the descriptor, which no change of names leads elsewhere. */
    bool there =
        keeper->edits.fd >= 0 && fd >= 0 && keeper->edits.watches < DIRECTORIES && fchdir(fd) == 0;
    int watch = there ? inotify_add_watch(keeper->edits.fd, ".", EVENTS) : -1;
    if (watch > keeper->edits.last) { /* a new one: their numbers rise */
        keeper->edits.last = watch;
        keeper->edits.watches++;
    }
    (void)fchdir(keeper->work_fd); /* a directory that is removed would stay */
    *ret_inode = fd >= 0 && fstat(fd, &st) == 0 ? st.st_ino : 0;
    return watch;
}

struct edit *edit_latest(struct keeper *keeper, const struct state *state, const char *path)
{
    uint64_t inode = 0;
    int watch = edits_watch(keeper, path, &inode);
    return edit_active(keeper, state, watch, edits_last_part(path));
}

/* --- what has become of an edit --- */

struct apply_facts edits_facts_at(const struct keeper *keeper, const char *path)
{
    struct apply_facts facts;
    (void)place_look(keeper->work_fd, path, &facts, NULL);
    return facts;
}

/* What is where the edit ends. Where the user has put another directory in the place of that which
 * is watched, nothing is known of what is there. */
static struct apply_facts facts_of(const struct keeper *keeper, struct edit *edit)
{
    const char *name = NULL;
    struct stat st;
    defer_close int fd = place_parent(keeper->work_fd, edit_place(edit), &name);
    struct apply_facts facts = {};
    edit->unsure = edit->unsure || fd < 0 || fstat(fd, &st) < 0 || st.st_ino != edit->parent;
    if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
        facts = apply_facts_of(&st);
    }
    return facts;
}

/* Whether the facts are what the edit leads to. */
static bool is_expected(const struct keeper *keeper, const struct edit *edit,
                        const struct apply_facts *facts)
{
    if (edit->inode &&
        (facts->inode != edit->inode ||
         (edit->writes && !edit->resets && (facts->mode & ACCESSPERMS) != edit->mode))) {
        return false; /* the user has put another file in its place, or changed the mode */
    }
    if (edit->moves) {
        bool same = S_ISDIR(facts->mode) ? facts->inode == edit->to->facts.inode
                                         : apply_facts_equal_moved(facts, &edit->to->facts);
        return facts->mode && same && edits_facts_at(keeper, edit->path).mode == 0;
    }
    return edit->to->kind == KIND_OTHER ? facts->mode != 0
                                        : edit->to->kind == kind_of_mode(facts->mode);
}

static void see(struct keeper *keeper, struct edit *edit, const struct apply_facts *facts)
{
    bool is_new = !edit->moves && !edit->ended && edit->to->kind != KIND_NONE;
    edit->ended = true;
    if (is_new) {
        version_describe(edit->to, facts); /* an undo makes a copy */
    }
    version_seen_as(keeper, edit->to, facts);
}

/* Something was reported that may be the edit's end. */
static void check_end(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    if (is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
    }
}

static void follow_event(struct keeper *keeper, struct edit *edit, uint32_t mask)
{
    if (mask & edit->awaits) {
        edit->awaits = 0;
        if (!edit->writes) {
            check_end(keeper, edit);
        }
    } else if (mask & (IN_CREATE | IN_DELETE | IN_MOVE)) {
        edit->unsure = true; /* of somebody else: the session would have reported it */
    } else if (!(mask & IN_ISDIR)) {
        edit->opens += (mask & IN_OPEN) != 0;
        edit->opens -= mask & IN_CLOSE_NOWRITE && edit->opens > edit->closes;
        edit->closes += (mask & IN_CLOSE_WRITE) != 0;
        edit->unsure = edit->unsure || edit->closes > edit->touches;
        if (mask & IN_CLOSE_WRITE && edit->closes == edit->touches) {
            edit->ended = false;
            check_end(keeper, edit);
        }
    }
}

static void all_unsure(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        for (struct edit *edit = keeper->edits.active[i]; edit; edit = edit->next) {
            edit->unsure = true;
        }
    }
}

static void follow_one(struct keeper *keeper, const struct inotify_event *event)
{
    struct edit *edit = event->len > 0 ? *bucket_of(keeper, event->wd, event->name) : NULL;
    for (; edit; edit = edit->next) {
        if (edit->watch == event->wd &&
            strcmp(edits_last_part(edit_place(edit)), event->name) == 0) {
            follow_event(keeper, edit, event->mask);
        }
    }
    if (event->mask & IN_Q_OVERFLOW) {
        all_unsure(keeper);
    }
}

void edits_follow(struct keeper *keeper)
{
    alignas(struct inotify_event) char events[16384];
    ssize_t size = keeper->edits.fd >= 0 ? 1 : 0;
    for (unsigned i = 0; i < READS && size > 0; i++) {
        const struct inotify_event *event = NULL;
        size = read(keeper->edits.fd, events, sizeof events);
        for (ssize_t at = 0; at < size; at += (ssize_t)(sizeof *event + event->len)) {
            event = (const void *)(events + at);
            follow_one(keeper, event);
        }
    }
    if (size > 0) {
        all_unsure(keeper);
    }
}

/* Whether it is not certain that a file is closed: somebody can write to it, or it was opened more
 * often than closed and nobody has it open, so that inotify has made one event of several. */
static bool is_unclear(const struct keeper *keeper, const struct edit *edit)
{
    defer_close int fd =
        fd_open_beneath(keeper->work_fd, edit_place(edit), O_RDONLY | O_NONBLOCK | O_NOCTTY);
    return fd < 0 || fd_is_written(fd) != 0 || (edit->opens > edit->closes && fd_is_open(fd) != 1);
}

/* Whether nothing has changed at all: the call of the system failed. */
bool edit_is_void(const struct keeper *keeper, const struct edit *edit,
                  const struct apply_facts *facts)
{
    if (edit->moves) {
        struct apply_facts source = edits_facts_at(keeper, edit->path);
        return source.mode && source.inode == edit->to->facts.inode;
    }
    bool was_none = edit->from->kind == KIND_NONE;
    return was_none ? facts->mode == 0 : apply_facts_alike(facts, &edit->from->facts);
}

/* The call has ended, or goes on with something else at the same name. */
void edit_resolve(struct keeper *keeper, struct edit *edit)
{
    struct apply_facts facts = facts_of(keeper, edit);
    edit_deactivate(keeper, edit);
    if (!edit->ended && edit_is_void(keeper, edit, &facts)) {
        edit->nothing = true;
        return;
    }
    if (!edit->ended && !edit->writes && !edit->awaits && is_expected(keeper, edit, &facts)) {
        see(keeper, edit, &facts);
    }
    bool open = edit->writes && S_ISREG(facts.mode) && is_unclear(keeper, edit);
    edit->unsure =
        edit->unsure || edit->watch < 0 || !edit->ended || open || !version_is_at(edit->to, &facts);
}

void edits_forget_watches(struct keeper *keeper)
{
    for (size_t i = 0; i < KEEPER_KNOWN; i++) {
        if (keeper->edits.active[i]) {
            return; /* of a call that runs */
        }
    }
    own_close(&keeper->edits.fd);
    keeper->edits.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    keeper->edits.last = 0;
    keeper->edits.watches = 0;
}

/* Whether all that is in a directory is known, before it moves back with it. */

struct looking {
    const struct keeper *keeper;
    int64_t since_ns;
    bool as_known;
    unsigned depth;
    char path[KEEPER_PATH_BYTES];
};

static void look_into(struct looking *looking, int fd);

/* Whether the path is the directory, or a name in it. */
static bool is_at(const char *path, const char *directory, size_t size)
{
    return path && strncmp(path, directory, size) == 0 &&
           (!path[size] || strrchr(path, '/') == path + size);
}

/* Whether an edit is known of something in the directory, also when that had another name, or of
 * itself. */
static bool has_edit(const struct keeper *keeper, const char *path, uint64_t inode)
{
    size_t size = strlen(path);
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (edit->parent == inode || edit->to->facts.inode == inode ||
                is_at(edit->path, path, size) || is_at(edit->target, path, size)) {
                return true;
            }
        }
    }
    return false;
}

static void check_entry(struct looking *looking, int dir_fd, const char *name)
{
    struct stat st;
    size_t size = strlen(looking->path);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        size + strlen(name) + 2 > sizeof looking->path) {
        looking->as_known = false;
        return;
    }
    struct apply_facts facts = apply_facts_of(&st);
    bool is_old = facts.ctime_ns < looking->since_ns;
    if (!S_ISDIR(st.st_mode)) {
        const struct version *version = version_known(looking->keeper, &facts);
        looking->as_known = is_old || (version && version->found_ns < looking->since_ns);
        return;
    }
    (void)snprintf(looking->path + size, sizeof looking->path - size, "/%s", name);
    if (is_old || has_edit(looking->keeper, looking->path, facts.inode)) {
        look_into(looking, openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    } else {
        looking->as_known = false; /* it may have been moved here */
    }
    looking->path[size] = '\0';
}

/* Takes the descriptor. One for each level is open: there is a bound. */
static void look_into(struct looking *looking, int fd)
{
    defer_closedir DIR *directory = fd_directory(fd);
    const char *name = NULL;
    looking->as_known = looking->as_known && directory && looking->depth < KEEPER_DEPTH;
    looking->depth++;
    while (looking->as_known && (name = fd_next_name(directory))) {
        check_entry(looking, fd, name);
    }
    looking->depth--;
}

bool edits_is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns)
{
    struct looking looking = {.keeper = keeper, .since_ns = since_ns, .as_known = true};
    (void)snprintf(looking.path, sizeof looking.path, "%s", path);
    look_into(&looking, fd_open_beneath(keeper->work_fd, path, O_RDONLY | O_DIRECTORY));
    return looking.as_known;
}

/* Lists of edits: see edits.h. */

void edit_free(struct keeper *keeper, struct edit *edit)
{
    version_release(keeper, &edit->from);
    version_release(keeper, &edit->to);
    keeper->records.name_bytes -= edit->name_bytes;
    free(edit->path);
    free(edit->target);
    free(edit);
}

bool edits_add(struct edits *edits, struct edit *edit)
{
    struct edit **list = list_grow(edits->list, edits->count, &edits->space, sizeof(struct edit *));
    if (!list) {
        return false;
    }
    edits->list = list;
    list[edits->count++] = edit;
    return true;
}

struct each {
    edit_fn fn;
    void *arg;
};

static void each_of_state(void *arg, struct state *state, bool back)
{
    const struct each *each = arg;
    for (size_t i = 0; i < state->edits.count; i++) {
        each->fn(each->arg, state->edits.list[back ? state->edits.count - 1 - i : i], back);
    }
}

void edits_each(const struct way *way, edit_fn fn, void *arg)
{
    way_each(way, each_of_state, &(struct each){fn, arg});
}

bool edits_prepend(struct keeper *keeper, struct edits *edits, struct edits *to)
{
    bool whole = true;
    for (size_t i = 0; i < edits->count; i++) {
        edit_deactivate(keeper, edits->list[i]);
    }
    for (size_t i = 0; i < to->count; i++) {
        if (!edits_add(edits, to->list[i])) {
            edit_deactivate(keeper, to->list[i]);
            edit_free(keeper, to->list[i]);
            whole = false;
        }
    }
    free(to->list);
    edits->lost = edits->lost || to->lost || !whole;
    *to = *edits;
    *edits = (struct edits){};
    return whole;
}
