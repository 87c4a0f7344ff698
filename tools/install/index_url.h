#pragma once
#include <stdint.h>

/* The URL of a package index, as a flag gives it, with the credentials split off: only the part
 * without them is shown, logged or passed on a command line. */

struct index_url {
    char clean[1024];   /* without credentials */
    char host[256];     /* "example.org", "::1" */
    char login[256];    /* decoded; empty: none */
    char password[512]; /* decoded */
    char password_encoded[1024];
    uint16_t port;
};

/* Returns NULL and sets *ret_url, or returns a clause that says what is wrong, without any part of
 * the URL: "is not http or https". */
const char *index_url_parse(const char *text, struct index_url *ret_url);
