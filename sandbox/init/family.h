#pragma once
#include <stdbool.h>
#include <sys/types.h>

/* Who belongs to a box, in the caller's /proc. root 0: the caller is pid 1 of a pid namespace, and
 * everybody else in it does. Otherwise: what descends from the process root, which is a subreaper, so that
 * nobody can leave by losing its parent (PR_SET_CHILD_SUBREAPER, prctl(2)). */

/* Returns how many there are, in *ret_pids: a static list, good until the next call. While the
 * tree changes one or the other may be missed, but it is not empty then. Neither root itself nor, of descendants, those that have ended and are not reaped. */
unsigned family_list(pid_t root, const pid_t **ret_pids);

/* The same, cheap on a machine of many processes: descendants as their parents' tasks name them. Whoever's
 * brother ends meanwhile may be missed, proc(5), and code can try for that: ask for the list above now and
 * then. Who has ended may be named. */
unsigned family_glance(pid_t root, const pid_t **ret_pids);

/* Whether pid is one of them, by its parents up to root. */
bool family_has(pid_t root, pid_t pid);

/* Sends a signal to all of them. Descendants are signalled one by one: whom others fork or orphan meanwhile
 * may be missed. Returns how many there were; of a namespace only whether there was any. */
unsigned family_signal(pid_t root, int number);

/* For root itself, which reaps: ends all its descendants and returns when it has no child left, which for
 * a subreaper means that nobody is. Whoever forks meanwhile must not be helped to: notifications stay
 * unanswered. Gives up after some seconds when the kernel does not let one go. Returns whether all are
 * gone. */
bool family_kill(pid_t root);
