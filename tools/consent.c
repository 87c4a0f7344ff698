#include "tools/consent.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "record/record.h"
#include "rpc/call.h"
#include "tools/box/tool.h"

enum { GIVEN_MOST = 1000 /* keys; with more, the user is asked again each time */ };

struct consent_wait {
    struct consents *consents;
    struct consent_wait *next;
    char *key;            /* "install numpy" */
    struct consent about; /* what is static of it */
    struct rpc_call *call;
    bool can_elicit;
    consent_fn fn;
    void *arg;
};

static void wait_free(struct consent_wait *wait)
{
    free(wait->key);
    free(wait);
}

/* Frees it and takes it off the list. */
static void wait_end(struct consent_wait *wait)
{
    list_remove(&wait->consents->waiting, wait);
    wait_free(wait);
}

static void remember(struct consents *consents, const char *key)
{
    if (!consents->given) {
        consents->given = json_object();
    }
    if (json_object_size(consents->given) < GIVEN_MOST) {
        (void)json_object_set_new(consents->given, key, json_true()); /* else asks again */
    }
}

static const char *refusal(const struct consent_wait *wait, enum rpc_elicitation_outcome response,
                           char *out, size_t size)
{
    if (response == RPC_ELICITATION_DECLINED) {
        return "The user declined.";
    }
    if (response == RPC_ELICITATION_DISMISSED) {
        return "The user closed the request without deciding.";
    }
    (void)snprintf(out, size, "%s To allow it without approval, the user can %s%s%s.",
                   wait->can_elicit
                       ? "The user did not respond."
                       : "This needs the user's approval, and this client cannot ask for it.",
                   wait->about.remedy ? wait->about.remedy : "add ",
                   wait->about.remedy ? "" : wait->about.flag,
                   wait->about.remedy ? "" : " to the server's command line");
    return out;
}

static void record_elicitation(const struct consent_wait *wait,
                               enum rpc_elicitation_outcome response)
{
    static const char *const answers[RPC_ELICITATION_COUNT] = {
        [RPC_ELICITATION_ACCEPTED] = "allowed",    [RPC_ELICITATION_DECLINED] = "declined",
        [RPC_ELICITATION_DISMISSED] = "dismissed", [RPC_ELICITATION_NONE] = "none",
        [RPC_ELICITATION_LATER] = "later",
    };
    record_add(wait->consents->record, "question",
               json_pack("{s:s, s:o, s:s, s:s}", "about", wait->about.kind, "subject",
                         record_message(wait->key, strlen(wait->key)), "answer", answers[response],
                         "setting", wait->about.flag));
}

static void wait_responded(void *arg, enum rpc_elicitation_outcome response, const json_t *content)
{
    struct consent_wait *wait = arg;
    consent_fn fn = wait->fn;
    void *fn_arg = wait->arg;
    char text[256];
    const char *why = NULL;
    enum consent_outcome outcome = CONSENT_LATER;
    if (response != RPC_ELICITATION_LATER || wait->about.state || !wait->about.each) {
        record_elicitation(wait, response); /* else a task has it, each time that it is polled */
    }
    if (response == RPC_ELICITATION_ACCEPTED) {
        bool always = wait->about.always && json_is_true(json_object_get(content, "always"));
        if (!wait->about.each) {
            remember(wait->consents, always ? wait->about.kind : wait->key);
        }
        outcome = CONSENT_GIVEN;
    } else if (response == RPC_ELICITATION_NONE && rpc_call_cancelled(wait->call)) {
        outcome = CONSENT_GONE;
    } else if (response != RPC_ELICITATION_LATER) {
        why = refusal(wait, response, text, sizeof text);
        outcome = CONSENT_REFUSED;
    }
    wait_end(wait);
    fn(fn_arg, outcome, why, content);
}

/* New: the form: empty, or with one optional choice. */
static json_t *form(const struct consent *consent)
{
    if (consent->form) {
        return json_incref((json_t *)(uintptr_t)consent->form);
    }
    json_t *always = consent->always ? json_pack("{s:s, s:s, s:b}", "type", "boolean", "title",
                                                 consent->always, "default", 0)
                                     : NULL;
    return json_pack("{s:s, s:{s:o*}}", "type", "object", "properties", "always", always);
}

static struct consent_wait *wait_new(struct consents *consents, const struct consent *consent)
{
    struct consent_wait *wait = calloc(1, sizeof *wait);
    if (!wait || asprintf(&wait->key, "%s %s", consent->kind, consent->subject) < 0) {
        free(wait);
        return NULL;
    }
    wait->consents = consents;
    wait->about = *consent;
    wait->next = consents->waiting;
    consents->waiting = wait;
    return wait;
}

void consents_ask(struct consents *consents, struct rpc_call *call, const struct consent *consent,
                  consent_fn fn, void *arg)
{
    char numbered[32];
    json_auto_t *schema = form(consent);
    struct consent_wait *wait = schema ? wait_new(consents, consent) : NULL;
    if (!wait) {
        fn(arg, CONSENT_REFUSED, "out of memory; user not asked", NULL);
        return;
    }
    wait->can_elicit = rpc_call_can_elicit(call);
    wait->call = call;
    wait->fn = fn;
    wait->arg = arg;
    if (!wait->about.each && (json_object_get(consents->given, wait->about.kind) ||
                              json_object_get(consents->given, wait->key))) {
        wait_end(wait);
        fn(arg, CONSENT_GIVEN, NULL, NULL);
        return;
    }
    (void)snprintf(numbered, sizeof numbered, "%s #%u", consent->kind, consent->each);
    const struct rpc_elicitation elicitation = {consent->each ? numbered : wait->key,
                                                consent->message, schema, consent->state};
    rpc_call_elicit(call, &elicitation, wait_responded, wait);
}

void consents_withdraw(struct consents *consents, const void *arg)
{
    struct consent_wait *wait = list_find(consents->waiting, at, at->arg == arg);
    if (wait) {
        rpc_call_withdraw(wait->call);
        wait_end(wait);
    }
}

void consents_done(struct consents *consents)
{
    while (consents->waiting) { /* a callback may end others */
        struct consent_wait *wait = consents->waiting;
        consent_fn fn = wait->fn;
        void *arg = wait->arg;
        consents->waiting = wait->next;
        wait_free(wait);
        fn(arg, CONSENT_GONE, NULL, NULL);
    }
    json_decref(take_ptr(consents->given));
}

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
    if (event->kind != EGRESS_ALLOWED && !hosts->refusal.text[0]) {
        hosts->refusal = *event;
    } else if (event->kind != EGRESS_ALLOWED) {
        hosts->more_refused |= strcmp(event->text, hosts->refusal.text) != 0;
    }
    if (!tools->config.hosts || !tools->config.hosts->ask || event->kind != EGRESS_REFUSED_HOST ||
        !event->host[0] ||
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
        int r = egress_policy_allow(tools->config.hosts, hosts->wanted[i], &fail);
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
    char message[sizeof list + 280];
    hosts->asked_count = hosts->wanted_count < HOSTS_ASKED ? hosts->wanted_count : HOSTS_ASKED;
    list_wanted(hosts, hosts->asked_count, list, sizeof list);
    (void)snprintf(
        message, sizeof message,
        "Python code in the sandbox requests access to %s%s. Allow it? Until this server "
        "exits, the code can send there any data that it has.",
        list, tools->config.spec->ways ? " (your network's proxy decides where a name leads)" : "");
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

/* Many programs (git, curl) show no reason of a refused tunnel, and in plain http it reads as if
 * the site gave it. A traceback has it already, as has the question whether a host may be reached.
 */
static void note_refusal(struct egress_consent *hosts, struct run *run)
{
    char quoted[WORD_PHRASE + 1];
    const char *text = hosts->refusal.text;
    const char *before = run_fact(run, RUN_NETWORK);
    if (text[0] && !(*before && hosts->refusal.kind == EGRESS_REFUSED_HOST) &&
        !strstr(run_fact(run, RUN_TRACEBACK), text)) {
        run_addf(run, RUN_NETWORK, "%s%sthe sandbox's proxy answered, not the site: %s%s", before,
                 *before ? "; " : "", word_quote(text, strlen(text), quoted, sizeof quoted),
                 hosts->more_refused ? ", and more" : "");
    }
    hosts->refusal.text[0] = '\0';
    hosts->more_refused = false;
}

/* The words of node where it looks a name up itself, whether or not it then ends with an error. */
static void note_lookup(const struct box_spec *spec, struct run *run)
{
    OWNED(buf_done) struct buf shown = BUF_EMPTY;
    if (*run_fact(run, RUN_NETWORK)) {
        return;
    }
    (void)output_append_raw(&run->output, &shown);
    (void)output_append_raw(&run->errors, &shown);
    (void)buf_append_text(&shown, run_fact(run, RUN_TRACEBACK));
    const char *text = buf_bytes(&shown);
    if (memmem(text, buf_size(&shown), "getaddrinfo ENOTFOUND ", 22) ||
        memmem(text, buf_size(&shown), "getaddrinfo EAI_AGAIN ", 22)) {
        run_addf(
            run, RUN_NETWORK, "%s",
            spec->egress
                ? "node looked the name up itself, past the proxy in https_proxy, which it "
                  "uses from 22.21 and 24.5 on: let it run curl (child_process), or fetch "
                  "with Python"
                : "the sandbox has none, so node finds no name; use write_file to bring in data");
    }
}

static void note_asked(struct tools *tools, const struct rpc_call *call, struct run *run)
{
    struct egress_consent *hosts = tools->hosts;
    char list[HOSTS_NEWS_BYTES - 80];
    if (hosts->wanted_count > 0 && hosts->asked_count == 0 && call && rpc_call_can_elicit(call)) {
        list_wanted(hosts, hosts->wanted_count < HOSTS_ASKED ? hosts->wanted_count : HOSTS_ASKED,
                    list, sizeof list);
        run_addf(run, RUN_NETWORK, "the next run_python call asks the user to allow %s", list);
    } else {
        run_addf(run, RUN_NETWORK, "%s", hosts->news);
    }
    hosts->news[0] = '\0';
}

void egress_consent_note(struct tools *tools, const struct rpc_call *call, struct run *run)
{
    struct box *box = server_box_get(tools->server_box);
    if (box) {
        box_receive_refusals(box);
    }
    if (tools->config.hosts && tools->config.hosts->ask) {
        note_asked(tools, call, run);
    }
    note_refusal(tools->hosts, run);
    note_lookup(tools->config.spec, run);
}
