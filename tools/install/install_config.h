#pragma once
#include <stdbool.h>

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
