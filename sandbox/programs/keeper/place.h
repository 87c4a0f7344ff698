#pragma once
#include <stdbool.h>

#include "sandbox/protocol/apply_journal.h"

struct keeper;
struct version;

/* place.c: no function follows a symlink, and none leaves the directory at root_fd. */
/* The directory that path is in, as O_PATH; *ret_name: the last part. A descriptor or -errno. */
int place_parent(int root_fd, const char *path, const char **ret_name);
/* 0, with mode 0 where there is nothing, or -errno. ret_links may be NULL. */
int place_look(int root_fd, const char *path, struct apply_facts *ret_facts, unsigned *ret_links);
/* Copies what facts describe. Returns a version, not kept where it has no space or changes
 * meanwhile; NULL: no memory. */
struct version *place_read(struct keeper *keeper, int root_fd, const char *path,
                           const struct apply_facts *facts);
/* Copies what is at path and is what the version was last seen as, if there is space. */
void place_keep(struct keeper *keeper, const char *path, struct version *version);
/* The bytes of a file or the target of a symlink, which facts describe: data has space for them.
 * False: they could not be read, or have changed. */
bool place_content(int root_fd, const char *path, const struct apply_facts *facts, char *data);
/* Whether the file at path, which facts describe, has the bytes of the version, of which there is a
 * copy. */
bool place_has_content(const struct keeper *keeper, const char *path,
                       const struct apply_facts *facts, const struct version *version);
/* Whether somebody has it open or mapped for writing: 1, 0 or -errno. */
int place_is_written(const struct keeper *keeper, const char *path);
/* For a file that is being written or has no other name at the moment: ".write-", 16 digits. */
enum { PLACE_TEMPORARY_NAME = 32 };
void place_temporary_name(char out[PLACE_TEMPORARY_NAME]);
/* Makes path in the workspace what version says. expected: what must be there until then, or NULL:
 * whatever; the user may change it at the same moment. *ret_put: of what it has put there; mode 0
 * if somebody has changed it since. 0; -ESTALE: something else is there, or somebody writes to it;
 * or -errno. */
int place_put(const struct keeper *keeper, const char *path, const struct version *version,
              const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same into the file that is there, which keeps its other names. -EBUSY: somebody has it open.
 */
int place_put_over(const struct keeper *keeper, const char *path, const struct version *version,
                   const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same where the content is what it is to be: the file stays the one that others have open. */
int place_set_attributes(const struct keeper *keeper, const char *path,
                         const struct version *version, const struct apply_facts *expected,
                         struct apply_facts *ret_put);
/* Gives what is at path a name that nothing has. As above. */
int place_move(const struct keeper *keeper, const char *path, const char *target,
               const struct apply_facts *expected, struct apply_facts *ret_put);
/* The same with what is at path in another directory: its content, type and mode bits. */
int place_copy(const struct keeper *keeper, int from_fd, const char *path,
               const struct apply_facts *facts);
/* Gives a directory its mode and time back, after what is in it. */
void place_end_directory(const struct keeper *keeper, const char *path,
                         const struct version *version);
/* Removes it, if it is there; a directory only when it is empty. 0 or -errno. */
int place_remove(const struct keeper *keeper, const char *path);
/* Whether two files, symlinks or directories at path have the same content and mode bits. */
bool place_same(int one_fd, const struct apply_facts *one, int other_fd,
                const struct apply_facts *other, const char *path);
