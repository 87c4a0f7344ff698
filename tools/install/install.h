#pragma once
#include "tools/install/install_config.h"
#include "tools/install/install_text.h"

/* Installs, one after the other. Each runs a series of installers that fetch, maybe build, and
 * unpack, and then adds a layer of packages, which every session finds with its next run. */

struct installs;
struct loop;
struct record;
struct overflows;
struct server_box;

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
