#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/limits.h"

struct buf;

/* What became of an install, as text for a model and as the structured form. The replies are the
 * installer's word (guest/installer/installer.py): of another form than agreed, they say nothing. */

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
    INSTALL_BAD_HASH,
    INSTALL_NO_INSTALLER,
    INSTALL_BUILD_FAILED,
    INSTALL_MEMORY,
    INSTALL_UNAVAILABLE, /* there is no place for packages here, or no sandbox */
    INSTALL_OTHER,
    INSTALL_FAILURE_COUNT,
};

struct install_report {
    enum install_failure failure;
    json_t *fetched;                  /* the fetch box's last reply, or NULL */
    json_t *installed;                /* the install box's, or NULL */
    char message[1024];               /* of a failure: what happened, one or more sentences */
    char log[LIMIT_SPILL_PATH_BYTES]; /* path of pip's log in the sandbox; empty: there is none */
    uint64_t duration_ns;
};

/* The failure that a reply's "class" names; INSTALL_OTHER for what is not known. */
enum install_failure install_failure_of(const json_t *reply);

/* Appends the answer, which ends with a newline. 0 or -ENOMEM. */
int install_text_compose(const struct install_report *report, struct buf *text);

/* Appends the same in a clause, for a place that has other things to tell: "not installed, not found:
 * …"; nothing where all was there. 0 or -ENOMEM. */
int install_text_brief(const struct install_report *report, struct buf *text);

/* New: the same as schema/install_package.output.json says, with text in it; NULL when there is no
 * memory. */
json_t *install_text_structured(const struct install_report *report, const char *text, size_t size);
