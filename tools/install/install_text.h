#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/limits.h"

struct buf;

/* The outcome of an install, as text for a model and in the structured form. The replies are the
 * installer's (guest/installer/installer.py) and not trusted: ignores any of another form. */

enum install_failure {
    INSTALL_DONE, /* no failure */
    INSTALL_NOT_FOUND,
    INSTALL_NO_WHEEL,
    INSTALL_CONFLICT,
    INSTALL_UNREACHABLE,
    INSTALL_BLOCKED,
    INSTALL_DISK,
    INSTALL_TIMEOUT,
    INSTALL_AUTH,
    INSTALL_PROXY, /* an upstream proxy refuses, or cannot be used */
    INSTALL_BAD_HASH,
    INSTALL_NO_INSTALLER,
    INSTALL_BUILD_FAILED,
    INSTALL_MEMORY,
    INSTALL_UNAVAILABLE, /* no package directory, or no sandbox */
    INSTALL_OTHER,
    INSTALL_FAILURE_COUNT,
};

struct install_report {
    enum install_failure failure;
    json_t *fetched;                     /* FETCH's last reply, or NULL */
    json_t *installed;                   /* PLACE's reply, or NULL */
    char message[1024];                  /* of a failure: what happened, one or more sentences */
    char log[LIMIT_OVERFLOW_NAME_BYTES]; /* path of pip's log in the sandbox; empty: none */
    uint64_t duration_ns;
};

/* The failure that a reply's "class" names; INSTALL_OTHER for an unknown one. */
enum install_failure install_failure_of(const json_t *reply);

/* Appends the result, which ends with a newline. 0 or -ENOMEM. */
int install_text_compose(const struct install_report *report, struct buf *text);

/* Appends the same as a clause of another text: "not installed, not found: …"; nothing if all
 * packages were there. 0 or -ENOMEM. */
int install_text_brief(const struct install_report *report, struct buf *text);

/* New: the same in the form of schema/install_package.output.json, with text in it; NULL when out
 * of memory. */
json_t *install_text_structured(const struct install_report *report, const char *text, size_t size);
