#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "sandbox/plan/mount.h"
#include "sandbox/trust/overlap.h"

/* The one rule for all that the server executes, reads as settings or trusts: code of the sandbox can
 * write neither to it nor to a directory above it, on the whole way through its symlinks.
 * docs/THREATS.md lists what has to pass it. */

struct box_spec;

enum { TRUST_PLACES = BOX_MOUNTS + BOX_ALIASES + 6 };

/* A directory of the host that code of the sandbox writes to. Borrowed. */
struct trust_place {
    const char *path;
    bool workspace; /* the user's, of this sandbox or of the sessions beside it */
    bool alias;     /* another mount of one that comes before it */
};

/* A bind mount gives a directory another name, which no walk from it leads to: puts into spec->aliases where
 * a part of what code writes to is mounted elsewhere, and what is mounted in it. 0 or -errno */
[[nodiscard]] int trust_find_aliases(struct box_spec *spec, struct fail *ret_fail);
/* The same by the text of /proc/PID/mountinfo, which is changed. */
[[nodiscard]] int trust_read_aliases(struct box_spec *spec, char *mountinfo, struct fail *ret_fail);
void trust_forget_aliases(struct box_spec *spec);

/* All of them, of this sandbox and of those beside it. Returns how many. */
unsigned trust_places(const struct box_spec *spec, struct trust_place places[TRUST_PLACES]);

/* Which of them path leads into; .path is NULL: none, so path can be trusted. path: as in overlap_of(). */
struct trust_place trust_meets(const struct box_spec *spec, const char *path);

/* Refuses path where code could change it. what: "the configuration file"; fix: what the user is to do, a
 * clause. 0 or -EPERM with a sentence. */
[[nodiscard]] int trust_check(const struct box_spec *spec, const char *what, const char *path,
                              const char *fix, struct fail *ret_fail);

/* The same for a directory with all that is in it: none of code's directories may lie in it either. */
[[nodiscard]] int trust_check_tree(const struct box_spec *spec, const char *what, const char *dir,
                                   const char *fix, struct fail *ret_fail);

/* The sentence of a refusal, for who has judged by itself. -EPERM */
int trust_refuse(const char *what, const char *path, const struct trust_place *place,
                 const char *fix, struct fail *ret_fail);

/* What the server itself depends on: its program, the libraries that it was started with, and where the
 * dynamic loader would look for others at the next start (LD_AUDIT, LD_LIBRARY_PATH, LD_PRELOAD; ld.so(8)).
 * 0 or -EPERM */
[[nodiscard]] int trust_check_self(const struct box_spec *spec, struct fail *ret_fail);

/* The entries of the variable PATH that can be trusted, in their order, or the usual directories where
 * there is none. Relative entries and empty ones, which mean the current directory, are left out. out: size
 * bytes; an entry that does not fit is left out. */
void trust_path(const struct box_spec *spec, char *out, size_t size);

/* Looks for an executable in the system's own directories, whatever PATH says; out: PATH_MAX bytes. Returns
 * false where there is none that can be trusted. */
bool trust_find_system_program(const struct box_spec *spec, const char *name, char *out);

/* The text of /proc/self/mountinfo, proc_pid_mountinfo(5), for free(3). 0 or -errno */
[[nodiscard]] int trust_read_mounts(char **ret_text, struct fail *ret_fail);
