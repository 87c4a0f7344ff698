#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An index of git, gitformat-index(5), versions 2 to 4 with names of SHA-1: what it lists. Its
 * bytes are hostile. */

enum { /* of an entry */
       GIT_ENTRY_MTIME = 8,
       GIT_ENTRY_MODE = 24, /* the only field before the object's name that is not of stat(2) */
       GIT_ENTRY_SIZE = 36,
       GIT_ENTRY_OBJECT = 40,
};

struct git_index {
    unsigned char *bytes; /* borrowed */
    size_t size;
    size_t at; /* where what is next begins; 0: it is none, or damaged */
    uint32_t version;
    uint32_t left; /* entries */
};

/* Whether the bytes are an index. */
bool git_index_begin(struct git_index *index, unsigned char *bytes, size_t size);
/* The next entry. *ret_path: its path, in version 4 without what it has in common with the one
 * before. NULL: there is none, or index->at is 0. */
unsigned char *git_index_next(struct git_index *index, const char **ret_path);
/* Of four bytes. */
uint32_t git_index_number(const unsigned char *at);
