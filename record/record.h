#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

struct record;

/* The directory of records: one file for each server, locked while its server lives. */

enum { RECORD_NAME_BYTES = 64 };

/* What each record's first line begins with. */
#define RECORD_BEGIN "{\"v\":1,\"seq\":0,\"time\":\""

/* Whether a file of this name can be a record: "2026-11-22T10-15-02Z-4711.jsonl". */
bool record_is_name(const char *name);

/* A directory that nobody else may enter, for sentences: the flag that names it, and why. */
struct private_directory {
    const char *flag;
    const char *holds;
};

/* Opens one, which must have mode 0700 and be the user's own; makes it if create says so and it is
 * missing. Returns a descriptor or -errno with ret_fail. */
int private_directory_open(const struct private_directory *what, const char *path, bool create,
                           struct fail *ret_fail);
/* The same for that of the records. */
int record_directory_open(const char *path, bool create, struct fail *ret_fail);

/* The names of all records in order, the oldest first, and how many bytes they take; none if the
 * directory cannot be read. */
struct record_names {
    char **at;
    int count;
    uint64_t bytes;
};

void record_directory_list(int dir_fd, struct record_names *ret_names);
void record_names_done(struct record_names *names);

/* What one server does, as a file of JSON lines that only grows: {"v":1,"seq":N,"time":"…","kind":
 * "cell","prev":"…", …}. prev is the SHA-256 of the line before without its newline, so that a line
 * that is altered, missing or moved shows. docs/RECORD.md is the user's page.
 *
 * The file is made at the first call (record_open) and its first line at the first event. Where
 * writing fails the record ends: the server goes on, and record_take_news() says so once. */

struct record_config {
    const char *directory; /* absolute, without symlinks; it need not exist. Borrowed */
    uint64_t bytes;        /* of all records in it */
    bool required;         /* no call runs without a record */
};

/* Takes an event instead of a file; fields: borrowed. */
typedef void (*record_fn)(void *arg, const char *kind, const json_t *fields);

/* Both return NULL when out of memory. record may be NULL in all functions below, which then do
 * nothing. */
struct record *record_new(const struct record_config *config);
struct record *record_new_listener(record_fn fn, void *arg);
void record_free(struct record *record);

/* make: returns, new, what the first line has beside its kind "start". */
void record_set_start(struct record *record, json_t *(*make)(void *arg), void *arg);

/* Makes the file if there is none yet. False: no call may run, with the sentence why in ret_fail.
 */
bool record_open(struct record *record, struct fail *ret_fail);

/* Whether a record can be in this directory, which need not exist: see above. 0 or -errno
 * with ret_fail. */
int record_check(const char *directory, struct fail *ret_fail);

/* A number for each call that runs code: its events name it. */
unsigned record_next_call(struct record *record);

/* fields: stolen, an object. Of an event that no reader would take (record/book.py), arguments,
 * code and content are left out. */
void record_add(struct record *record, const char *kind, json_t *fields);

/* The same for an event that code alone causes, which must not fill the record: it has at most
 * LIMIT_RECORD_CAUSED of them for each cell. */
void record_add_caused(struct record *record, const char *kind, json_t *fields);

/* Leaves out an event's member: its size and SHA-256 stay, of the text or of compact JSON. */
void record_leave_out(json_t *event, const char *name);

/* So many more events of that sort are unknown: a later one of kind "missed" has their number. */
void record_add_missed(struct record *record, unsigned count);

/* Whether so many bytes of outputs and figures still go into the record; else only their length and
 * hash do. */
bool record_has_space(struct record *record, size_t bytes);

/* What the next result has to say of the record, once; empty: nothing. */
const char *record_take_news(struct record *record);

/* Writes the last line. Reports its hash to stderr. why: "stdin was closed". */
void record_end(struct record *record, const char *why);

/* New: a string of a server's message in which each URL has lost its user, password, query and
 * fragment. */
json_t *record_message(const char *text, size_t size);
