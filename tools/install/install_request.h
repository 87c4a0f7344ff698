#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/install/install_config.h"

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

/* What the flags mean for the installers: the JSON that the scripts get (guest/installer), the
 * hosts that they may reach, and the secrets in it. */

enum { INSTALL_INDEXES = INSTALL_WORDS + 1 };

struct install_sources {
    const struct install_config *config;
    unsigned count;
    struct index_url urls[INSTALL_INDEXES]; /* the index, if there is one, then the extra ones */
};

/* config: borrowed as long as sources. Its URLs have passed index_url_parse(). */
void install_sources_read(const struct install_config *config, struct install_sources *sources);

/* Calls fn with "HOST:PORT" of each source of packages. */
void install_sources_hosts(const struct install_sources *sources,
                           void (*fn)(void *arg, const char *word), void *arg);

/* Overwrites passwords of the sources in bytes with asterisks. */
void install_sources_redact(const struct install_sources *sources, char *bytes, size_t size);

/* For the tool's description and doctor: "https://pypi.org/simple", "the directory of wheels that
 * the user gave"; never credentials. Returns out. */
const char *install_sources_describe(const struct install_sources *sources, char *out, size_t size);

enum install_step { INSTALL_FETCH, INSTALL_BUILD, INSTALL_PLACE };

struct install_input {
    json_t *packages; /* strings */
    bool upgrade;
    unsigned layers;         /* how many there are */
    const char *layers_path; /* the directory in which the installer sees them */
    uint64_t bytes_most;     /* most bytes of the installed packages */
    bool upstream;           /* FETCH: there is an upstream proxy */
    const json_t *fetched;   /* PLACE, BUILD: FETCH's reply */
    const json_t *built;     /* FETCH: what was built so far, or NULL */
};

/* New: the request of a step, with credentials; NULL when out of memory. */
json_t *install_request(const struct install_sources *sources, enum install_step step,
                        const struct install_input *input);
