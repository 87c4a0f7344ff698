#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "sandbox/programs/keeper/keeper.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

enum { PATHS = 7, STATES = 24, ROUNDS = 300, WALKS = 12, LIMIT_BYTES = 1 << 20, NOBODY = 65534 };

static const char *const paths[PATHS] = {"a", "b", "d/x", "d/y", "d/deep/z", "e", "d.txt"};

/* A keeper of a directory, and the number of each result of a switch. */
struct fixture {
    struct temp temp;
    struct keeper keeper;
    uint32_t last;
    unsigned put[PUT_MISSED + 1];
};

/* What is at each path: 0: nothing; else its size tells the values apart, and the value its type.
 */
typedef unsigned snapshot[PATHS];

static void make(struct fixture *fixture)
{
    *fixture = (struct fixture){.keeper = {.upper_fd = -1,
                                           .lower_fd = -1,
                                           .store_fd = -1,
                                           .output_fd = -1,
                                           .watch.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
                                           .own = true,
                                           .limit_bytes = LIMIT_BYTES}};
    assert_true(fixture->keeper.watch.fd >= 0);
    temp_make(&fixture->temp);
    fixture->keeper.work_fd = fixture->temp.fd;
    states_look(&fixture->keeper);
}

static void keep(struct fixture *fixture, uint32_t owner, const uint32_t *states, uint32_t count)
{
    struct keep_states keep = {.session = owner, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        keep.list[i] = states[i];
    }
    states_keep(&fixture->keeper, &keep);
}

/* Ends with all memory freed: sanitizers see the rest. */
static void done(struct fixture *fixture)
{
    keep(fixture, 1, NULL, 0);
    keep(fixture, 2, NULL, 0);
    assert_null(fixture->keeper.states);
    struct records_at at = {};
    for (struct record *record = NULL; (record = records_next(&fixture->keeper, &at));) {
        assert_int_equal(record->steps, 0); /* no state is left to refer to it */
        record_drop(&fixture->keeper, record);
    }
    versions_forget(&fixture->keeper);
    assert_int_equal(fixture->keeper.used_bytes, 0);
    free(fixture->keeper.records.buckets);
    own_close(&fixture->keeper.watch.fd);
    assert_int_equal(chdir("/"), 0);
    temp_remove(&fixture->temp);
}

static uint32_t begin(struct fixture *fixture, uint32_t owner, uint32_t from)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_REALTIME_COARSE, &now), 0);
    const struct keep_begin request = {
        .session = owner,
        .from = from,
        .to = ++fixture->last,
        .looks = 1,
        .since_ns = now.tv_sec * 1000000000 + now.tv_nsec,
    };
    assert_int_equal(states_begin(&fixture->keeper, &request), 0);
    return fixture->last;
}

static void count_change(void *arg, const struct record *, const struct version *)
{
    ++*(unsigned *)arg;
}

/* Returns how many changes are reported. */
static unsigned end(struct fixture *fixture, uint32_t to)
{
    unsigned changes = 0;
    assert_int_equal(
        states_end(&fixture->keeper, &(struct keep_end){.to = to}, count_change, &changes), 0);
    return changes;
}

static void count_put(void *arg, enum put put, const struct record *)
{
    ((struct fixture *)arg)->put[put]++;
}

static int go(struct fixture *fixture, uint32_t from, uint32_t to)
{
    memset(fixture->put, 0, sizeof fixture->put);
    return states_switch(&fixture->keeper, &(struct keep_switch){from, to}, count_put, fixture);
}

static void write_text(const struct fixture *fixture, const char *name, const char *text)
{
    temp_file(&fixture->temp, name, text, 0644);
}

static void assert_text(const struct fixture *fixture, const char *name, const char *text)
{
    char have[64] = "";
    int fd = openat(fixture->temp.fd, name, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fd >= 0, text != NULL);
    if (fd >= 0) {
        assert_true(read(fd, have, sizeof have - 1) >= 0);
        assert_string_equal(have, text);
        (void)close(fd);
    }
}

/* --- any state from any other --- */

static void put_value(const struct fixture *fixture, unsigned i, unsigned value)
{
    char text[LIMIT_PATH_BYTES];
    int fd = fixture->temp.fd;
    if (unlinkat(fd, paths[i], 0) < 0 && errno != ENOENT) {
        assert_int_equal(unlinkat(fd, paths[i], AT_REMOVEDIR), 0);
    }
    memset(text, 'x', value);
    text[value] = '\0';
    if (value == 0) {
        (void)unlinkat(fd, "d/deep", AT_REMOVEDIR); /* where they are empty */
        (void)unlinkat(fd, "d", AT_REMOVEDIR);
    } else if (value % 5 == 1) {
        temp_link(&fixture->temp, text, paths[i]);
    } else if (value % 5 == 2) {
        temp_directory(&fixture->temp, paths[i]);
        assert_int_equal(fchmodat(fd, paths[i], value % 2 ? 0700 : 0755, 0), 0);
    } else {
        temp_file(&fixture->temp, paths[i], text, value % 2 ? 0644 : 0755);
    }
}

static void assert_value(const struct fixture *fixture, unsigned i, unsigned value)
{
    struct stat st = {};
    (void)fstatat(fixture->temp.fd, paths[i], &st, AT_SYMLINK_NOFOLLOW);
    if (value == 0) {
        assert_int_equal(st.st_mode, 0);
    } else if (value % 5 == 1) {
        assert_true(S_ISLNK(st.st_mode));
        assert_int_equal(st.st_size, value);
    } else if (value % 5 == 2) {
        assert_int_equal(st.st_mode, S_IFDIR | (value % 2 ? 0700 : 0755));
    } else {
        assert_int_equal(st.st_mode, S_IFREG | (value % 2 ? 0644 : 0755));
        assert_int_equal(st.st_size, value);
    }
}

struct tree {
    snapshot states[STATES];
    uint32_t ids[STATES];
    bool kept[STATES];
    unsigned count;
};

static void keep_some(struct fixture *fixture, struct tree *tree, unsigned at)
{
    uint32_t states[STATES];
    uint32_t count = 0;
    for (unsigned i = 0; i < tree->count; i++) {
        tree->kept[i] = tree->kept[i] && (i == at || rand() % 8 != 0);
        states[count] = tree->ids[i];
        count += tree->kept[i];
    }
    keep(fixture, 1, states, count);
}

static unsigned add_state(struct fixture *fixture, struct tree *tree, unsigned at)
{
    static unsigned value;
    unsigned next = tree->count++;
    memcpy(tree->states[next], tree->states[at], sizeof(snapshot));
    tree->ids[next] = begin(fixture, 1, tree->ids[at]);
    tree->kept[next] = true;
    for (unsigned changes = (unsigned)rand() % 4; changes > 0; changes--) {
        unsigned i = (unsigned)rand() % PATHS;
        unsigned now = rand() % 3 == 0 ? 0 : 1 + value++ % 3000;
        put_value(fixture, i, now);
        tree->states[next][i] = now;
    }
    (void)end(fixture, tree->ids[next]);
    return next;
}

static void each_state_comes_back_from_each_other(void **)
{
    srand(1);
    for (unsigned walk = 0; walk < WALKS; walk++) {
        static struct tree tree;
        struct fixture fixture;
        make(&fixture);
        if (walk % 2 == 0) { /* half of the walks scan each time */
            own_close(&fixture.keeper.watch.fd);
            fixture.keeper.watch.on = false;
        }
        tree = (struct tree){.ids = {++fixture.last}, .kept = {true}, .count = 1};
        unsigned at = 0;
        for (unsigned round = 0; round < ROUNDS; round++) {
            unsigned goal = (unsigned)rand() % tree.count;
            if (tree.count < STATES && rand() % 4 == 0) {
                at = add_state(&fixture, &tree, at);
                continue;
            }
            if (rand() % 40 == 0 && tree.count > 1) {
                keep_some(&fixture, &tree, at);
            }
            if (!tree.kept[goal] || tree.count == 1) {
                continue;
            }
            assert_int_equal(go(&fixture, tree.ids[at], tree.ids[goal]), 0);
            at = goal;
            assert_int_equal(fixture.put[PUT_STAYS] + fixture.put[PUT_MISSED], 0);
            for (unsigned i = 0; i < PATHS; i++) {
                assert_value(&fixture, i, tree.states[at][i]);
            }
        }
        done(&fixture);
    }
}

/* --- what does not come back --- */

static void what_else_has_changed_a_file_stays(void **)
{
    struct fixture fixture;
    make(&fixture);
    uint32_t first = begin(&fixture, 1, 0);
    write_text(&fixture, "a", "first");
    write_text(&fixture, "b", "b");
    assert_int_equal(end(&fixture, first), 2);
    uint32_t second = begin(&fixture, 1, first);
    write_text(&fixture, "a", "by the call");
    write_text(&fixture, "gone", "by the call");
    write_text(&fixture, "b", "by the call");
    assert_int_equal(end(&fixture, second), 3);
    write_text(&fixture, "a", "by a file tool");
    states_note_path(&fixture.keeper, "a");
    assert_int_equal(unlinkat(fixture.temp.fd, "gone", 0), 0);
    assert_int_equal(go(&fixture, second, first), 0);
    assert_text(&fixture, "a", "by a file tool");
    assert_text(&fixture, "b", "b");
    assert_int_equal(fixture.put[PUT_BACK], 1);
    assert_int_equal(fixture.put[PUT_STAYS], 1); /* what is gone is as undo wants it */
    done(&fixture);
}

static void of_two_calls_at_once_neither_takes_back_what_both_may_have_made(void **)
{
    struct fixture fixture;
    make(&fixture);
    uint32_t mine = begin(&fixture, 1, 0);
    (void)end(&fixture, mine);
    uint32_t other = begin(&fixture, 2, 0);
    (void)end(&fixture, other);
    uint32_t job = begin(&fixture, 1, mine);
    uint32_t beside = begin(&fixture, 2, other);
    write_text(&fixture, "a", "whose?");
    (void)end(&fixture, beside);
    (void)end(&fixture, job);
    assert_int_equal(go(&fixture, job, mine), 0);
    assert_int_equal(fixture.put[PUT_STAYS], 1);
    assert_int_equal(go(&fixture, beside, other), 0);
    assert_int_equal(fixture.put[PUT_STAYS], 1);
    assert_text(&fixture, "a", "whose?");
    done(&fixture);
}

static void a_call_takes_back_what_it_says_is_its_own(void **)
{
    struct fixture fixture;
    make(&fixture);
    uint32_t mine = begin(&fixture, 1, 0);
    (void)end(&fixture, mine);
    uint32_t job = begin(&fixture, 1, mine);
    uint32_t beside = begin(&fixture, 2, 0);
    char name[] = "a";
    char *claims[] = {name};
    write_text(&fixture, "a", "the job's");
    fixture.keeper.filters.list = claims;
    fixture.keeper.filters.count = 1;
    assert_int_equal(end(&fixture, job), 1);
    fixture.keeper.filters.list = NULL;
    fixture.keeper.filters.count = 0;
    assert_int_equal(end(&fixture, beside), 0);
    assert_int_equal(go(&fixture, job, mine), 0);
    assert_text(&fixture, "a", NULL);
    done(&fixture);
}

static void without_space_for_its_copy_a_file_is_missed(void **)
{
    struct fixture fixture;
    make(&fixture);
    fixture.keeper.limit_bytes = 10;
    uint32_t first = begin(&fixture, 1, 0);
    write_text(&fixture, "a", "more than ten bytes");
    write_text(&fixture, "b", "few");
    assert_int_equal(end(&fixture, first), 2);
    assert_int_equal(fixture.keeper.used_bytes, 3);
    uint32_t second = begin(&fixture, 1, first);
    write_text(&fixture, "a", "second");
    write_text(&fixture, "b", "");
    assert_int_equal(end(&fixture, second), 2);
    uint32_t third = begin(&fixture, 1, second);
    write_text(&fixture, "c", "123456789");
    assert_int_equal(end(&fixture, third), 1);
    assert_true(fixture.keeper.used_bytes <= 10);
    assert_int_equal(go(&fixture, third, first), 0);
    assert_int_equal(fixture.put[PUT_MISSED], 1);
    assert_text(&fixture, "a", "second");
    assert_text(&fixture, "b", "few");
    done(&fixture);
}

static void a_file_of_other_times_only_is_put_back_without_a_word(void **)
{
    static const struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    struct stat st;
    struct fixture fixture;
    make(&fixture);
    uint32_t first = begin(&fixture, 1, 0);
    write_text(&fixture, "a", "a");
    (void)end(&fixture, first);
    uint32_t second = begin(&fixture, 1, first);
    assert_int_equal(utimensat(fixture.temp.fd, "a", old, 0), 0);
    assert_int_equal(end(&fixture, second), 1);
    assert_int_equal(go(&fixture, second, first), 0);
    assert_int_equal(fixture.put[PUT_BACK], 0);
    assert_int_equal(fstatat(fixture.temp.fd, "a", &st, 0), 0);
    assert_true(st.st_mtim.tv_sec > 1);
    done(&fixture);
}

/* --- names that change hands --- */

static void rename_at(const struct fixture *fixture, const char *from, const char *to)
{
    assert_int_equal(renameat(fixture->temp.fd, from, fixture->temp.fd, to), 0);
}

static void make_directory(const struct fixture *fixture, const char *name)
{
    assert_int_equal(mkdirat(fixture->temp.fd, name, 0755), 0);
}

/* Time that the clock of file times takes note of. */
static void pass_time(void)
{
    (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void a_directory_that_takes_the_name_of_another_goes_back(void **)
{
    struct fixture fixture;
    make(&fixture);
    make_directory(&fixture, "d");
    make_directory(&fixture, "x");
    write_text(&fixture, "d/f", "old");
    write_text(&fixture, "x/f", "new");
    write_text(&fixture, "p", "file");
    make_directory(&fixture, "q");
    write_text(&fixture, "q/f", "in q");
    uint32_t first = begin(&fixture, 1, 0);
    (void)end(&fixture, first);
    pass_time();
    uint32_t second = begin(&fixture, 1, first);
    rename_at(&fixture, "d", "d.bak");
    rename_at(&fixture, "x", "d");
    assert_int_equal(unlinkat(fixture.temp.fd, "p", 0), 0);
    rename_at(&fixture, "q", "p");
    (void)end(&fixture, second);
    assert_int_equal(go(&fixture, second, first), 0);
    assert_int_equal(fixture.put[PUT_STAYS] + fixture.put[PUT_MISSED], 0);
    assert_text(&fixture, "d/f", "old");
    assert_text(&fixture, "x/f", "new");
    assert_text(&fixture, "p", "file");
    assert_text(&fixture, "q/f", "in q");
    assert_text(&fixture, "d.bak/f", NULL);
    assert_int_equal(go(&fixture, first, second), 0);
    assert_text(&fixture, "d.bak/f", "old");
    assert_text(&fixture, "d/f", "new");
    assert_text(&fixture, "p/f", "in q");
    done(&fixture);
}

static void a_directory_that_looks_like_a_file_being_written_is_one(void **)
{
    struct fixture fixture;
    make(&fixture);
    uint32_t first = begin(&fixture, 1, 0);
    (void)end(&fixture, first);
    uint32_t second = begin(&fixture, 1, first);
    make_directory(&fixture, ".write-0123456789abcdef");
    write_text(&fixture, ".write-0123456789abcdef/f", "1");
    assert_int_equal(end(&fixture, second), 2);
    assert_int_equal(go(&fixture, second, first), 0);
    assert_text(&fixture, ".write-0123456789abcdef/f", NULL);
    done(&fixture);
}

/* --- what cannot be read --- */

static void change_mode_at(const struct fixture *fixture, const char *name, mode_t mode)
{
    assert_int_equal(fchmodat(fixture->temp.fd, name, mode, 0), 0);
}

/* Files of a directory that could not be read; before: already when the keeper began. Root reads
 * all: in a child without that right. */
static void look_into_unreadable(bool before)
{
    struct fixture fixture;
    make(&fixture);
    make_directory(&fixture, "s");
    make_directory(&fixture, "s/deep");
    write_text(&fixture, "s/f", "user");
    write_text(&fixture, "s/deep/f", "user");
    if (!before) {
        states_look(&fixture.keeper);
    }
    change_mode_at(&fixture, "s", 0);
    uint32_t first = begin(&fixture, 1, 0);
    assert_int_equal(end(&fixture, first), 0);
    pass_time();
    uint32_t second = begin(&fixture, 1, first);
    change_mode_at(&fixture, "s", 0755);
    write_text(&fixture, "s/f", "by the call");
    (void)end(&fixture, second);
    assert_int_equal(go(&fixture, second, first), STATES_UNSEEN);
    change_mode_at(&fixture, "s", 0755);
    assert_text(&fixture, "s/f", before ? "by the call" : "user");
    assert_int_equal(fixture.put[PUT_MISSED], before);
    assert_text(&fixture, "s/deep/f", "user");
    done(&fixture);
}

static void unreadable_directory_is_taken_back(void)
{
    struct fixture fixture;
    struct stat st;
    make(&fixture);
    make_directory(&fixture, "s");
    write_text(&fixture, "s/f", "user");
    uint32_t first = begin(&fixture, 1, 0);
    (void)end(&fixture, first);
    pass_time();
    uint32_t second = begin(&fixture, 1, first);
    change_mode_at(&fixture, "s", 0);
    assert_int_equal(end(&fixture, second), 1);
    assert_int_equal(go(&fixture, second, first), STATES_UNSEEN);
    assert_int_equal(fstatat(fixture.temp.fd, "s", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0755);
    assert_text(&fixture, "s/f", "user");
    done(&fixture);
}

static void an_unreadable_directory_has_what_it_had(void **)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (geteuid() == 0 && setresuid(NOBODY, NOBODY, NOBODY) < 0) {
            _exit(1);
        }
        look_into_unreadable(/* before= */ false);
        look_into_unreadable(/* before= */ true);
        unreadable_directory_is_taken_back();
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* --- after the end of a call --- */

static void what_changes_after_the_result_is_not_the_calls(void **)
{
    struct fixture fixture;
    struct timespec now;
    make(&fixture);
    write_text(&fixture, "mine", "1");
    write_text(&fixture, "theirs", "1");
    uint32_t first = begin(&fixture, 1, 0);
    (void)end(&fixture, first);
    pass_time();
    uint32_t second = begin(&fixture, 1, first);
    write_text(&fixture, "mine", "by the call");
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &now), 0);
    pass_time();
    write_text(&fixture, "theirs", "by the user");
    unsigned changes = 0;
    const struct keep_end request = {.to = second,
                                     .until_ns = now.tv_sec * 1000000000 + now.tv_nsec};
    assert_int_equal(states_end(&fixture.keeper, &request, count_change, &changes), 0);
    assert_int_equal(changes, 1);
    assert_int_equal(go(&fixture, second, first), 0);
    assert_text(&fixture, "mine", "1");
    assert_text(&fixture, "theirs", "by the user");
    done(&fixture);
}

/* --- what is not scanned --- */

/* The number of scans by a call that changes nothing, or that does what change does. */
static unsigned scans_of_a_call(struct fixture *fixture, void (*change)(struct fixture *fixture))
{
    uint32_t before = fixture->keeper.round;
    uint32_t call = begin(fixture, 1, 0);
    if (change) {
        change(fixture);
    }
    (void)end(fixture, call);
    return fixture->keeper.round - before;
}

static void make_directories(struct fixture *fixture)
{
    assert_int_equal(mkdirat(fixture->temp.fd, "one", 0755), 0);
    assert_int_equal(mkdirat(fixture->temp.fd, "one/two", 0755), 0);
}

static void write_deep(struct fixture *fixture)
{
    write_text(fixture, "one/two/file", "1");
}

static void move_directory(struct fixture *fixture)
{
    assert_int_equal(renameat(fixture->temp.fd, "one", fixture->temp.fd, "other"), 0);
}

static void change_mode(struct fixture *fixture)
{
    assert_int_equal(fchmodat(fixture->temp.fd, "other/two/file", 0600, 0), 0);
}

static void link_file(struct fixture *fixture)
{
    assert_int_equal(linkat(fixture->temp.fd, "other/two/file", fixture->temp.fd, "link", 0), 0);
}

static void unlink_one(struct fixture *fixture)
{
    assert_int_equal(unlinkat(fixture->temp.fd, "link", 0), 0);
}

static void need_watch(struct fixture *fixture)
{
    make(fixture);
    if (!fixture->keeper.watch.on) {
        done(fixture);
        unit_skip("inotify", "temporary files are on a file system that is not watched");
    }
}

static void a_workspace_in_which_nothing_happens_is_not_scanned(void **)
{
    void (*const changes[])(struct fixture *) = {make_directories, write_deep, move_directory,
                                                 change_mode};
    struct fixture fixture;
    need_watch(&fixture);
    assert_int_equal(scans_of_a_call(&fixture, NULL), 0);
    for (unsigned i = 0; i < sizeof changes / sizeof *changes; i++) {
        assert_int_equal(scans_of_a_call(&fixture, changes[i]), 1);
        assert_int_equal(scans_of_a_call(&fixture, NULL), 0);
        assert_true(fixture.keeper.watch.on);
    }
    done(&fixture);
}

static void what_cannot_be_watched_is_scanned_for_each_call(void **)
{
    struct fixture fixture;
    need_watch(&fixture);
    make_directories(&fixture);
    write_deep(&fixture);
    move_directory(&fixture);
    (void)scans_of_a_call(&fixture, NULL);
    /* Another name of the file could be elsewhere. */
    assert_int_equal(scans_of_a_call(&fixture, link_file), 1);
    assert_false(fixture.keeper.watch.on);
    assert_int_equal(scans_of_a_call(&fixture, NULL), 2);
    assert_int_equal(scans_of_a_call(&fixture, unlink_one), 2);
    assert_true(fixture.keeper.watch.on);
    assert_int_equal(scans_of_a_call(&fixture, NULL), 0);
    done(&fixture);
}

static void make_and_remove_directories(struct fixture *fixture)
{
    char name[32];
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "directory%u", i);
        assert_int_equal(mkdirat(fixture->temp.fd, name, 0755), 0);
    }
    states_look(&fixture->keeper);
    assert_int_equal(fixture->keeper.watch.directories, 51);
    for (unsigned i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "directory%u", i);
        assert_int_equal(unlinkat(fixture->temp.fd, name, AT_REMOVEDIR), 0);
    }
}

static void so_many_directories_are_watched_and_no_more(void **)
{
    struct fixture fixture;
    need_watch(&fixture);
    assert_int_equal(fixture.keeper.watch.directories, 1);
    (void)scans_of_a_call(&fixture, make_and_remove_directories);
    assert_int_equal(fixture.keeper.watch.directories, 1);
    assert_true(fixture.keeper.watch.on);
    fixture.keeper.watch.directories = 1999;
    (void)scans_of_a_call(&fixture, make_directories);
    assert_int_equal(fixture.keeper.watch.directories, 2000);
    assert_false(fixture.keeper.watch.on);
    done(&fixture);
}

static void a_call_that_says_so_has_changed_files(void **)
{
    struct fixture fixture;
    make(&fixture);
    uint32_t call = begin(&fixture, 1, 0);
    uint32_t before = fixture.keeper.round;
    unsigned changes = 0;
    assert_int_equal(states_end(&fixture.keeper, &(struct keep_end){.to = call, .surely = 1},
                                count_change, &changes),
                     0);
    assert_int_equal(fixture.keeper.round, before + 1);
    done(&fixture);
}

/* With --cow each record without a file is a deletion that apply carries out. */
static void a_note_makes_no_record_of_what_the_changes_do_not_hold(void **)
{
    static const char *const odd[] = {"./a",    "a/.", "a//b", "/a",     "../a",        "..",
                                      "d/../a", "",    "gone", "link/a", "link/gone/a", "link"};
    struct fixture fixture;
    make(&fixture);
    temp_file(&fixture.temp, "upper/d/a", "by a file tool", 0644);
    temp_file(&fixture.temp, "lower/d/a", "the user's", 0644);
    temp_link(&fixture.temp, "d", "lower/link");
    fixture.keeper.cow = true;
    fixture.keeper.upper_fd = openat(fixture.temp.fd, "upper", O_PATH | O_CLOEXEC);
    fixture.keeper.lower_fd = openat(fixture.temp.fd, "lower", O_PATH | O_CLOEXEC);
    size_t count = fixture.keeper.records.count;
    for (unsigned i = 0; i < sizeof odd / sizeof *odd; i++) {
        states_note_path(&fixture.keeper, odd[i]);
        assert_int_equal(fixture.keeper.records.count, count);
    }
    states_note_path(&fixture.keeper, "d/a");
    assert_int_equal(fixture.keeper.records.count, count + 2);
    own_close(&fixture.keeper.upper_fd);
    own_close(&fixture.keeper.lower_fd);
    done(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_state_comes_back_from_each_other),
        cmocka_unit_test(what_else_has_changed_a_file_stays),
        cmocka_unit_test(of_two_calls_at_once_neither_takes_back_what_both_may_have_made),
        cmocka_unit_test(a_call_takes_back_what_it_says_is_its_own),
        cmocka_unit_test(without_space_for_its_copy_a_file_is_missed),
        cmocka_unit_test(a_file_of_other_times_only_is_put_back_without_a_word),
        cmocka_unit_test(a_directory_that_takes_the_name_of_another_goes_back),
        cmocka_unit_test(a_directory_that_looks_like_a_file_being_written_is_one),
        cmocka_unit_test(an_unreadable_directory_has_what_it_had),
        cmocka_unit_test(what_changes_after_the_result_is_not_the_calls),
        cmocka_unit_test(a_workspace_in_which_nothing_happens_is_not_scanned),
        cmocka_unit_test(what_cannot_be_watched_is_scanned_for_each_call),
        cmocka_unit_test(so_many_directories_are_watched_and_no_more),
        cmocka_unit_test(a_call_that_says_so_has_changed_files),
        cmocka_unit_test(a_note_makes_no_record_of_what_the_changes_do_not_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
