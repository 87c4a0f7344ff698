#pragma once
#include <stdbool.h>
#include <stddef.h>

#include "sandbox/egress/policy.h"

/* Upstream proxies, those of the user's network: which settings name one, what goes directly, and
 * what one replies. Pure.
 *
 * A CONNECT is https, and any other request http, as the egress proxy sees no more of a scheme.
 * --proxy holds for both; else https_proxy and http_proxy, else all_proxy. Of each variable the
 * spelling in lower case counts first, and an empty one means none. */

/* What names the upstream proxies. */
struct egress_settings {
    const char *proxy;                   /* --proxy: a URL, or "off"; NULL: the variables count */
    const char *no_proxy;                /* --no-proxy; NULL: the variable counts */
    char *(*variable)(const char *name); /* getenv(3) */
};

/* Reads a proxy's URL: [http://][USER[:PASSWORD]@]HOST[:PORT], port 80 without one. On failure
 * ret_upstream->unusable has a clause that repeats nothing of the URL but a scheme. */
bool upstream_parse(const char *url, struct egress_upstream *ret_upstream);

/* Finds the upstream proxies. One that a variable names and that is unusable is kept: what would go
 * through it is refused, never sent directly. Whether any is set. */
bool ways_read(const struct egress_settings *settings, struct egress_ways *ret_ways);

/* Whether connections to target are direct: those to loopback addresses, and what the list names.
 *
 * The list is that of NO_PROXY. Of curl it has: a name means its subdomains too, with or without a
 * dot in front; "*" alone means all; address ranges (CIDR) hold for addresses, never for names;
 * blanks or commas between; any case; a final dot. Of Python, requests and Go: "HOST:PORT",
 * "[V6]", "*.NAME", and "*" among others. */
bool ways_is_direct(const struct egress_ways *ways, const struct target *target);

/* The upstream proxy that a request goes through; NULL: it goes directly. */
const struct egress_upstream *ways_find(const struct egress_ways *ways, const struct target *target,
                                        bool tunnel);

/* The next entry of the list that matches nothing, as it cannot be read. *at begins at
 * ways->direct. False: there is none. */
bool ways_next_unreadable(const char **at, const char **ret_entry, size_t *ret_size);

/* "proxy.example:3128"; user: as a URL, "http://user:***@proxy.example:3128". Returns out. */
const char *upstream_print(const struct egress_upstream *upstream, bool user, char *out,
                           size_t size);

enum { UPSTREAM_LOGIN_BYTES = 1064 };

/* "Basic …" of RFC 7617, or "" without a login. Returns out. */
const char *upstream_login(const struct egress_upstream *upstream, char out[UPSTREAM_LOGIN_BYTES]);

/* --- its replies --- */

enum { REPLY_HEAD_MOST = 16384 };

struct upstream_reply {
    unsigned status;
    size_t head_bytes; /* with interim heads (1xx) before it */
    bool takes_basic;  /* of a 401 or 407: Basic is offered, or nothing is */
    char schemes[64];  /* else the schemes that it offers: "Negotiate, NTLM" */
    bool is_page;      /* of a CONNECT: it leads to a page, or is one, such as for a login */
};

enum reply_result { REPLY_MORE, REPLY_WHOLE, REPLY_GARBAGE };

/* Reads the head of the final reply. */
enum reply_result reply_read(const char *bytes, size_t size, struct upstream_reply *ret_reply);

/* Why the upstream proxy cannot be used, for a reply and for none. */
enum upstream_error {
    UPSTREAM_UNUSABLE, /* its URL */
    UPSTREAM_REFUSES,  /* a reply that is no success */
    UPSTREAM_REFUSED_CONNECTION,
    UPSTREAM_NO_ROUTE,
    UPSTREAM_NO_NAME,
    UPSTREAM_NO_RESOLVER,
    UPSTREAM_NO_CONNECTION, /* in time */
    UPSTREAM_SILENT,        /* no reply in time */
    UPSTREAM_SLOW,          /* no reply in time to a request for a path, which a site may delay */
    UPSTREAM_CLOSED,        /* without a reply */
    UPSTREAM_GARBAGE,       /* a reply that is no HTTP */
    UPSTREAM_PASSWORD,      /* the user's was refused before, and is not sent again */
};

enum { UPSTREAM_CONNECT_S = 10, UPSTREAM_REPLY_S = 20, UPSTREAM_PAGE_S = 120 };

/* Fills an event with the sentence about target, and what the user can do. reply: of
 * UPSTREAM_REFUSES. */
void upstream_explain(const struct egress_upstream *upstream, enum upstream_error error,
                      const struct upstream_reply *reply, const struct target *target,
                      struct egress_event *ret_event);
