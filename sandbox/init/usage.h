#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What code holds of a disk that has no quota. What moves meanwhile may be missed or counted twice: the
 * next look tells. */

struct usage {
    uint64_t bytes;
    uint64_t entries;
    bool hides; /* there is more, and nothing says how much */
};

/* Adds what lies below a folder, whose descriptor is taken; -1: nothing. Stops when there is more than most,
 * or most_entries. What lies deeper than depth levels, or in folders that cannot be read, hides. */
void usage_add_folder(struct usage *usage, int fd, unsigned depth, const struct usage *most);

/* Adds the files without a name that pid has open. usage_begin() forgets which were counted. */
void usage_begin(void);
void usage_add_deleted(struct usage *usage, pid_t pid);

/* Whether pid holds files in a way that says nothing of their size: mapped and without a name, or on their
 * way in a socket's message (told since Linux 5.11). */
bool usage_hides(pid_t pid);

/* Bytes that pid has written so far, as proc(5) has it of its io. */
uint64_t usage_written(pid_t pid);

/* How many descriptors are on their way to this socket of pid; 0 as well when the kernel does not say. */
uint64_t usage_flights(pid_t pid, const char *descriptor);
