#include "tools/egress_consent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "rpc/call.h"
#include "tools/box/tool.h"

struct held_run {
    struct held_run *next;
    struct rpc_call *call;
    json_t *arguments;
    host_begin_fn begin;
};

/* Lists the first count wanted hosts: "a.example.org:443, b.example.org:80". */
static void list_wanted(const struct egress_consent *hosts, unsigned count, char *out, size_t size)
{
    out[0] = '\0';
    for (unsigned i = 0; i < count; i++) {
        buf_extend(out, size, "%s%s", i ? ", " : "", hosts->wanted[i]);
    }
}

static bool is_wanted(const struct egress_consent *hosts, const char *word)
{
    for (unsigned i = 0; i < hosts->wanted_count; i++) {
        if (strcmp(hosts->wanted[i], word) == 0) {
            return true;
        }
    }
    return false;
}

void egress_consent_refused(void *arg, const struct egress_event *event)
{
    struct tools *tools = arg;
    struct egress_consent *hosts = tools->hosts;
    char word[HOST_WORD_BYTES];
    bool brackets = strchr(event->host, ':') != NULL;
    if (event->kind != EGRESS_REFUSED_HOST || !event->host[0] ||
        event->host[strspn(event->host, "abcdefghijklmnopqrstuvwxyz0123456789.-_:")] ||
        hosts->wanted_count == HOSTS_WANTED) {
        return; /* the user must be able to read the name */
    }
    (void)snprintf(word, sizeof word, "%s%s%s:%u", brackets ? "[" : "", event->host,
                   brackets ? "]" : "", event->port);
    if (!json_object_get(hosts->declined, word) && !is_wanted(hosts, word)) {
        memcpy(hosts->wanted[hosts->wanted_count++], word, sizeof word);
    }
}

/* Begins its call, or ends it. */
static void held_end(struct tools *tools, struct held_run *held, bool begin)
{
    if (begin && !rpc_call_cancelled(held->call)) {
        held->begin(tools, held->call, held->arguments);
    } else {
        rpc_call_fail(held->call, RPC_INTERNAL_ERROR, "the call did not start");
    }
    json_decref(held->arguments);
    free(held);
}

/* Allows what the user was asked about. The next refusal reports what could not be added. */
static void allow(struct tools *tools)
{
    struct egress_consent *hosts = tools->hosts;
    struct box *box = server_box_get(tools->server_box);
    for (unsigned i = 0; i < hosts->asked_count; i++) {
        struct fail fail = {};
        int r = egress_policy_add(tools->config.hosts, hosts->wanted[i], &fail);
        if (r == 0 && box) {
            r = box_allow_host(box, hosts->wanted[i], &fail);
        }
        if (r < 0) {
            log_warn("tools", "%s", fail.text);
        }
    }
}

static void decline(struct egress_consent *hosts)
{
    if (!hosts->declined) {
        hosts->declined = json_object();
    }
    for (unsigned i = 0; i < hosts->asked_count; i++) {
        (void)json_object_set_new(hosts->declined, hosts->wanted[i], json_true());
    }
}

static void forget_asked(struct egress_consent *hosts)
{
    hosts->wanted_count -= hosts->asked_count;
    memmove(hosts->wanted[0], hosts->wanted[hosts->asked_count],
            hosts->wanted_count * sizeof hosts->wanted[0]);
}

static void client_responded(void *arg, enum consent_outcome outcome, const char *, const json_t *)
{
    struct tools *tools = arg;
    struct egress_consent *hosts = tools->hosts;
    struct held_run *held = take_ptr(hosts->held);
    char list[HOSTS_NEWS_BYTES - 40];
    list_wanted(hosts, hosts->asked_count, list, sizeof list);
    if (outcome == CONSENT_GIVEN || outcome == CONSENT_REFUSED) {
        bool given = outcome == CONSENT_GIVEN;
        (void)snprintf(hosts->news, sizeof hosts->news,
                       given ? "the user allowed %s" : "the user did not allow %s", list);
        if (given) {
            allow(tools);
        } else {
            decline(hosts);
        }
        forget_asked(hosts);
    } else { /* the call that asked has ended: the next call asks, or the same one again */
        struct held_run *asker = held;
        held = held->next;
        if (outcome == CONSENT_GONE) {
            held_end(tools, asker, /* begin= */ false);
        } else {
            json_decref(asker->arguments);
            free(asker);
        }
    }
    hosts->asked_count = 0;
    while (held) {
        struct held_run *next = held->next;
        held_end(tools, held, /* begin= */ !hosts->ending);
        held = next;
    }
}

static void ask(struct tools *tools, struct rpc_call *call)
{
    struct egress_consent *hosts = tools->hosts;
    char list[HOSTS_WANTED * (HOST_WORD_BYTES + 2)];
    char message[sizeof list + 200];
    hosts->asked_count = hosts->wanted_count < HOSTS_ASKED ? hosts->wanted_count : HOSTS_ASKED;
    list_wanted(hosts, hosts->asked_count, list, sizeof list);
    (void)snprintf(message, sizeof message,
                   "Python code in the sandbox requests access to %s. Allow it? Until this server "
                   "exits, the code can send there any data that it has.",
                   list);
    consents_ask(
        tools->consents, call,
        &(struct consent){
            .kind = "allow-host", .subject = list, .message = message, .flag = "--allow-host"},
        client_responded, tools);
}

bool egress_consent_hold(struct tools *tools, struct rpc_call *call, const json_t *arguments,
                         host_begin_fn begin)
{
    struct egress_consent *hosts = tools->hosts;
    bool open = hosts->asked_count > 0;
    if (!open && (hosts->wanted_count == 0 || !rpc_call_can_elicit(call))) {
        return false;
    }
    struct held_run *held = calloc(1, sizeof *held);
    if (!held) {
        return false;
    }
    *held = (struct held_run){NULL, call, json_deep_copy(arguments), begin};
    list_append(&hosts->held, held);
    if (!open) {
        ask(tools, call);
    }
    return true;
}

void egress_consent_note(struct tools *tools, const struct rpc_call *call, struct run *run)
{
    struct egress_consent *hosts = tools->hosts;
    struct box *box = server_box_get(tools->server_box);
    char list[HOSTS_NEWS_BYTES - 80];
    if (!tools->config.hosts || !tools->config.hosts->ask) {
        return;
    }
    if (box) {
        box_receive_refusals(box);
    }
    if (hosts->wanted_count > 0 && hosts->asked_count == 0 && call && rpc_call_can_elicit(call)) {
        list_wanted(hosts, hosts->wanted_count < HOSTS_ASKED ? hosts->wanted_count : HOSTS_ASKED,
                    list, sizeof list);
        run_addf(run, RUN_NETWORK, "the next run_python call asks the user to allow %s", list);
    } else {
        run_addf(run, RUN_NETWORK, "%s", hosts->news);
    }
    hosts->news[0] = '\0';
}
