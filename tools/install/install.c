/* The installs that wait, one of which runs; install_steps.c has its steps. */
#include "tools/install/install.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "tools/install/install_steps.h"

struct install_op *install_op_new(json_t *packages)
{
    struct install_op *op = packages ? calloc(1, sizeof *op) : NULL;
    if (!op) {
        json_decref(packages);
        return NULL;
    }
    op->packages = packages;
    return op;
}

void install_op_free(struct install_op *op)
{
    if (op) {
        json_decref(op->packages);
        json_decref(op->report.fetched);
        json_decref(op->report.installed);
        free(op);
    }
}

static void add_host(void *arg, const char *word)
{
    struct installs *installs = arg;
    struct fail fail = {};
    if (egress_policy_add(&installs->egress, word, &fail) < 0) {
        log_warn("tools", "install: %s", fail_text(&fail));
    }
}

int installs_new(struct loop *loop, struct server_box *server_box,
                 const struct install_config *config, struct overflows *overflows,
                 struct record *record, struct installs **ret_installs)
{
    struct installs *installs = calloc(1, sizeof *installs);
    if (!installs) {
        return -ENOMEM;
    }
    installs->loop = loop;
    installs->server_box = server_box;
    installs->overflows = overflows;
    installs->record = record;
    install_sources_read(config, &installs->sources);
    installs->egress.flag = "--index-host";
    installs->egress.any_address = true; /* an index or its mirror may be in the user's network */
    install_sources_hosts(&installs->sources, add_host, installs);
    *ret_installs = installs;
    return 0;
}

/* Clears what one install leaves behind for the next. */
static void installs_clear(struct installs *installs)
{
    json_decref(take_ptr(installs->reply));
    json_decref(take_ptr(installs->built));
    install_log_done(&installs->log);
    installs->refused[0] = '\0';
    installs->rounds = 0;
}

void installs_free(struct installs *installs)
{
    if (!installs) {
        return;
    }
    box_installer_free(installs->installer);
    box_installer_free(installs->early);
    overflow_free(installs->overflow);
    loop_task_cancel(&installs->task);
    struct install_op *op = installs->current;
    if (op) {
        op->next = installs->queue;
    } else {
        op = installs->queue;
    }
    while (op) {
        struct install_op *next = op->next;
        op->cancelled = true;
        op->on_done(op->arg, op);
        op = next;
    }
    installs_clear(installs);
    free(installs->request);
    free(installs);
}

const struct install_config *installs_config(const struct installs *installs)
{
    return installs->sources.config;
}

const char *installs_source(const struct installs *installs, char *out, size_t size)
{
    return install_sources_describe(&installs->sources, out, size);
}

/* --- the queue --- */

static void installs_begin(void *arg)
{
    struct installs *installs = arg;
    if (installs->current || !installs->queue) {
        return;
    }
    installs->current = installs->queue;
    installs->queue = installs->current->next;
    installs->queued--;
    installs->started_ns = clock_now_ns();
    box_packages_discard(server_box_packages(installs->server_box));
    installs_run_step(installs, INSTALL_FETCH);
}

void installs_done(void *arg, const char *path, uint64_t)
{
    struct installs *installs = arg;
    struct install_op *op = installs->current;
    installs->overflow = NULL;
    (void)snprintf(op->report.log, sizeof op->report.log, "%s", path ? path : "");
    op->report.duration_ns = clock_now_ns() - installs->started_ns;
    install_record(installs->record, op);
    installs_clear(installs);
    installs->current = NULL;
    loop_task_queue(installs->loop, &installs->task, installs_begin, installs);
    op->on_done(op->arg, op);
}

int installs_add(struct installs *installs, struct install_op *op)
{
    if (installs->queued == LIMIT_INSTALL_QUEUE) {
        return -EBUSY;
    }
    list_append(&installs->queue, op);
    installs->queued++;
    loop_task_queue(installs->loop, &installs->task, installs_begin, installs);
    return 0;
}

void installs_cancel(struct installs *installs, struct install_op *op)
{
    if (installs->current == op) {
        op->cancelled = true;
        if (installs->installer) {
            box_installer_cancel(installs->installer);
        }
    } else if (list_remove(&installs->queue, op)) {
        installs->queued--;
        op->cancelled = true;
        op->on_done(op->arg, op);
    }
}
