/* Requests about changes, with a keeper and an applying process that this file plays. */
#include "sandbox/box.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"
#include "sandbox/box/box.h"
#include "sandbox/helpers.h"
#include "sandbox/types.h"
#include "sandbox/workspace/store.h"
#include "tests/unit/temp.h"
#include "tests/unit/unit.h"

static struct temp temp;
static struct box_spec spec;
static struct box box;

/* --- the keeper --- */

static char asked[200]; /* the requests */
static init_client_fn on_reply;
static void *reply_arg;

int box_ask_keeper(struct box *, struct wire_request *request, init_client_fn fn, void *arg)
{
    static const char letters[] = {
        [KEEP_LIST] = 'L', [KEEP_DISCARD] = 'D', [KEEP_COLLECT] = 'C', [KEEP_APPLIED] = 'A'};
    size_t used = strlen(asked);
    (void)snprintf(asked + used, sizeof asked - used,
                   request->op == KEEP_PATH ? "%s " : "%.0s%c%u ", request->path,
                   letters[request->op], request->list);
    on_reply = fn ? fn : on_reply;
    reply_arg = fn ? arg : reply_arg;
    return 0;
}

int box_ask(struct box *, struct wire_request *, init_client_fn, void *)
{
    return -ENOTCONN;
}

static void reply(int error, int fd, int other_fd)
{
    int fds[WIRE_FDS] = {fd, other_fd};
    const struct wire_reply message = {.error = error};
    init_client_fn fn = on_reply;
    on_reply = NULL;
    fn(reply_arg, &message, fds);
    own_close(&fds[0]);
    own_close(&fds[1]);
}

static int memfd_of(const struct buf *bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, buf_bytes(bytes), buf_size(bytes)), 0);
    return fd;
}

/* --- the applying process --- */

static struct apply_setup process;
static unsigned starts;
static unsigned running;
static int journal_fd; /* of the process */

int apply_start(struct loop *, const struct apply_setup *setup, struct apply **ret_apply,
                struct fail *)
{
    char opened[PATH_MAX];
    struct stat st;
    starts++;
    running++;
    process = *setup;
    drop_fd(&journal_fd);
    journal_fd = dup(setup->journal_fd);
    assert_int_equal(fd_path(setup->dir_fd, opened), 0);
    assert_string_equal(opened, temp.path);
    assert_true(fstat(setup->upper_fd, &st) == 0 && S_ISDIR(st.st_mode));
    *ret_apply = (struct apply *)&process;
    return 0;
}

void apply_free(struct apply *apply)
{
    running -= apply != NULL;
}

/* Gives the items of the process's journal this status, up to one that has this path. */
static void work(enum apply_status status, const char *until)
{
    static _Alignas(8) char bytes[20000];
    ssize_t size = fd_pread_all(journal_fd, bytes, sizeof bytes, 0);
    assert_true(apply_journal_is_valid(bytes, (size_t)size));
    struct apply_journal *journal = (void *)bytes;
    struct apply_item *item = NULL;
    while ((item = apply_journal_next(journal, item)) &&
           !(until && strcmp(item->path, until) == 0)) {
        item->status = item->status == APPLY_REFUSED ? APPLY_REFUSED : status;
        item->after.inode = 7;
    }
    journal->complete = !item;
    assert_int_equal(pwrite(journal_fd, bytes, (size_t)size, 0), size);
}

/* --- the caller --- */

static char seen[200]; /* what the callbacks got */

static void listed(void *, const struct wire_reply *reply, int fds[WIRE_FDS])
{
    OWNED(buf_done) struct buf records = BUF_EMPTY;
    size_t used = strlen(seen);
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%d",
                             box_changes_read(reply, fds, &records));
    for (const struct change_record *at = NULL;
         (at = change_record_next(buf_bytes(&records), buf_size(&records), at));) {
        used += (size_t)snprintf(seen + used, sizeof seen - used, " %c%s", at->sign, at->path);
    }
}

static enum box_apply_choice choose(void *, const struct apply_item *item)
{
    return item->path[0] != '.' ? BOX_APPLY_TAKE : BOX_APPLY_REFUSE;
}

static void applied(void *, int error, const struct apply_journal *journal)
{
    size_t used = strlen(seen);
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%d", error);
    const struct apply_item *item = NULL;
    while (journal && (item = apply_journal_next(journal, item))) {
        if (item->status != APPLY_REFUSED) {
            used += (size_t)snprintf(seen + used, sizeof seen - used, " %s:%u", item->path,
                                     item->status);
        }
    }
}

static int set_up(void **)
{
    temp_make(&temp);
    spec = (struct box_spec){.workspace = temp.path, .cow = true};
    box = (struct box){.spec = &spec, .cow = {.left_journal_fd = -1, .left_upper_fd = -1}};
    asked[0] = '\0';
    seen[0] = '\0';
    starts = 0;
    running = 0;
    journal_fd = -1;
    return 0;
}

static int tear_down(void **)
{
    assert_null(box.cow.applying);
    assert_int_equal(running, 0);
    drop_fd(&journal_fd);
    temp_remove(&temp);
    return 0;
}

static void a_list_is_what_the_keeper_sends(void **)
{
    static const char *const paths[] = {"src", "a b"};
    struct buf records = BUF_EMPTY;
    const struct change_record record = {.sign = '+'};
    assert_int_equal(change_record_add(&records, &record, "src/x", NULL), 0);
    assert_int_equal(
        box_changes_ask(&box, BOX_CHANGES_PATCH, (struct path_list){paths, 2}, listed, NULL), 0);
    assert_string_equal(asked, "src a b L2 ");
    reply(0, memfd_of(&records), -1);
    assert_string_equal(seen, "0 +src/x");
    assert_int_equal(box_changes_ask(&box, BOX_CHANGES_DISCARD, (struct path_list){}, listed, NULL),
                     0);
    assert_string_equal(asked, "src a b L2 D0 ");
    buf_consume(&records, 8);
    seen[0] = '\0';
    reply(0, memfd_of(&records), -1);
    assert_int_equal(strtoul(seen, NULL, 10), EPROTO);
    assert_null(strchr(seen, ' ')); /* and nothing is left to be read */
    buf_done(&records);
}

static void other_descriptors_are_refused(void **)
{
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    struct stat st;
    int big = memfd_create("big", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(big, 1L << 40), 0);
    temp_file(&temp, "file", "", 0644);
    const int fds[] = {-1, pipes[0], big, openat(temp.fd, "file", O_RDONLY | O_CLOEXEC)};
    static const int errors[] = {EPROTO, EPROTO, E2BIG};
    for (unsigned i = 0; i < 3; i++) {
        seen[0] = '\0';
        assert_int_equal(
            box_changes_ask(&box, BOX_CHANGES_LIST, (struct path_list){}, listed, NULL), 0);
        reply(0, fds[i], -1);
        assert_int_equal(strtoul(seen, NULL, 10), errors[i]);
        assert_true(i == 0 || fstat(fds[i], &st) < 0); /* closed */
    }
    assert_int_equal(close(fds[3]), 0);
    assert_int_equal(close(pipes[1]), 0);
    seen[0] = '\0';
    assert_int_equal(box_changes_ask(&box, BOX_CHANGES_LIST, (struct path_list){}, listed, NULL),
                     0);
    reply(ECONNRESET, -1, -1);
    assert_int_equal(strtoul(seen, NULL, 10), ECONNRESET);
}

/* --- applying --- */

static int keeper_fd; /* of the keeper's journal */

static void begin(void)
{
    static const char *const paths[] = {".git", "a", "b", "c"};
    const struct apply_facts facts = {.inode = 3, .mode = S_IFREG};
    struct buf journal = BUF_EMPTY;
    assert_int_equal(apply_journal_begin(&journal, 1, 1), 0);
    for (unsigned i = 0; i < 4; i++) {
        size_t at = buf_size(&journal);
        assert_int_equal(apply_journal_add(&journal, paths[i], &facts, &facts), 0);
        ((struct apply_item *)(void *)(journal.data + at))->hash = 1;
    }
    assert_int_equal(box_changes_apply(&box, (struct path_list){}, choose, applied, NULL), 0);
    int fd = memfd_of(&journal);
    keeper_fd = dup(fd);
    reply(0, fd, dup(temp.fd));
    buf_done(&journal);
}

/* Statuses in the keeper's journal. */
static const char *kept(void)
{
    static char out[100];
    static _Alignas(8) char bytes[20000];
    ssize_t size = fd_pread_all(keeper_fd, bytes, sizeof bytes, 0);
    assert_true(apply_journal_is_valid(bytes, (size_t)size));
    size_t used = 0;
    for (struct apply_item *item = NULL; (item = apply_journal_next((void *)bytes, item));) {
        used += (size_t)snprintf(out + used, sizeof out - used, "%s:%u:%u ", item->path,
                                 item->status, (unsigned)item->after.inode);
    }
    assert_int_equal(close(keeper_fd), 0);
    return out;
}

static void chosen_items_are_applied_and_the_keeper_learns_it(void **)
{
    begin();
    assert_int_equal(starts, 1);
    work(APPLY_DONE, NULL);
    process.done(process.arg, true);
    assert_string_equal(seen, "");
    assert_string_equal(asked, "C0 A0 ");
    reply(0, -1, -1);
    assert_string_equal(seen, "0 a:1 b:1 c:1");
    assert_string_equal(kept(), ".git:9:7 a:1:7 b:1:7 c:1:7 ");
}

static void the_keeper_cannot_change_what_is_applied(void **)
{
    begin();
    assert_int_equal(ftruncate(keeper_fd, 0), 0); /* the process has a journal of its own */
    work(APPLY_DONE, NULL);
    process.done(process.arg, true);
    reply(0, -1, -1);
    assert_string_equal(seen, "0 a:1 b:1 c:1");
    (void)kept();
}

static void a_killed_process_is_started_once_more(void **)
{
    begin();
    work(APPLY_DONE, "b");
    process.done(process.arg, false);
    assert_int_equal(starts, 2);
    work(APPLY_DONE, NULL);
    process.done(process.arg, true);
    reply(0, -1, -1);
    assert_string_equal(seen, "0 a:1 b:1 c:1");
    (void)kept();
    seen[0] = '\0';
    begin();
    process.done(process.arg, false);
    work(APPLY_DONE, "c");
    process.done(process.arg, false);
    assert_int_equal(starts, 4);
    reply(0, -1, -1);
    assert_int_equal(strtoul(seen, NULL, 10), EINTR);
    assert_non_null(strstr(seen, " a:1 b:1 c:0"));
    assert_string_equal(kept(), ".git:9:7 a:1:7 b:1:7 c:0:0 ");
    /* The next one first finishes this. */
    seen[0] = '\0';
    asked[0] = '\0';
    assert_int_equal(box_changes_apply(&box, (struct path_list){}, choose, applied, NULL), 0);
    assert_int_equal(starts, 5);
    assert_string_equal(asked, "");
    work(APPLY_SAME, NULL);
    process.done(process.arg, true);
    assert_string_equal(asked, "C0 ");
    reply(EIO, -1, -1);
    assert_int_equal(strtoul(seen, NULL, 10), EIO);
}

static void a_store_keeps_the_journal_until_it_is_carried_out(void **)
{
    temp_directory(&temp, "store/layers/upper");
    temp_file(&temp, "store/journal.new", "half", 0600);
    struct box_store store = {.fd = openat(temp.fd, "store", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    spec.store = &store;
    begin();
    assert_int_equal(faccessat(temp.fd, "store/journal", F_OK, 0), 0);
    work(APPLY_DONE, "b");
    /* The server is killed; another one starts. */
    box_changes_stop(&box);
    (void)kept();
    seen[0] = '\0';
    asked[0] = '\0';
    box_changes_resume(&box);
    assert_int_equal(starts, 2);
    assert_int_equal(box_changes_apply(&box, (struct path_list){}, choose, applied, NULL), 0);
    work(APPLY_DONE, NULL);
    process.done(process.arg, true);
    assert_string_equal(asked, "C0 ");
    reply(EIO, -1, -1);
    assert_int_equal(strtoul(seen, NULL, 10), EIO);
    assert_int_equal(faccessat(temp.fd, "store/journal", F_OK, 0), -1);
    box_changes_resume(&box);
    assert_int_equal(starts, 2);
    temp_file(&temp, "store/journal", "damaged", 0600);
    box_changes_resume(&box);
    assert_int_equal(starts, 2);
    assert_int_equal(faccessat(temp.fd, "store/journal", F_OK, 0), -1);
    assert_int_equal(close(store.fd), 0);
}

static void nothing_chosen_starts_nothing(void **)
{
    struct buf journal = BUF_EMPTY;
    assert_int_equal(apply_journal_begin(&journal, 1, 1), 0);
    assert_int_equal(box_changes_apply(&box, (struct path_list){}, choose, applied, NULL), 0);
    reply(0, memfd_of(&journal), dup(temp.fd));
    assert_string_equal(seen, "0");
    assert_int_equal(starts, 0);
    buf_done(&journal);
}

static void a_sandbox_that_dies_ends_the_apply(void **)
{
    begin();
    work(APPLY_DONE, "b");
    box_changes_stop(&box);
    assert_int_equal(strtoul(seen, NULL, 10), ECONNRESET);
    assert_non_null(strstr(seen, " a:1 b:0 c:0"));
    (void)kept();
    seen[0] = '\0';
    assert_int_equal(box_changes_apply(&box, (struct path_list){}, choose, applied, NULL), 0);
    box_changes_stop(&box);
    reply(ECONNRESET, -1, -1);
    assert_int_equal(strtoul(seen, NULL, 10), ECONNRESET);
}

static void a_directory_that_was_replaced_is_left_alone(void **)
{
    char away[300];
    (void)snprintf(away, sizeof away, "%s.away", temp.path);
    assert_int_equal(rename(temp.path, away), 0);
    assert_int_equal(symlink(away, temp.path), 0);
    begin();
    (void)kept();
    assert_int_equal(starts, 0);
    assert_int_equal(unlink(temp.path), 0);
    assert_int_equal(rename(away, temp.path), 0);
    assert_true(strtoul(seen, NULL, 10) == ENOTDIR || strtoul(seen, NULL, 10) == ELOOP);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_list_is_what_the_keeper_sends),
        TEST(other_descriptors_are_refused),
        TEST(chosen_items_are_applied_and_the_keeper_learns_it),
        TEST(the_keeper_cannot_change_what_is_applied),
        TEST(a_killed_process_is_started_once_more),
        TEST(a_store_keeps_the_journal_until_it_is_carried_out),
        TEST(nothing_chosen_starts_nothing),
        TEST(a_sandbox_that_dies_ends_the_apply),
        TEST(a_directory_that_was_replaced_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
