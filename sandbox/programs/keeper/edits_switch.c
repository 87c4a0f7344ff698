/* Takes edits back, and repeats them: see edits.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/own.h"
#include "sandbox/programs/keeper/edits.h"

/* --- what has become of each path --- */

/* Before anything is done at path. */
static struct record *mention(struct keeper *keeper, struct edits_outcome *outcome,
                              const char *path)
{
    struct record *record = record_get(keeper, path);
    if (!record || record->mark) {
        return record;
    }
    if (outcome->count == outcome->space) {
        size_t space = outcome->space ? outcome->space * 2 : 32;
        struct record **list = realloc(outcome->list, space * sizeof(struct record *));
        if (!list) {
            return NULL;
        }
        outcome->list = list;
        outcome->space = space;
    }
    outcome->list[outcome->count++] = record;
    record->mark = 1 + PUT_BACK;
    (void)place_look(keeper->work_fd, path, &record->found, NULL);
    return record;
}

void edits_outcome_add(struct keeper *keeper, struct edits_outcome *outcome, const char *path,
                       enum put put)
{
    struct record *record = mention(keeper, outcome, path);
    if (record && put_is_back((enum put)(record->mark - 1))) {
        record->mark = 1 + (unsigned)put;
    }
}

void edits_outcome_tell(struct keeper *keeper, struct edits_outcome *outcome, put_fn done,
                        void *arg)
{
    for (size_t i = 0; i < outcome->count; i++) {
        struct record *record = outcome->list[i];
        struct apply_facts facts;
        enum put put = (enum put)(record->mark - 1);
        (void)place_look(keeper->work_fd, record->path, &facts, NULL);
        /* What came and went in between is not worth a name. */
        if (!put_is_back(put) || !facts_equal(&facts, &record->found)) {
            done(arg, put, record);
        }
        record->mark = 0;
    }
    for (size_t i = 0; i < outcome->left_count; i++) {
        version_release(keeper, &outcome->left[i]);
    }
    free(outcome->left);
    free(outcome->list);
    *outcome = (struct edits_outcome){};
}

/* --- a directory that moves back --- */

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

/* Whether an edit is known of something in the directory, or of itself. */
static bool has_edit(const struct keeper *keeper, const char *path)
{
    size_t size = strlen(path);
    for (const struct state *state = keeper->states; state; state = state->next) {
        for (size_t i = 0; i < state->edits.count; i++) {
            const struct edit *edit = state->edits.list[i];
            if (is_at(edit->path, path, size) || is_at(edit->target, path, size)) {
                return true;
            }
        }
    }
    return false;
}

static void check_entry(struct looking *looking, int dir_fd, const char *name)
{
    struct stat st;
    struct apply_facts facts;
    size_t size = strlen(looking->path);
    if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        size + strlen(name) + 2 > sizeof looking->path) {
        looking->as_known = false;
        return;
    }
    facts_of_stat(&st, &facts);
    bool is_old = facts.ctime_ns < looking->since_ns;
    if (!S_ISDIR(st.st_mode)) {
        const struct version *version = version_known(looking->keeper, &facts);
        looking->as_known = is_old || (version && version->found_ns < looking->since_ns);
        return;
    }
    (void)snprintf(looking->path + size, sizeof looking->path - size, "/%s", name);
    if (is_old || has_edit(looking->keeper, looking->path)) {
        look_into(looking, openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    } else {
        looking->as_known = false; /* it may have been moved here */
    }
    looking->path[size] = '\0';
}

/* Takes the descriptor. One for each level is open: there is a bound. */
static void look_into(struct looking *looking, int fd)
{
    DIR *directory = fd < 0 || looking->depth >= KEEPER_DEPTH ? NULL : fdopendir(fd);
    if (!directory) {
        looking->as_known = false;
        own_close(&fd);
        return;
    }
    looking->depth++;
    for (struct dirent *entry = readdir(directory); entry && looking->as_known;
         entry = readdir(directory)) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            check_entry(looking, fd, entry->d_name);
        }
    }
    looking->depth--;
    (void)closedir(directory);
}

/* Whether nothing but what is known has changed in a directory since. */
static bool is_as_known(const struct keeper *keeper, const char *path, int64_t since_ns)
{
    struct looking looking = {.keeper = keeper, .since_ns = since_ns, .as_known = true};
    (void)snprintf(looking.path, sizeof looking.path, "%s", path);
    look_into(&looking, place_open(keeper->work_fd, path, O_RDONLY | O_DIRECTORY));
    return looking.as_known;
}

/* --- one edit --- */

/* The version is at path now. */
static void see_at(struct keeper *keeper, const char *path, struct version *version)
{
    struct apply_facts facts;
    (void)place_look(keeper->work_fd, path, &facts, NULL);
    version_seen_as(keeper, version, &facts);
}

/* --- what does not come back --- */

/* The version stays replaced, because something else stands at its path. */
static void leave(struct edits_outcome *outcome, struct version *version)
{
    if (version->kind != KIND_FILE || version->bytes == 0) {
        return;
    }
    struct version **left =
        realloc(outcome->left, (outcome->left_count + 1) * sizeof(struct version *));
    if (left) {
        outcome->left = left;
        left[outcome->left_count++] = version_take(version);
    }
    outcome->left_lost = outcome->left_lost || !left;
}

/* Whether the file may be the last with what does not come back: where code has moved a file by
 * copying and removing it, and the user has put another one in its place; or where code has packed
 * files of which no copy could be kept. */
static bool is_last_copy(const struct edits_outcome *outcome, const struct version *version,
                         const struct version *wanted)
{
    enum { RATIO = 1024 }; /* that deflate can reach */
    bool is = outcome->left_lost ||
              (outcome->lost_bytes > 0 && version->kind == KIND_FILE && version->bytes > 0 &&
               ((!version->kept && wanted->kind == KIND_NONE) ||
                version->bytes >= outcome->lost_bytes / RATIO));
    for (size_t i = 0; i < outcome->left_count && !is && version->kind == KIND_FILE; i++) {
        const struct version *left = outcome->left[i];
        is = left->bytes == version->bytes &&
             (!left->kept || !version->kept || memcmp(left->data, version->data, left->bytes) == 0);
    }
    return is;
}

/* Whether the file at path has the version's content, in the very inode that had it: the edit has
 * changed its attributes. */
static bool is_same_file(const struct keeper *keeper, const struct edit *edit, const char *path,
                         const struct apply_facts *facts, const struct version *version)
{
    const struct apply_facts *was = &version->facts;
    if (version->kind != KIND_FILE || !S_ISREG(facts->mode) || was->inode != facts->inode ||
        version->bytes != facts->bytes) {
        return false;
    }
    if (!edit->writes && was->mtime_ns == facts->mtime_ns) {
        return true; /* also of one that is too large to copy */
    }
    char *data = version->kept ? malloc(facts->bytes + 1) : NULL;
    bool same = data && place_content(keeper->work_fd, path, facts, data) &&
                memcmp(data, version->data, facts->bytes) == 0;
    free(data);
    return same;
}

/* At path, the version there gives way to another one. */
static enum put put_content(struct keeper *keeper, const struct edits_outcome *outcome,
                            const struct edit *edit, struct version *there, struct version *wanted)
{
    const char *path = edit_place(edit);
    struct apply_facts facts = {};
    unsigned links = 0;
    if (place_look(keeper->work_fd, path, &facts, &links) < 0 || !version_is_at(there, &facts) ||
        (edit->linked && S_ISREG(facts.mode) && links < 2)) { /* the file's last name */
        return PUT_STAYS;
    }
    if (S_ISDIR(facts.mode) && wanted->kind == KIND_DIRECTORY &&
        (facts.mode & ACCESSPERMS) != there->mode) {
        return PUT_STAYS; /* the user has changed the mode */
    }
    bool same = is_same_file(keeper, edit, path, &facts, wanted);
    if (wanted->kind == KIND_OTHER || (!wanted->kept && !same)) {
        return PUT_MISSED;
    }
    place_keep(keeper, path, there); /* so that the opposite is possible */
    if (!same && is_last_copy(outcome, there, wanted)) {
        return PUT_STAYS;
    }
    struct apply_facts now;
    int r = same ? place_set_attributes(keeper, path, wanted, &facts, &now)
                 : place_put(keeper, path, wanted, &facts, &now);
    if (r < 0) {
        return r == -ESTALE || r == -ENOTEMPTY || r == -EEXIST ? PUT_STAYS : PUT_MISSED;
    }
    if (same && !is_same_file(keeper, edit, path, &now, wanted)) {
        now = (struct apply_facts){};
    }
    version_seen_as(keeper, wanted, &now);
    return same || there->kept || there->kind != KIND_FILE ? PUT_BACK : PUT_FOR_GOOD;
}

static enum put move(struct keeper *keeper, const char *from, const char *to, struct version *what)
{
    struct apply_facts facts = {};
    if (place_look(keeper->work_fd, from, &facts, NULL) < 0 || !version_is_at(what, &facts) ||
        (S_ISDIR(facts.mode) && !is_as_known(keeper, from, what->facts.ctime_ns))) {
        return PUT_STAYS;
    }
    struct apply_facts now;
    int r = place_move(keeper, from, to, &facts, &now);
    if (r < 0) {
        return r == -ESTALE ? PUT_STAYS : PUT_MISSED;
    }
    version_seen_as(keeper, what, &now);
    return PUT_BACK;
}

static struct version none = {.kind = KIND_NONE, .kept = true};

static void take_back(struct keeper *keeper, struct edit *edit, struct edits_outcome *outcome)
{
    const char *place = edit_place(edit);
    (void)mention(keeper, outcome, edit->path);
    (void)mention(keeper, outcome, place);
    enum put put = edit->held    ? PUT_STAYS
                   : edit->moves ? move(keeper, edit->target, edit->path, edit->to)
                                 : put_content(keeper, outcome, edit, edit->to, edit->from);
    if (put == PUT_BACK && edit->moves && edit->from->kind != KIND_NONE) {
        put = put_content(keeper, outcome, edit, &none, edit->from);
    }
    if (!put_is_back(put)) {
        leave(outcome, edit->from);
    }
    edits_outcome_add(keeper, outcome, place, put);
}

/* Whether what the edit moves is there, as far as is known. */
static bool is_source(const struct keeper *keeper, const struct edit *edit)
{
    struct apply_facts facts;
    return place_look(keeper->work_fd, edit->path, &facts, NULL) == 0 &&
           version_is_at(edit->to, &facts) && edit->from->kept;
}

static void repeat(struct keeper *keeper, struct edit *edit, struct edits_outcome *outcome)
{
    const char *place = edit_place(edit);
    enum put put = PUT_BACK;
    if (edit->held) {
        return; /* it was not taken back */
    }
    (void)mention(keeper, outcome, edit->path);
    (void)mention(keeper, outcome, place);
    bool replaces = edit->moves && edit->from->kind != KIND_NONE;
    if (replaces && !is_source(keeper, edit)) {
        put = PUT_STAYS;
    } else if (replaces) {
        put = put_content(keeper, outcome, edit, edit->from, &none);
    }
    if (put_is_back(put)) {
        put = edit->moves ? move(keeper, edit->path, edit->target, edit->to)
                          : put_content(keeper, outcome, edit, edit->from, edit->to);
        if (replaces && !put_is_back(put)) { /* what it would have replaced */
            (void)put_content(keeper, outcome, edit, &none, edit->from);
        }
    }
    edits_outcome_add(keeper, outcome, place, put);
}

bool edits_hold(struct keeper *keeper, const struct edits *edits)
{
    bool more = false;
    for (size_t i = 0; i < edits->count; i++) {
        struct edit *edit = edits->list[i];
        struct record *source = record_get(keeper, edit->path);
        struct record *target = edit->target ? record_get(keeper, edit->target) : NULL;
        bool held = edit->unsure || (source && source->held) || (target && target->held);
        if (source) {
            source->held = held;
        }
        if (target) {
            target->held = held;
        }
        more = more || held != edit->held;
        edit->held = held;
    }
    return more;
}

void edits_find_lost(const struct state *state, struct edits_outcome *outcome)
{
    uint64_t lost_bytes = state->lost_bytes;
    for (size_t i = 0; i < state->edits.count; i++) {
        const struct edit *edit = state->edits.list[i];
        const struct version *from = edit->from;
        bool lost = from->kind == KIND_FILE && !from->kept && from->bytes > lost_bytes &&
                    (edit->moves || edit->writes || edit->to->kind != KIND_FILE);
        lost_bytes = lost ? from->bytes : lost_bytes;
    }
    outcome->lost_bytes = lost_bytes > outcome->lost_bytes ? lost_bytes : outcome->lost_bytes;
}

void edits_switch(struct keeper *keeper, struct state *state, bool back,
                  struct edits_outcome *outcome)
{
    const struct edits *edits = &state->edits;
    for (size_t i = 0; i < edits->count; i++) {
        if (back) {
            take_back(keeper, edits->list[edits->count - 1 - i], outcome);
        } else {
            repeat(keeper, edits->list[i], outcome);
        }
    }
}

void edits_end_directories(struct keeper *keeper, const struct edits *edits, bool back)
{
    for (size_t i = 0; i < edits->count; i++) {
        const struct edit *edit = edits->list[i];
        struct version *version = back ? edit->from : edit->to;
        struct apply_facts facts;
        if (!edit->moves && version->kind == KIND_DIRECTORY &&
            place_look(keeper->work_fd, edit->path, &facts, NULL) == 0 &&
            version_is_at(version, &facts) && (facts.mode & ACCESSPERMS) == version->mode) {
            place_end_directory(keeper, edit->path, version);
            see_at(keeper, edit->path, version);
        }
    }
}
