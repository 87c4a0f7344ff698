#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

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

/* Makes the file of a record, and locks it. Returns a descriptor or -errno. */
int record_file_new(int dir_fd, char name[RECORD_NAME_BYTES]);

/* Removes the oldest records that no live server holds, until all but own take at most so many
 * bytes. Returns how many bytes they take then. */
uint64_t record_directory_trim(int dir_fd, const char *own, uint64_t bytes);

/* The names of all records in order, the oldest first, and how many bytes they take; none if the
 * directory cannot be read. */
struct record_names {
    char **at;
    int count;
    uint64_t bytes;
};

void record_directory_list(int dir_fd, struct record_names *ret_names);
void record_names_done(struct record_names *names);
