#pragma once
#include <stddef.h>

struct buf;
struct install_config;

/* Which distributions may be installed: those that no --deny-package pattern matches and, where there
 * are --allow-package patterns, that one of them does. fnmatch(3) on normalised names (PEP 503). */

/* NULL: name may be installed. Else a clause that names the flag, which is in text: "flask is refused
 * (--deny-package f*)". */
const char *install_policy_refusal(const struct install_config *config, const char *name,
                                   char *text, size_t size);

/* Appends what the policy lets a model expect, in sentences that begin with a blank line; nothing where
 * the user has set nothing. 0 or -ENOMEM. */
int install_policy_describe(const struct install_config *config, struct buf *text);
