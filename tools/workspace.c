#include "tools/workspace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/loop.h"

struct workspace {
    struct loop *loop;
    const struct box_spec *spec;
    struct box_packages *packages;
    struct box *box;
    struct box_grade grade; /* of box, or of the last one */
    struct box_protected_watch watch;
    bool protection_told;
    struct workspace_waiter *waiters;
    egress_event_fn on_refused; /* may be NULL */
    void *refused_arg;
    struct loop_task bury; /* frees a dead box outside of its own callbacks */
    struct box *dead;
};

static void workspace_bury(void *arg)
{
    struct workspace *workspace = arg;
    box_free(workspace->dead);
    workspace->dead = NULL;
    if (workspace->waiters && !workspace->box) {
        workspace_warm_up(workspace);
    }
}

static void workspace_tell(struct workspace *workspace, struct box *box, const struct fail *why)
{
    /* Those who ask again while they are told wait for the next box. */
    struct workspace_waiter *waiters = workspace->waiters;
    workspace->waiters = NULL;
    while (waiters) {
        struct workspace_waiter *waiter = waiters;
        waiters = waiter->next;
        waiter->workspace = NULL;
        waiter->fn(waiter->arg, box, why);
    }
}

static void workspace_on_state(void *arg, enum box_state state, const struct fail *why)
{
    struct workspace *workspace = arg;
    struct fail none = {};
    if (state == BOX_READY) {
        box_protected_watch(workspace->spec, workspace->grade.protected_names.rows,
                            &workspace->watch);
        workspace_tell(workspace, workspace->box, NULL);
        return;
    }
    if (why) {
        char text[FAIL_TEXT + 128];
        log_error("tools", "sandbox: %s", fail_describe(why, text, sizeof text));
    }
    workspace->dead = workspace->box;
    workspace->box = NULL;
    loop_task_queue(workspace->loop, &workspace->bury, workspace_bury, workspace);
    (void)fail_set(&none, 0, "the sandbox ended");
    workspace_tell(workspace, NULL, why ? why : &none);
}

static void workspace_on_egress(void *arg, const struct egress_event *event)
{
    const struct workspace *workspace = arg;
    if (workspace->on_refused) {
        workspace->on_refused(workspace->refused_arg, event);
    }
}

void workspace_watch_network(struct workspace *workspace, egress_event_fn fn, void *arg)
{
    workspace->on_refused = fn;
    workspace->refused_arg = arg;
}

int workspace_new(struct loop *loop, const struct box_spec *spec, struct workspace **ret_workspace)
{
    struct workspace *workspace = calloc(1, sizeof *workspace);
    if (!workspace) {
        return -ENOMEM;
    }
    workspace->loop = loop;
    workspace->spec = spec;
    workspace->watch.dir_fd = -1;
    if (spec->packages) {
        struct fail fail = {};
        int r = box_packages_new(loop, spec, &workspace->packages, &fail);
        if (r < 0) {
            free(workspace);
            return r;
        }
    }
    box_grade_expect(spec, &workspace->grade);
    *ret_workspace = workspace;
    return 0;
}

void workspace_free(struct workspace *workspace)
{
    if (workspace) {
        if (workspace->box) {
            box_kill(workspace->box); /* which moves it to dead */
        }
        loop_task_cancel(&workspace->bury);
        box_free(workspace->dead);
        box_packages_free(workspace->packages);
        box_protected_unwatch(&workspace->watch);
        free(workspace);
    }
}

void workspace_warm_up(struct workspace *workspace)
{
    struct fail fail = {};
    if (workspace->box || workspace->dead) {
        return;
    }
    struct box_owner owner = {workspace_on_state, workspace, &workspace->grade,
                              workspace_on_egress};
    int r = box_start(workspace->loop, workspace->spec, workspace->packages, &owner,
                      &workspace->box, &fail);
    if (r < 0) {
        char text[FAIL_TEXT + 128];
        log_error("tools", "sandbox: %s", fail_describe(&fail, text, sizeof text));
        workspace_tell(workspace, NULL, &fail);
    }
}

void workspace_wait(struct workspace *workspace, struct workspace_waiter *waiter, workspace_fn fn,
                    void *arg)
{
    if (workspace->box && box_state(workspace->box) == BOX_READY) {
        fn(arg, workspace->box, NULL);
        return;
    }
    *waiter = (struct workspace_waiter){
        .next = workspace->waiters, .workspace = workspace, .fn = fn, .arg = arg};
    workspace->waiters = waiter;
    workspace_warm_up(workspace);
}

void workspace_wait_cancel(struct workspace_waiter *waiter)
{
    if (!waiter->workspace) {
        return;
    }
    struct workspace_waiter **at = &waiter->workspace->waiters;
    while (*at != waiter) {
        at = &(*at)->next;
    }
    *at = waiter->next;
    waiter->workspace = NULL;
}

struct box *workspace_box(const struct workspace *workspace)
{
    return workspace->box && box_state(workspace->box) == BOX_READY ? workspace->box : NULL;
}

struct box_packages *workspace_packages(const struct workspace *workspace)
{
    return workspace->packages;
}

const struct box_spec *workspace_spec(const struct workspace *workspace)
{
    return workspace->spec;
}

const struct box_grade *workspace_grade(const struct workspace *workspace)
{
    return &workspace->grade;
}

void workspace_protected_news(struct workspace *workspace, char *text, size_t size)
{
    (void)box_protected_news(workspace->spec, &workspace->watch, text, size);
}

void workspace_protection(struct workspace *workspace, char *text, size_t size)
{
    const struct box_protected *found = &workspace->grade.protected_names;
    size_t used = 0;
    text[0] = '\0';
    if (!workspace->spec->workspace || workspace->protection_told) {
        return;
    }
    workspace->protection_told = true;
    if (!found->enforced) {
        used +=
            (size_t)snprintf(text, size,
                             "settings of other programs (.git/hooks, .vscode, ...) can be written "
                             "at this isolation level, changes are reported");
    }
    if (found->links_open > 0 && used < size) {
        used += (size_t)snprintf(text + used, size - used,
                                 "%s%u hard-linked files are writable: what is written to them "
                                 "changes their other names outside",
                                 used ? "; " : "", found->links_open);
    } else if (found->links > 0 && used < size) {
        used += (size_t)snprintf(text + used, size - used,
                                 "%u hard-linked files or package directories are read-only",
                                 found->links);
    }
    if (found->shared && used < size) {
        used +=
            (size_t)snprintf(text + used, size - used,
                             "%sanother sandbox is at work in the workspace: what it moved about "
                             "during the start may not be protected",
                             used ? "; " : "");
    }
    for (unsigned i = 0; box_protected_name(i); i++) {
        if (workspace->watch.partial & 1ULL << i && used < size) {
            used += (size_t)snprintf(text + used, size - used, "%snot all of %s is watched",
                                     used ? "; " : "", box_protected_name(i));
        }
    }
    if (found->incomplete && used < size) {
        (void)snprintf(
            text + used, size - used,
            "%smore than %d entries: settings and hard links behind them are not protected",
            used ? "; " : "", PROTECTED_ENTRIES);
    }
}

bool workspace_is_host_folder(const struct workspace *workspace)
{
    return workspace->spec->workspace != NULL;
}
