#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/limits.h"
#include "tools/install/install_request.h"

struct buf;
struct installs;
struct loop;
struct overflows;
struct record;
struct server_box;

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

/* Installs, one after the other. Each runs a series of installers that fetch, maybe build, and
 * unpack, and then adds a layer of packages, which every session finds with its next run. */

/* One install. Its owner fills it and passes it to installs_add(); on_done returns it. */
struct install_op {
    struct install_op *next;
    json_t *packages; /* owned: requirements, checked by requirement_check() */
    bool upgrade;
    void (*on_progress)(void *arg, const char *text);  /* may be NULL */
    void (*on_done)(void *arg, struct install_op *op); /* takes op: install_op_free */
    void *arg;
    bool cancelled; /* nothing has changed, and the report is not needed */
    struct install_report report;
};

/* packages: stolen, NULL if out of memory. Returns NULL when out of memory. */
struct install_op *install_op_new(json_t *packages);
void install_op_free(struct install_op *op);

/* All is borrowed. overflows: where pip's logs become files. record: or NULL. 0 or -ENOMEM. */
int installs_new(struct loop *loop, struct server_box *server_box,
                 const struct install_config *config, struct overflows *overflows,
                 struct record *record, struct installs **ret_installs);
/* Call it while the sandbox exists. Cancels installs that are not done. installs may be NULL. */
void installs_free(struct installs *installs);

const struct install_config *installs_config(const struct installs *installs);
/* Where packages come from, without credentials. */
const char *installs_source(const struct installs *installs, char *out, size_t size);

/* Records an install that is over: what was requested, and what is there now. */
void install_record(struct record *record, const struct install_op *op);

/* Takes op; on_done follows, not before this returns. -EBUSY: too many wait. */
int installs_add(struct installs *installs, struct install_op *op);

/* Ends it at once: on_done follows with cancelled, maybe before this returns. Without effect once
 * its packages are in place. */
void installs_cancel(struct installs *installs, struct install_op *op);
