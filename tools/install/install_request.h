#pragma once
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* The flags of install_package. All strings are borrowed. */

enum install_mode {
    INSTALL_ON,
    INSTALL_ASK, /* the user is asked, if the client can */
    INSTALL_OFF, /* there is no such tool */
};

enum { INSTALL_WORDS = 32 };

/* The values of a flag that may be repeated. */
struct install_words {
    const char *at[INSTALL_WORDS];
    unsigned count;
};

struct install_config {
    enum install_mode mode;
    const char *index_url; /* NULL: the public index */
    struct install_words extra_index_urls;
    struct install_words index_hosts; /* NAME[:PORT] where the index has its files */
    const char *index_cert;           /* file of certificates to trust, or NULL */
    const char *find_links;           /* directory of wheels, or NULL */
    const char *constraint;           /* file of versions to keep to, or NULL */
    struct install_words allow;       /* patterns, comma-separated; none: all */
    struct install_words deny;
    struct install_words preinstall; /* requirements */
    bool no_index;
    bool allow_sdist;
    bool auto_install;
};

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
