#include "record/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "rpc/text.h"

enum { CLASHES_MOST = 100 };

bool record_is_name(const char *name)
{
    static const char form[] =
        "^[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(-[0-9]{2}){2}Z(-[0-9]{1,10}){1,2}\\.jsonl$";
    static regex_t compiled;
    static bool is_compiled;
    is_compiled = is_compiled || regcomp(&compiled, form, REG_EXTENDED | REG_NOSUB) == 0;
    return is_compiled && regexec(&compiled, name, 0, NULL, 0) == 0;
}

int private_directory_open(const struct private_directory *what, const char *path, bool create,
                           struct fail *ret_fail)
{
    struct stat st;
    if (create && mkdir(path, 0700) < 0 && errno != EEXIST) {
        return fail_set(ret_fail, errno, "%s %.300s", what->flag, path);
    }
    defer_close int fd = fd_open_straight(path, O_RDONLY | O_DIRECTORY);
    if (fd < 0 || fstat(fd, &st) < 0) {
        return fail_set(ret_fail, fd < 0 ? -fd : errno, "%s %.300s", what->flag, path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & 07777) != 0700) {
        (void)fail_set(ret_fail, 0,
                       "%s %.300s: %s; %s: name a directory of your own with mode 0700", what->flag,
                       path, st.st_uid != geteuid() ? "has another owner" : "others may enter it",
                       what->holds);
        return -EPERM;
    }
    return take_fd(&fd);
}

int record_directory_open(const char *path, bool create, struct fail *ret_fail)
{
    static const struct private_directory record = {"--record",
                                                    "records hold all that code prints"};
    return private_directory_open(&record, path, create, ret_fail);
}

/* Makes the file of a record, and locks it. Returns a descriptor or -errno. */
static int record_file_new(int dir_fd, char name[RECORD_NAME_BYTES])
{
    struct tm utc = {};
    time_t now = time(NULL);
    char stamp[32];
    (void)gmtime_r(&now, &utc);
    (void)strftime(stamp, sizeof stamp, "%Y-%m-%dT%H-%M-%SZ", &utc);
    for (unsigned n = 1; n < CLASHES_MOST; n++) {
        char clash[16] = "";
        if (n > 1) {
            (void)snprintf(clash, sizeof clash, "-%u", n);
        }
        (void)snprintf(name, RECORD_NAME_BYTES, "%s-%d%s.jsonl", stamp, (int)getpid(), clash);
        defer_close int fd = openat(
            dir_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_APPEND | O_CLOEXEC, 0600);
        if (fd >= 0) {
            return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : take_fd(&fd);
        }
        if (errno != EEXIST) {
            return -errno;
        }
    }
    return -EEXIST;
}

static int is_record(const struct dirent *entry)
{
    return record_is_name(entry->d_name);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* 0: it is no regular file. */
static uint64_t size_of(int dir_fd, const char *name)
{
    struct stat st;
    bool is_file = fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode);
    return is_file ? (uint64_t)st.st_size : 0;
}

void record_directory_list(int dir_fd, struct record_names *ret_names)
{
    struct dirent **entries = NULL;
    int count = scandirat(dir_fd, ".", &entries, is_record, by_name);
    *ret_names = (struct record_names){
        .at = count > 0 ? calloc((size_t)count, sizeof *ret_names->at) : NULL,
    };
    for (int i = 0; i < count; i++) {
        uint64_t size = ret_names->at ? size_of(dir_fd, entries[i]->d_name) : 0;
        char *name = size > 0 ? strdup(entries[i]->d_name) : NULL;
        if (name) {
            ret_names->at[ret_names->count++] = name;
            ret_names->bytes += size;
        }
        free(entries[i]);
    }
    free(entries);
}

void record_names_done(struct record_names *names)
{
    for (int i = 0; i < names->count; i++) {
        free(names->at[i]);
    }
    free(names->at);
}

/* A record whose server lives is locked, and another program's file begins otherwise. */
static bool may_remove(int dir_fd, const char *name)
{
    char begin[sizeof RECORD_BEGIN] = "";
    defer_close int fd = openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    return fd >= 0 && fd_pread_all(fd, begin, sizeof begin - 1, 0) > 0 &&
           strcmp(begin, RECORD_BEGIN) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Removes the oldest records that no live server holds, until all but own take at most so many
 * bytes. Returns how many bytes they take then. */
static uint64_t record_directory_trim(int dir_fd, const char *own, uint64_t bytes)
{
    struct record_names names;
    record_directory_list(dir_fd, &names);
    uint64_t left = names.bytes;
    for (int i = 0; i < names.count; i++) {
        left -= strcmp(names.at[i], own) == 0 ? size_of(dir_fd, own) : 0;
    }
    for (int i = 0; i < names.count; i++) {
        const char *name = names.at[i];
        uint64_t size = size_of(dir_fd, name);
        if (left > bytes && strcmp(name, own) != 0 && may_remove(dir_fd, name) &&
            unlinkat(dir_fd, name, 0) == 0) {
            left -= size < left ? size : left;
        }
    }
    record_names_done(&names);
    return left;
}

enum { TRIM_PARTS = 16 /* after each such part of the bound the directory is trimmed again */ };

struct record {
    struct record_config config;
    record_fn fn; /* for a listener */
    void *fn_arg;
    json_t *(*make_start)(void *arg);
    void *start_arg;
    int dir_fd;
    int fd; /* -1: not open yet, or no more */
    char name[RECORD_NAME_BYTES];
    uint64_t seq;
    char prev[SHA256_TEXT];
    struct buf line;
    uint64_t bytes;      /* of the file */
    uint64_t others;     /* bytes of the other records */
    uint64_t trimmed_at; /* bytes of the file when others was found */
    unsigned calls;
    unsigned caused; /* events that code has caused since the last cell */
    unsigned missed; /* more of these, which have no line */
    bool ended;
    bool leaves_out;  /* outputs and figures */
    const char *note; /* for the next event, or NULL */
    char news[400];
};

struct record *record_new(const struct record_config *config)
{
    struct record *record = calloc(1, sizeof *record);
    if (record) {
        record->config = *config;
        record->dir_fd = -1;
        record->fd = -1;
        memset(record->prev, '0', sizeof record->prev - 1);
    }
    return record;
}

struct record *record_new_listener(record_fn fn, void *arg)
{
    struct record *record = record_new(&(struct record_config){.bytes = UINT64_MAX});
    if (record) {
        record->fn = fn;
        record->fn_arg = arg;
    }
    return record;
}

void record_free(struct record *record)
{
    if (record) {
        drop_fd(&record->fd);
        drop_fd(&record->dir_fd);
        buf_done(&record->line);
        free(record);
    }
}

void record_set_start(struct record *record, json_t *(*make)(void *arg), void *arg)
{
    if (record) {
        record->make_start = make;
        record->start_arg = arg;
    }
}

/* Ends the record: what is in the file stays. */
static void give_up(struct record *record, const char *why)
{
    record->ended = true;
    drop_fd(&record->fd);
    log_warn("record", "the record has ended: %s", why);
    (void)snprintf(record->news, sizeof record->news, "the record has ended: %.300s", why);
}

/* Makes space for so many bytes more. */
static bool make_space(struct record *record, size_t size)
{
    uint64_t most = record->config.bytes;
    uint64_t part = most / TRIM_PARTS;
    if (record->trimmed_at == 0 || record->bytes + size > record->trimmed_at + part) {
        uint64_t ours = record->bytes + size + part;
        record->others =
            record_directory_trim(record->dir_fd, record->name, ours < most ? most - ours : 0);
        record->trimmed_at = record->bytes + size;
    }
    return record->others + record->bytes + size <= most;
}

static void open_file(struct record *record)
{
    struct fail fail = {};
    if (record->ended || record->fn || record->fd >= 0) {
        return;
    }
    record->dir_fd = record_directory_open(record->config.directory, /* create= */ true, &fail);
    if (record->dir_fd < 0) {
        give_up(record, fail_text(&fail));
        return;
    }
    record->fd = record_file_new(record->dir_fd, record->name);
    if (record->fd < 0) {
        (void)fail_set(&fail, -record->fd, "--record %.300s", record->config.directory);
        give_up(record, fail_text(&fail));
    }
}

bool record_open(struct record *record, struct fail *ret_fail)
{
    if (!record) {
        return true;
    }
    open_file(record);
    if (record->ended && record->config.required) {
        (void)fail_set(ret_fail, 0,
                       "No code runs without a record (--record-required), and the record has "
                       "ended: the server's log says why");
        return false;
    }
    return true;
}

int record_check(const char *directory, struct fail *ret_fail)
{
    struct fail fail = {};
    defer_close int fd = record_directory_open(directory, /* create= */ false, &fail);
    if (fd < 0 && fail.code != ENOENT) {
        *ret_fail = fail;
        return fd;
    }
    return 0;
}

unsigned record_next_call(struct record *record)
{
    return record ? ++record->calls : 0;
}

bool record_has_space(struct record *record, size_t bytes)
{
    if (!record || record->leaves_out) {
        return false;
    }
    /* A byte can take six: \u001b. */
    if (record->bytes + bytes > record->config.bytes / 4) {
        record->leaves_out = true;
        record->note =
            "from here on without outputs and figures: this session has a quarter of "
            "--record-size";
        (void)snprintf(record->news, sizeof record->news,
                       "the record goes on without outputs and figures: this session has a "
                       "quarter of --record-size");
    }
    return !record->leaves_out;
}

const char *record_take_news(struct record *record)
{
    static char news[sizeof record->news];
    if (!record) {
        return "";
    }
    memcpy(news, record->news, sizeof news);
    record->news[0] = '\0';
    return news;
}

void record_leave_out(json_t *event, const char *name)
{
    OWNED(buf_done) struct buf dump = BUF_EMPTY;
    char key[64];
    char hash[SHA256_TEXT];
    const json_t *value = json_object_get(event, name);
    const char *bytes = json_string_value(value);
    size_t size = json_string_length(value);
    if (!value) {
        return;
    }
    if (!bytes) {
        bytes = rpc_text_dump(&dump, value) == 0 ? buf_bytes(&dump) : "";
        size = buf_size(&dump);
    }
    (void)snprintf(key, sizeof key, "%s_bytes", name);
    (void)json_object_set_new(event, key, json_integer((json_int_t)size));
    (void)snprintf(key, sizeof key, "%s_sha256", name);
    (void)json_object_set_new(event, key, json_string(sha256_of(bytes, size, hash)));
    (void)json_object_del(event, name);
}

/* Whether the line is one that record/book.py takes. */
static bool is_readable(const struct buf *line)
{
    return buf_size(line) - 1 <= LIMIT_RECORD_LINE_BYTES &&
           rpc_text_fits(buf_bytes(line), buf_size(line), LIMIT_RECORD_JSON_DEPTH);
}

/* Composes the line: what all lines have, then the members of fields. 0 or -ENOMEM. */
static int compose(struct record *record, const char *kind, const json_t *fields)
{
    char stamp[RPC_TIME_BYTES];
    OWNED(buf_done) struct buf dump = BUF_EMPTY;
    struct buf *line = &record->line;
    int r = rpc_text_dump(&dump, fields);
    buf_clear(line, LIMIT_RECORD_PART_BYTES);
    buf_appendf(line,
                "{\"v\":1,\"seq\":%" PRIu64 ",\"time\":\"%s\",\"kind\":\"%s\",\"prev\":\"%s\"",
                record->seq, rpc_text_time((uint64_t)clock_wall_ns() / CLOCK_NS_PER_MS, stamp),
                kind, record->prev);
    if (record->note) {
        buf_appendf(line, ",\"note\":\"%s\"", record->note);
    }
    if (r == 0 && buf_size(&dump) > 2) {
        buf_append_text(line, ",");
        buf_append(line, buf_bytes(&dump) + 1, buf_size(&dump) - 2);
    }
    r = r ? r : buf_append_text(line, "}\n");
    return r;
}

/* Writes the line, or leaves the file as it was. */
static void write_line(struct record *record)
{
    const struct buf *line = &record->line;
    size_t size = buf_size(line);
    char why[200];
    if (record->bytes + size > record->config.bytes / 2 || !make_space(record, size)) {
        give_up(record, "it has all of --record-size that one session may have");
        return;
    }
    int r = fd_write_all(record->fd, buf_bytes(line), size);
    if (r < 0) {
        (void)ftruncate(record->fd, (off_t)record->bytes);
        (void)snprintf(why, sizeof why, "cannot write to it: %s", strerror(-r));
        give_up(record, why);
        return;
    }
    (void)sha256_of(buf_bytes(line), size - 1, record->prev);
    record->seq++;
    record->bytes += size;
}

static void add_line(struct record *record, const char *kind, json_t *fields)
{
    json_auto_t *owned = fields;
    if (record->ended || record->fd < 0 || !owned) {
        return;
    }
    int r = compose(record, kind, owned);
    if (r == 0 && !is_readable(&record->line)) {
        record_leave_out(owned, "arguments");
        record_leave_out(owned, "code");
        record_leave_out(owned, "content");
        r = compose(record, kind, owned);
    }
    if (r < 0) {
        give_up(record, "out of memory");
        return;
    }
    record->note = NULL;
    write_line(record);
}

void record_add(struct record *record, const char *kind, json_t *fields)
{
    if (record && record->fn && fields) {
        record->fn(record->fn_arg, kind, fields);
    }
    if (!record || record->fn || record->fd < 0) {
        json_decref(fields);
        return;
    }
    if (record->seq == 0) {
        add_line(record, "start",
                 record->make_start ? record->make_start(record->start_arg) : json_object());
    }
    static const char *const borders[] = {"cell", "result", "end", NULL};
    if (record->missed > 0 && parse_is_among(kind, borders)) {
        add_line(record, "missed", json_pack("{s:I}", "missed", (json_int_t)record->missed));
        record->missed = 0;
    }
    record->caused = strcmp(kind, "cell") == 0 ? 0 : record->caused;
    add_line(record, kind, fields);
}

void record_add_caused(struct record *record, const char *kind, json_t *fields)
{
    if (record && record->caused++ < LIMIT_RECORD_CAUSED) {
        record_add(record, kind, fields);
    } else {
        record_add_missed(record, 1);
        json_decref(fields);
    }
}

void record_add_missed(struct record *record, unsigned count)
{
    if (record) {
        record->missed += count < UINT_MAX - record->missed ? count : UINT_MAX - record->missed;
    }
}

void record_end(struct record *record, const char *why)
{
    if (!record || record->fd < 0) {
        return;
    }
    record_add(record, "end", json_pack("{s:s}", "why", why));
    if (record->fd >= 0) {
        log_warn("record", "%s/%s: %" PRIu64 " lines, last hash %s", record->config.directory,
                 record->name, record->seq, record->prev);
        drop_fd(&record->fd);
    }
}

/* Size of the scheme and "://" at the front of text; 0: no URL begins there. */
static size_t scheme_size(const char *text, size_t size)
{
    size_t at = 0;
    while (at < size && (((text[at] | ' ') >= 'a' && (text[at] | ' ') <= 'z') ||
                         (at > 0 && text[at] && strchr("0123456789+-.", text[at])))) {
        at++;
    }
    return at > 0 && size - at > 3 && memcmp(text + at, "://", 3) == 0 ? at + 3 : 0;
}

static size_t span_until(const char *text, size_t size, const char *ends)
{
    size_t at = 0;
    while (at < size && text[at] && !strchr(ends, text[at])) {
        at++;
    }
    return at;
}

/* Size of the user and password, with their "@". A password may hold anything but a blank: also
 * what ends the host of other URLs. A port is digits. */
static size_t user_size(const char *host, size_t size)
{
    size_t authority = span_until(host, size, " \t\r\n\"'<>/?#");
    const char *user = memrchr(host, '@', authority);
    const char *colon = memchr(host, ':', authority);
    size_t at = colon ? (size_t)(colon + 1 - host) : authority;
    while (at < authority && parse_is_digit(host[at])) {
        at++;
    }
    if (!user && at < authority) {
        user = memrchr(host, '@', span_until(host, size, " \t\r\n"));
    }
    return user ? (size_t)(user + 1 - host) : 0;
}

json_t *record_message(const char *text, size_t size)
{
    static const char ends[] = " \t\r\n\"'<>()[]{}|\\,;";
    OWNED(buf_done) struct buf out = BUF_EMPTY;
    for (size_t at = 0; at < size;) {
        bool inside = at > 0 && (text[at - 1] | ' ') >= 'a' && (text[at - 1] | ' ') <= 'z';
        size_t scheme = inside ? 0 : scheme_size(text + at, size - at);
        if (scheme == 0) {
            buf_append(&out, text + at++, 1);
            continue;
        }
        const char *host = text + at + scheme;
        const char *from = host + user_size(host, size - at - scheme);
        size_t left = (size_t)(text + size - from);
        size_t whole = span_until(from, left, ends);
        size_t shown = span_until(from, whole, "?#");
        buf_append(&out, text + at, scheme);
        buf_append(&out, from, shown);
        at = (size_t)(from - text) + (shown < whole ? span_until(from, left, " \t\r\n\"") : whole);
    }
    return buf_error(&out) ? NULL : rpc_text(buf_bytes(&out), buf_size(&out));
}
