#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"
#include "tools/index_url.h"
#include "tools/install_config.h"

/* What the flags mean for the installer's boxes: the JSON that the scripts get (guest/installer), the hosts
 * that they may reach, and what must not be seen of it. */

enum { INSTALL_INDEXES = INSTALL_WORDS + 1 };

struct install_sources {
    const struct install_config *config;
    unsigned count;
    struct index_url urls[INSTALL_INDEXES]; /* the index, where there is one, then the extra ones */
};

/* 0, or -EINVAL and a sentence that names the flag. config: borrowed as long as sources. */
int install_sources_read(const struct install_config *config, struct install_sources *sources,
                         struct fail *ret_fail);

/* Calls fn with "HOST:PORT" of each place that packages may come from. */
void install_sources_hosts(const struct install_sources *sources,
                           void (*fn)(void *arg, const char *word), void *arg);

/* Overwrites passwords of the sources that stand in bytes with asterisks. */
void install_sources_redact(const struct install_sources *sources, char *bytes, size_t size);

/* What the tool's description and doctor say: "https://pypi.org/simple", "the folder of wheels that the
 * user gave"; never credentials. Returns out. */
const char *install_sources_describe(const struct install_sources *sources, char *out, size_t size);

enum install_step { INSTALL_FETCH, INSTALL_BUILD, INSTALL_PLACE };

struct install_wish {
    json_t *packages; /* strings */
    bool upgrade;
    unsigned layers;         /* how many are there, */
    const char *layers_path; /* and in which folder the box sees them */
    uint64_t bytes_most;     /* of what is installed */
    const json_t *fetched;   /* PLACE, BUILD: the fetch box's reply */
    const json_t *built;     /* FETCH: what was built so far, or NULL */
};

/* New: the request of a step; NULL when there is no memory. It has credentials. */
json_t *install_request(const struct install_sources *sources, enum install_step step,
                        const struct install_wish *wish);
