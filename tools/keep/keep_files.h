#pragma once
#include <linux/limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"
#include "base/hash.h"

/* The files of --keep: of each session one file with what its variables are, which a later server
 * loads, and maybe an earlier one. Code makes these bytes, and code loads them; the server moves
 * them, behind a header of its own. */

enum { KEEP_FORMAT = 1, KEEP_SESSION_BYTES = 65, KEEP_STEM_BYTES = 33, KEEP_NAME_BYTES = 48 };

/* The file's beginning. No padding; all texts end with a NUL, and the rest of them is zero. */
struct keep_header {
    char magic[16]; /* "sandpiper keep\n" */
    uint64_t format;
    uint64_t time_s; /* of the last call that is in it, by the clock of the machine */
    uint64_t bytes;  /* behind the header */
    uint64_t cell;   /* the last one */
    uint64_t named;  /* states with a name, which ended with the server */
    uint64_t job;    /* that did not end; 0: none */
    uint64_t job_cell;
    char session[KEEP_SESSION_BYTES + 7];
    char python[24];              /* "3.11" */
    char workspace[PATH_MAX];     /* resolved; empty: none, and then files are gone too */
    char sha256[SHA256_TEXT + 7]; /* of what is behind the header, then of the header without it */
};

enum keep_which { KEEP_LAST, KEEP_EARLIER };

/* Opens the directory, and makes it if create says so. A descriptor or -errno with ret_fail. */
int keep_directory_open(const char *path, bool create, struct fail *ret_fail);
/* Whether it can be the directory; it need not exist. 0 or -errno with ret_fail. */
int keep_check(const char *path, struct fail *ret_fail);
/* Locks it for this server, and removes what killed ones have left; -EWOULDBLOCK: another server
 * has it. */
int keep_lock(int dir_fd);

/* How the names of the files begin that a session has in a workspace (empty: in memory). Where a
 * stem is awaited, the name of a file does too. Returns out. */
const char *keep_stem(const char *session, const char *workspace, char out[KEEP_STEM_BYTES]);
/* The name of a session's file. Returns out. */
const char *keep_name(const char *stem, enum keep_which which, char out[KEEP_NAME_BYTES]);

/* Opens a file and reads its header, of which only the form is checked. A descriptor, positioned
 * behind it, or -errno: -ENOENT: there is none; else with a sentence in ret_fail. */
int keep_open(int dir_fd, const char *name, struct keep_header *ret_header, struct fail *ret_fail);

/* Copies and checks what is behind the header, a part in each call. */
struct keep_reader {
    int fd;     /* of keep_open(), borrowed */
    int out_fd; /* receives the bytes, borrowed */
    uint64_t left;
    struct sha256 hash;
};
void keep_reader_begin(struct keep_reader *reader, int fd, int out_fd,
                       const struct keep_header *header);
/* 1: there is more. 0: it is whole. -EBADMSG: it is damaged. -errno. */
int keep_reader_step(struct keep_reader *reader, const struct keep_header *header);

/* Writes a new file: under another name, until it is whole and on the disk. */
struct keep_writer {
    int dir_fd; /* borrowed */
    int fd;     /* -1: none */
    uint64_t bytes;
    uint64_t most;
    int error;  /* 0 or -errno: then nothing more is written */
    bool aside; /* the file that it replaces becomes the earlier one */
    struct sha256 hash;
    char stem[KEEP_STEM_BYTES];
};
int keep_writer_begin(struct keep_writer *writer, int dir_fd, const char *stem, uint64_t most);
void keep_writer_add(struct keep_writer *writer, const char *bytes, size_t size);
/* Writes the header, whose bytes and sha256 it fills in, and starts a process that brings the file
 * to the disk and gives it its name: the disk may take its time. *ret_pid: a child, whose exit
 * status is an errno value. 0 or -errno. */
int keep_writer_end(struct keep_writer *writer, struct keep_header *header, pid_t *ret_pid);
/* Removes what has been written. Idempotent. */
void keep_writer_drop(struct keep_writer *writer);

/* Makes the earlier state the last one, and the other way round if there are both. 0 or -errno. */
int keep_restore(int dir_fd, const char *stem);
/* "28 Nov 14:02", with the year if that is long ago. Returns out. */
const char *keep_time(uint64_t time_s, char out[32]);
/* Removes the last state, or makes it the earlier one. 0 or -errno; 0 if there is none. */
int keep_remove(int dir_fd, const char *stem, bool aside);

/* Removes the oldest files but that of this session, until the others take at most so many bytes
 * and are fewer than KEEP_SESSIONS, and those that are older than so many days (0: of any age). */
enum { KEEP_SESSIONS = 32 };
void keep_trim(int dir_fd, const char *stem, uint64_t bytes, unsigned days);

/* Whether the file has an earlier state. */
bool keep_is_earlier(const char *name);
/* What is in the directory, in no order: fn gets each. */
typedef void (*keep_list_fn)(void *arg, const char *name, const struct keep_header *header);
void keep_list(int dir_fd, keep_list_fn fn, void *arg);
