#include "record/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/own.h"

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

int record_file_new(int dir_fd, char name[RECORD_NAME_BYTES])
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

uint64_t record_directory_trim(int dir_fd, const char *own, uint64_t bytes)
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
