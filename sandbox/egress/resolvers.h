#pragma once
#include "sandbox/egress/proxy_protocol.h"

/* How this host resolves names. The server reads it for the egress proxy, which opens no files.
 * Pure but for the two functions that read files. */

/* The "nameserver" lines of resolv.conf(5), or this machine itself where there are none. */
void resolvers_of_text(const char *text, struct egress_resolvers *ret_resolvers);
/* The addresses of a name in hosts(5). */
void known_of_text(const char *text, const char *name, struct egress_known *ret_known);

void resolvers_read(struct egress_resolvers *ret_resolvers);
void known_read(const char *name, struct egress_known *ret_known);
