/* sandpiper record: reads what --record has kept. Each record may be anybody's: record/reader.h
 * checks it, and record/escape.h shows its text. */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/fd.h"
#include "base/own.h"
#include "base/parse.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/terminal.h"
#include "record/book.h"
#include "record/directory.h"
#include "record/export.h"
#include "record/show.h"

enum { EXIT_DAMAGED = 1, EXIT_USAGE = 2 };

/* The names in the directory that was named, or that of --record; its descriptor or -1, and says
 * why. */
static int open_directory(const struct options *options, struct record_names *ret_names)
{
    const char *file = options->records.file;
    const char *directory = file ? file : options->record.directory;
    char path[PATH_MAX];
    struct fail fail = {};
    struct box_spec spec;
    box_spec_init(&spec);
    if (!directory) {
        terminal_say("record: name a FILE, or the directory with --record DIR");
        return -1;
    }
    int r = box_record_resolve(&spec, directory, path, &fail);
    defer_close int fd = r < 0 ? r : record_directory_open(path, /* create= */ false, &fail);
    if (fd < 0) {
        terminal_say("record: %s", fail_text(&fail));
        return -1;
    }
    record_directory_list(fd, ret_names);
    return take_fd(&fd);
}

static int list(const struct options *options)
{
    OWNED(record_names_done) struct record_names names = {};
    defer_close int fd = open_directory(options, &names);
    int code = fd < 0 ? EXIT_USAGE : 0;
    for (int i = 0; i < names.count; i++) {
        struct record_book book;
        struct fail fail = {};
        OWNED(buf_done) struct buf line = BUF_EMPTY;
        if (record_book_read(fd, names.at[i], &book, &fail) < 0) {
            terminal_say("record: %s", fail_text(&fail));
            code = EXIT_DAMAGED;
            continue;
        }
        record_summary(&book, &line);
        (void)fwrite(buf_bytes(&line), 1, buf_size(&line), stdout);
        record_book_done(&book);
    }
    return code;
}

/* Opens FILE, or the newest record of a directory. 0 or an exit code. */
static int read_book(const struct options *options, struct record_book *ret_book)
{
    struct fail fail = {};
    OWNED(record_names_done) struct record_names names = {};
    struct stat st;
    const char *file = options->records.file;
    bool is_directory = file && stat(file, &st) == 0 && S_ISDIR(st.st_mode);
    file = is_directory ? NULL : file;
    defer_close int fd = file ? -1 : open_directory(options, &names);
    if (!file && fd < 0) {
        return EXIT_USAGE;
    }
    int r = file              ? record_book_read(AT_FDCWD, file, ret_book, &fail)
            : names.count > 0 ? record_book_read(fd, names.at[names.count - 1], ret_book, &fail)
                              : -ENOENT;
    if (r < 0) {
        terminal_say("record: %s", fail.text[0] ? fail_text(&fail) : "there is no record");
        return EXIT_USAGE;
    }
    return 0;
}

/* Starts the user's pager, which reads the descriptor, and takes that. 0 or an errno value. */
static int start_pager(int in_fd, pid_t *ret_pid)
{
    defer_close int own = in_fd;
    const char *pager = getenv("PAGER");
    const char *const argv[] = {"sh", "-c", pager && *pager ? pager : "less -FRX", NULL};
    posix_spawn_file_actions_t actions;
    int r = posix_spawn_file_actions_init(&actions);
    if (r) {
        return r;
    }
    r = posix_spawn_file_actions_adddup2(&actions, own, STDIN_FILENO);
    r = r ? r
          : posix_spawnp(ret_pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    return r;
}

/* Writes to a terminal through a pager, if there is one. */
static void print_paged(const struct buf *text)
{
    int reads = -1;
    int writes = -1;
    pid_t pid = 0;
    if (!isatty(STDOUT_FILENO) || fd_pipe(&reads, &writes) < 0 || start_pager(reads, &pid)) {
        own_close(&writes);
        (void)fwrite(buf_bytes(text), 1, buf_size(text), stdout);
        return;
    }
    (void)fd_write_all(writes, buf_bytes(text), buf_size(text)); /* it may have been left */
    own_close(&writes);
    (void)waitpid(pid, NULL, 0);
}

/* Writes the file whole, with mode 0600; replaces one only with --force. 0 or -errno. */
static int write_file(const char *path, bool force, const struct buf *content)
{
    char temporary[PATH_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.XXXXXX", path) >= PATH_MAX) {
        return -ENAMETOOLONG;
    }
    defer_close int fd = mkostemp(temporary, O_CLOEXEC);
    int r = fd < 0 ? -errno : fd_write_all(fd, buf_bytes(content), buf_size(content));
    if (r == 0 &&
        renameat2(AT_FDCWD, temporary, AT_FDCWD, path, force ? 0 : RENAME_NOREPLACE) < 0) {
        r = -errno;
    }
    if (r < 0 && fd >= 0) {
        (void)unlink(temporary);
    }
    return r;
}

static int export(const struct options *options, const struct record_book *book)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    OWNED(buf_done) struct buf notes = BUF_EMPTY;
    const char *path = options->records.output;
    record_export_fn fn = record_export_find(options->records.format);
    if (!fn) {
        terminal_say("record export: --format takes ipynb, py, md or html");
        return EXIT_USAGE;
    }
    fn(book, options->records.session, &out, &notes);
    int r = buf_error(&out);
    if (r == 0 && path) {
        r = write_file(path, options->records.force, &out);
    } else if (r == 0) {
        (void)fwrite(buf_bytes(&out), 1, buf_size(&out), stdout);
    }
    if (r < 0) {
        terminal_say("record export: %s: %s%s", path ? path : "stdout", strerror(-r),
                     r == -EEXIST ? "; --force replaces it" : "");
        return EXIT_DAMAGED;
    }
    if (buf_size(&notes) > 0) {
        terminal_say("%.*s", (int)buf_size(&notes), buf_bytes(&notes));
    }
    return 0;
}

static int check(const struct record_book *book)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    bool whole = record_verdict(&book->reading, &out);
    (void)fwrite(buf_bytes(&out), 1, buf_size(&out), stdout);
    return whole ? 0 : EXIT_DAMAGED;
}

static int show(const struct record_book *book)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    record_show(book, isatty(STDOUT_FILENO), &out);
    print_paged(&out);
    return 0;
}

static int why(const struct options *options, const struct record_book *book)
{
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    uint64_t cell = 0;
    const char *given = options->records.cell;
    if (given && (parse_u64(given, &cell) < 0 || cell == 0 || cell > INT32_MAX)) {
        terminal_say("record why: %s is not the number of a cell", given);
        return EXIT_USAGE;
    }
    if (!record_why(book, (json_int_t)cell, &out)) {
        terminal_say("record why: there is no cell %s", given);
        return EXIT_USAGE;
    }
    (void)fwrite(buf_bytes(&out), 1, buf_size(&out), stdout);
    return 0;
}

int command_record(const struct options *options)
{
    struct record_book book;
    const char *action = options->records.action;
    if (strcmp(action, "list") == 0) {
        return list(options);
    }
    int code = read_book(options, &book);
    if (code != 0) {
        return code;
    }
    bool checks = strcmp(action, "check") == 0;
    bool damaged = book.reading.why[0] || book.reading.altered > 0;
    if (!checks && damaged) {
        terminal_say(book.reading.why[0] ? "record: %s; that line is left out"
                                         : "record: %s; sandpiper record check says where",
                     book.reading.why[0] ? book.reading.why : "it was altered");
    }
    code = checks                          ? check(&book)
           : strcmp(action, "show") == 0   ? show(&book)
           : strcmp(action, "export") == 0 ? export(options, &book)
           : strcmp(action, "replay") == 0 ? record_replay(options, &book)
                                           : why(options, &book);
    record_book_done(&book);
    return damaged ? EXIT_DAMAGED : code;
}
