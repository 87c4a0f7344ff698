#pragma once
#include "sandbox/egress/wire.h"

/* How this host finds addresses, read by the server for the broker, which opens no file. Pure but for
 * the two that read the files. */

/* The "nameserver" lines of resolv.conf(5); this machine itself where there are none. */
void resolvers_of_text(const char *text, struct egress_resolvers *ret_resolvers);
/* The addresses of a name in hosts(5). */
void known_of_text(const char *text, const char *name, struct egress_known *ret_known);

void resolvers_read(struct egress_resolvers *ret_resolvers);
void known_read(const char *name, struct egress_known *ret_known);
