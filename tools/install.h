#pragma once
#include "base/fail.h"
#include "tools/install_config.h"
#include "tools/install_text.h"

/* Installs, one after the other: each is a row of boxes that fetch, maybe build, and unpack, and at last
 * a new layer of packages that every session finds with its next run. */

struct installs;
struct loop;
struct spills;
struct workspace;

/* One install. Filled by who asks, handed to installs_add(), handed back through on_done. */
struct install_job {
    struct install_job *next;
    json_t *packages; /* the job's: requirements, checked by requirement_check() */
    bool upgrade;
    void (*on_progress)(void *arg, const char *text);    /* may be NULL */
    void (*on_done)(void *arg, struct install_job *job); /* takes the job: install_job_free */
    void *arg;
    bool cancelled; /* nothing has changed, nobody waits for the report */
    struct install_report report;
};

/* packages: stolen, NULL for want of memory. NULL when there is no memory. */
struct install_job *install_job_new(json_t *packages);
void install_job_free(struct install_job *job);

/* All is borrowed. spills: where pip's logs become files. 0 or -errno, -EINVAL with a sentence about the
 * flags. */
int installs_new(struct loop *loop, struct workspace *workspace,
                 const struct install_config *config, struct spills *spills,
                 struct installs **ret_installs, struct fail *ret_fail);
/* While the workspace is there. Jobs that are not done are cancelled. installs may be NULL. */
void installs_free(struct installs *installs);

const struct install_config *installs_config(const struct installs *installs);
/* Where packages come from, without credentials. */
const char *installs_source(const struct installs *installs, char *out, size_t size);

/* Takes the job; on_done follows, not before this returns. -EBUSY: too many wait. */
int installs_add(struct installs *installs, struct install_job *job);

/* Ends it at once: on_done follows with cancelled, maybe before this returns. Of no effect on one whose
 * packages have just been put in place. */
void installs_cancel(struct installs *installs, struct install_job *job);
