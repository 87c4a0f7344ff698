#pragma once
#include <stddef.h>

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
