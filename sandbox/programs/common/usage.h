#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Inodes that a scan has met: a hash table with free slots of 0. */
enum { INODE_SET_SIZE = 16384 };
struct inode_set {
    uint64_t keys[INODE_SET_SIZE];
};

/* Whether the inode is new in the set, which keeps it if there is space. device: 0: the kernel's
 * own. */
bool inode_set_add(struct inode_set *set, uint64_t device, uint64_t inode);

/* What code holds of a disk that has no quota. Files that move during a scan may be missed or
 * counted twice; the next scan corrects that. */

struct usage {
    uint64_t bytes;
    uint64_t entries;
    bool hides; /* there is more, of unknown size */
};

/* Adds what is below a directory. fd is taken; -1: nothing. Stops above the limits in most. Sets
 * hides for what is deeper than depth levels or in unreadable directories. */
void usage_add_directory(struct usage *usage, int fd, unsigned depth, const struct usage *most);

/* Adds the nameless files that pid has open. usage_begin() forgets which files were counted. */
void usage_begin(void);
void usage_add_deleted(struct usage *usage, pid_t pid);

/* Whether pid holds files whose size cannot be read: mapped and without a name, or in transit in a
 * socket's message. */
bool usage_hides(pid_t pid);

/* Bytes that pid has written so far, from its io file, proc(5). */
uint64_t usage_written(pid_t pid);

/* Number of descriptors in transit to this socket of pid; also 0 when the kernel does not report
 * it. */
uint64_t usage_flights(pid_t pid, const char *descriptor);
