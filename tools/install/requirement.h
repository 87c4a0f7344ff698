#pragma once
#include <stddef.h>

/* Requirements as install_package takes them: a name with extras, versions and a marker (PEP 508,
 * packaging.python.org "Dependency specifiers"). Refuses what would let a caller choose where a
 * package comes from, or how pip works: options, URLs, paths. */

enum { REQUIREMENT_NAME_BYTES = 129, REQUIREMENT_BYTES = 512, REQUIREMENT_TEXT_BYTES = 400 };

/* Returns NULL and the normalised name, or the sentence in text that says what is wrong. */
const char *requirement_check(const char *requirement, size_t size,
                              char name[REQUIREMENT_NAME_BYTES], char text[REQUIREMENT_TEXT_BYTES]);

/* A valid requirement as the user is asked for it: name, extras and versions without blanks and
 * parentheses. Without the marker, whose strings can hold any sentence; it can only make the
 * install smaller. Returns out. */
const char *requirement_show(const char *requirement, char out[REQUIREMENT_BYTES]);

/* A distribution's name in the form for comparisons: lower case, one "-" for each run of "-", "_"
 * and "." (PEP 503). Other characters stay. Cut to fit out. Returns out. */
char *requirement_normalise(const char *name, size_t size, char *out, size_t out_size);

struct buf;
struct install_config;

/* Which distributions may be installed: those that no --deny-package pattern matches and, if
 * there are --allow-package patterns, that one of them matches. fnmatch(3) on normalised names
 * (PEP 503). */

/* name: from requirement_check(). Returns NULL if it may be installed, else a clause in text that
 * names the flag: "flask is refused (--deny-package f*)". */
const char *install_policy_refusal(const struct install_config *config, const char *name,
                                   char *text, size_t size);

/* Appends what a model must know of the policy, in sentences that begin with a blank line; nothing
 * if the user has set nothing. 0 or -ENOMEM. */
int install_policy_describe(const struct install_config *config, struct buf *text);
