#include "tools/keep/keep_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"
#include "base/own.h"
#include "record/record.h"

#define MAGIC "sandpiper keep\n"
#define PART_BYTES (1UL << 20) /* that one step copies */

enum { HASH_DIGITS = 32, DAY_S = 86400, YEAR_S = 300 * DAY_S };

static const char *const suffixes[] = {[KEEP_LAST] = ".keep", [KEEP_EARLIER] = ".earlier"};
static const char new_suffix[] = ".new";

_Static_assert(sizeof(struct keep_header) == 16 + 7 * 8 + 72 + 24 + PATH_MAX + 72, "no padding");

int keep_directory_open(const char *path, bool create, struct fail *ret_fail)
{
    static const struct private_directory keep = {"--keep", "what code has made is kept there"};
    return private_directory_open(&keep, path, create, ret_fail);
}

int keep_check(const char *path, struct fail *ret_fail)
{
    struct fail fail = {};
    defer_close int fd = keep_directory_open(path, /* create= */ false, &fail);
    if (fd < 0 && fail.code != ENOENT) {
        *ret_fail = fail;
        return fd;
    }
    return 0;
}

const char *keep_stem(const char *session, const char *workspace, char out[KEEP_STEM_BYTES])
{
    struct sha256 hash;
    char text[SHA256_TEXT];
    sha256_init(&hash);
    sha256_add(&hash, session, strlen(session) + 1);
    sha256_add(&hash, workspace, strlen(workspace));
    (void)snprintf(out, KEEP_STEM_BYTES, "%.*s", HASH_DIGITS, sha256_end(&hash, text));
    return out;
}

static const char *name_of(const char *stem, const char *suffix, char out[KEEP_NAME_BYTES])
{
    (void)snprintf(out, KEEP_NAME_BYTES, "%.*s%s", HASH_DIGITS, stem, suffix);
    return out;
}

const char *keep_name(const char *stem, enum keep_which which, char out[KEEP_NAME_BYTES])
{
    return name_of(stem, suffixes[which], out);
}

static bool is_name(const char *name, const char *suffix)
{
    return strspn(name, "0123456789abcdef") == HASH_DIGITS &&
           strcmp(name + HASH_DIGITS, suffix) == 0;
}

bool keep_is_earlier(const char *name)
{
    return is_name(name, suffixes[KEEP_EARLIER]);
}

static bool is_kept(const char *name)
{
    return is_name(name, suffixes[KEEP_LAST]) || keep_is_earlier(name);
}

int keep_lock(int dir_fd)
{
    if (flock(dir_fd, LOCK_EX | LOCK_NB) < 0) {
        return -errno;
    }
    defer_closedir DIR *dir = fd_entries(dir_fd);
    const char *name = NULL;
    while (dir && (name = fd_next_name(dir))) {
        if (is_name(name, new_suffix)) {
            (void)unlinkat(dir_fd, name, 0);
        }
    }
    return 0;
}

/* --- reading --- */

static bool ends(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static const char *unfit(const struct stat *st, const struct keep_header *header, ssize_t size)
{
    if (!S_ISREG(st->st_mode) || st->st_nlink != 1) {
        return "is no file of its own";
    }
    if (st->st_uid != geteuid() || st->st_mode & (S_IWGRP | S_IWOTH)) {
        return "others may write it";
    }
    if (size != (ssize_t)sizeof *header || memcmp(header->magic, MAGIC, sizeof MAGIC) != 0) {
        return "is damaged";
    }
    if (header->format != KEEP_FORMAT) {
        return "was written by another version of Sandpiper";
    }
    bool is_whole = (uint64_t)st->st_size == sizeof *header + header->bytes &&
                    ends(header->session, sizeof header->session) &&
                    ends(header->python, sizeof header->python) &&
                    ends(header->workspace, sizeof header->workspace) &&
                    ends(header->sha256, sizeof header->sha256);
    return is_whole ? NULL : "is damaged";
}

int keep_open(int dir_fd, const char *name, struct keep_header *ret_header, struct fail *ret_fail)
{
    struct stat st;
    defer_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        return -ENOENT;
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, errno, "%s", name);
    }
    ssize_t size = S_ISREG(st.st_mode) ? fd_pread_all(fd, ret_header, sizeof *ret_header, 0) : 0;
    const char *why = unfit(&st, ret_header, size);
    if (why) {
        (void)fail_set(ret_fail, 0, "%s", why);
        return -EBADMSG;
    }
    if (st.st_mode & (S_IRGRP | S_IROTH)) {
        log_warn("keep", "others could read %s", name);
        (void)fchmod(fd, S_IRUSR | S_IWUSR);
    }
    return lseek(fd, sizeof *ret_header, SEEK_SET) < 0 ? fail_set(ret_fail, errno, "%s", name)
                                                       : take_fd(&fd);
}

void keep_reader_begin(struct keep_reader *reader, int fd, int out_fd,
                       const struct keep_header *header)
{
    *reader = (struct keep_reader){.fd = fd, .out_fd = out_fd, .left = header->bytes};
    sha256_init(&reader->hash);
}

static const char *end_hash(struct sha256 *hash, const struct keep_header *header,
                            char out[SHA256_TEXT])
{
    struct keep_header plain = *header;
    memset(plain.sha256, 0, sizeof plain.sha256);
    sha256_add(hash, &plain, sizeof plain);
    return sha256_end(hash, out);
}

int keep_reader_step(struct keep_reader *reader, const struct keep_header *header)
{
    static char part[PART_BYTES];
    char hash[SHA256_TEXT];
    size_t want = reader->left < sizeof part ? (size_t)reader->left : sizeof part;
    ssize_t size = want > 0 ? TEMP_FAILURE_RETRY(read(reader->fd, part, want)) : 0;
    if (size < 0 || (size == 0 && want > 0)) {
        return size < 0 ? -errno : -EBADMSG;
    }
    sha256_add(&reader->hash, part, (size_t)size);
    reader->left -= (uint64_t)size;
    int r = fd_write_all(reader->out_fd, part, (size_t)size);
    if (r < 0 || reader->left > 0) {
        return r < 0 ? r : 1;
    }
    return strcmp(end_hash(&reader->hash, header, hash), header->sha256) == 0 ? 0 : -EBADMSG;
}

/* --- writing --- */

int keep_writer_begin(struct keep_writer *writer, int dir_fd, const char *stem, uint64_t most)
{
    char name[KEEP_NAME_BYTES];
    *writer = (struct keep_writer){.dir_fd = dir_fd, .fd = -1, .most = most};
    (void)snprintf(writer->stem, sizeof writer->stem, "%s", stem);
    sha256_init(&writer->hash);
    (void)unlinkat(dir_fd, name_of(stem, new_suffix, name), 0);
    writer->fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool is_there = writer->fd >= 0 && lseek(writer->fd, sizeof(struct keep_header), SEEK_SET) >= 0;
    writer->error = is_there ? 0 : -errno;
    return writer->error;
}

void keep_writer_add(struct keep_writer *writer, const char *bytes, size_t size)
{
    writer->bytes += size;
    if (writer->error == 0 && writer->bytes > writer->most) {
        writer->error = -EFBIG;
    }
    if (writer->error == 0) {
        sha256_add(&writer->hash, bytes, size);
        writer->error = fd_write_all(writer->fd, bytes, size);
    }
}

/* The file takes its place in one step, also where the old one becomes the earlier one. */
static int put_in_place(const struct keep_writer *writer)
{
    char made[KEEP_NAME_BYTES];
    char name[KEEP_NAME_BYTES];
    char earlier[KEEP_NAME_BYTES];
    int dir_fd = writer->dir_fd;
    (void)name_of(writer->stem, new_suffix, made);
    (void)keep_name(writer->stem, KEEP_LAST, name);
    (void)keep_name(writer->stem, KEEP_EARLIER, earlier);
    if (writer->aside && renameat2(dir_fd, made, dir_fd, name, RENAME_EXCHANGE) == 0) {
        return renameat(dir_fd, made, dir_fd, earlier) < 0 ? -errno : 0;
    }
    if (writer->aside) { /* there is none, or the file system cannot exchange */
        (void)renameat(dir_fd, name, dir_fd, earlier);
    }
    return renameat(dir_fd, made, dir_fd, name) < 0 ? -errno : 0;
}

/* In a process of its own, which has nothing of the server's but these. The lock goes with it. */
__attribute__((noreturn)) static void finish(const struct keep_writer *writer)
{
    (void)prctl(PR_SET_NAME, "sandpiper-keep");
    fd_close_others(STDERR_FILENO, (int[]){writer->fd, writer->dir_fd}, 2);
    int r = fd_flush(writer->fd);
    r = r ? r : put_in_place(writer);
    r = r ? r : fd_flush(writer->dir_fd);
    _exit(-r);
}

int keep_writer_end(struct keep_writer *writer, struct keep_header *header, pid_t *ret_pid)
{
    memcpy(header->magic, MAGIC, sizeof MAGIC);
    header->format = KEEP_FORMAT;
    header->bytes = writer->bytes;
    (void)end_hash(&writer->hash, header, header->sha256);
    if (writer->error == 0 && pwrite(writer->fd, header, sizeof *header, 0) != sizeof *header) {
        writer->error = -EIO;
    }
    pid_t pid = writer->error ? -1 : fork();
    if (pid == 0) {
        finish(writer);
    }
    if (pid < 0) {
        int r = writer->error ? writer->error : -errno;
        keep_writer_drop(writer);
        return r;
    }
    drop_fd(&writer->fd);
    *ret_pid = pid;
    return 0;
}

void keep_writer_drop(struct keep_writer *writer)
{
    char name[KEEP_NAME_BYTES];
    if (writer->fd >= 0) {
        (void)unlinkat(writer->dir_fd, name_of(writer->stem, new_suffix, name), 0);
        drop_fd(&writer->fd);
    }
}

/* --- which there are --- */

int keep_remove(int dir_fd, const char *stem, bool aside)
{
    char name[KEEP_NAME_BYTES];
    char earlier[KEEP_NAME_BYTES];
    (void)keep_name(stem, KEEP_LAST, name);
    int r = aside ? renameat(dir_fd, name, dir_fd, keep_name(stem, KEEP_EARLIER, earlier))
                  : unlinkat(dir_fd, name, 0);
    return r < 0 && errno != ENOENT ? -errno : 0;
}

int keep_restore(int dir_fd, const char *stem)
{
    char name[KEEP_NAME_BYTES];
    char earlier[KEEP_NAME_BYTES];
    (void)keep_name(stem, KEEP_LAST, name);
    (void)keep_name(stem, KEEP_EARLIER, earlier);
    if (renameat2(dir_fd, earlier, dir_fd, name, RENAME_EXCHANGE) == 0) {
        return 0;
    }
    return renameat(dir_fd, earlier, dir_fd, name) < 0 ? -errno : 0;
}

const char *keep_time(uint64_t time_s, char out[32])
{
    struct tm local = {};
    time_t at = (time_t)time_s;
    (void)localtime_r(&at, &local);
    bool is_old = time(NULL) - at > YEAR_S;
    (void)strftime(out, 32, is_old ? "%-d %b %Y %H:%M" : "%-d %b %H:%M", &local);
    return out;
}

struct found {
    char oldest[KEEP_NAME_BYTES];
    time_t time_s;
    uint64_t bytes;
    unsigned count;
};

static void find(int dir_fd, const char *own, struct found *ret_found)
{
    struct stat st;
    const char *name = NULL;
    *ret_found = (struct found){};
    defer_closedir DIR *dir = fd_entries(dir_fd);
    while (dir && (name = fd_next_name(dir))) {
        if (!is_kept(name) || strcmp(name, own) == 0 ||
            fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
            continue;
        }
        ret_found->bytes += (uint64_t)st.st_size;
        if (ret_found->count++ == 0 || st.st_mtime < ret_found->time_s) {
            ret_found->time_s = st.st_mtime;
            (void)snprintf(ret_found->oldest, sizeof ret_found->oldest, "%s", name);
        }
    }
}

void keep_trim(int dir_fd, const char *stem, uint64_t bytes, unsigned days)
{
    struct found found;
    char own[KEEP_NAME_BYTES];
    (void)keep_name(stem, KEEP_LAST, own);
    for (find(dir_fd, own, &found); found.count > 0; find(dir_fd, own, &found)) {
        bool is_old = days > 0 && found.time_s < time(NULL) - (time_t)days * DAY_S;
        struct keep_header header = {.session = "?"};
        struct fail fail = {};
        if (found.bytes <= bytes && found.count < KEEP_SESSIONS && !is_old) {
            return;
        }
        defer_close int fd = keep_open(dir_fd, found.oldest, &header, &fail);
        log_info("keep", "the kept session %.64s is removed: %s", fd < 0 ? "?" : header.session,
                 is_old ? "it is older than --keep-days" : "the directory is full");
        if (unlinkat(dir_fd, found.oldest, 0) < 0) {
            return;
        }
    }
}

void keep_list(int dir_fd, keep_list_fn fn, void *arg)
{
    const char *name = NULL;
    defer_closedir DIR *dir = fd_entries(dir_fd);
    while (dir && (name = fd_next_name(dir))) {
        struct keep_header header;
        struct fail fail = {};
        defer_close int fd = is_kept(name) ? keep_open(dir_fd, name, &header, &fail) : -1;
        if (fd >= 0) {
            fn(arg, name, &header);
        }
    }
}
