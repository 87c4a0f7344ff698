/* Source: MCP 2026-07-28 client/elicitation, "Requested Schema"; the same since 2025-11-25. Clients
 * refuse other requests as a whole, and in 2026-07-28 the request is the cell's result. */

#include "tools/servers/tool_calls.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"
#include "rpc/client.h"
#include "rpc/text.h"
#include "tools/run/run.h"

enum { FORM_BYTES = 64 << 10, TITLE_BYTES = 200, DESCRIPTION_BYTES = 1000 };

/* WORD: the response must repeat it as the user sees it. */
enum kind {
    TITLE,
    DESCRIPTION,
    WORD,
    TEXT,
    FORMAT,
    NUMBER,
    SIZE,
    BOOLEAN,
    WORDS,
    TITLES,
    CHOICE,
    CHOICES,
    ITEMS
};

struct member {
    const char *key;
    enum kind kind;
    bool required;
};

static const struct member choice[] = {{"const", WORD, true}, {"title", TITLE, true}, {}};
static const struct member plain_items[] = {{"enum", WORDS, true}, {"type", WORD, true}, {}};
static const struct member titled_items[] = {{"anyOf", CHOICES, true}, {}};
static const struct member property_members[] = {{"type", WORD},
                                                 {"title", TITLE},
                                                 {"description", DESCRIPTION},
                                                 {"minLength", SIZE},
                                                 {"maxLength", SIZE},
                                                 {"format", FORMAT},
                                                 {"enum", WORDS},
                                                 {"enumNames", TITLES},
                                                 {"oneOf", CHOICES},
                                                 {"minimum", NUMBER},
                                                 {"maximum", NUMBER},
                                                 {"minItems", SIZE},
                                                 {"maxItems", SIZE},
                                                 {}};

static json_t *take(enum kind kind, json_t *value);

/* New: the known members of an object. */
static json_t *take_members(json_t *object, const struct member *known)
{
    json_auto_t *taken = json_is_object(object) ? json_object() : NULL;
    for (; taken && known->key; known++) {
        json_t *member = json_object_get(object, known->key);
        json_auto_t *value =
            member && !json_is_null(member) ? take(known->kind, member) : json_null();
        if (!value || (json_is_null(value) && known->required)) {
            return NULL;
        }
        if (!json_is_null(value) && json_object_set(taken, known->key, value) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_list(json_t *list, enum kind kind)
{
    json_auto_t *taken = json_is_array(list) ? json_array() : NULL;
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_array_append_new(taken, take(kind, json_array_get(list, i))) < 0) {
            return NULL;
        }
    }
    return take_ptr(taken);
}

static json_t *take_shown(const char *text, size_t size)
{
    char shown[DESCRIPTION_BYTES];
    return text ? json_string(word_line(text, shown, size)) : NULL;
}

static bool is_word(const char *text)
{
    char shown[TITLE_BYTES];
    return text && strcmp(text, word_line(text, shown, sizeof shown)) == 0;
}

/* New: a member of this kind; NULL: it is another; null: it is left out. */
static json_t *take(enum kind kind, json_t *value)
{
    static const char *const formats[] = {"email", "uri", "date", "date-time", NULL};
    const char *text = rpc_text_plain(value);
    bool fits = false;
    switch (kind) {
    case TITLE:
        return take_shown(text, TITLE_BYTES);
    case DESCRIPTION:
        return take_shown(text, DESCRIPTION_BYTES);
    case WORDS:
        return take_list(value, WORD);
    case TITLES:
        return take_list(value, TITLE);
    case CHOICES:
        return take_list(value, CHOICE);
    case CHOICE:
        return take_members(value, choice);
    case ITEMS:
        return take_members(value, json_object_get(value, "anyOf") ? titled_items : plain_items);
    case TEXT:
    case FORMAT:
        if (json_is_string(value) &&
            !(kind == TEXT ? is_word(text) : text && parse_is_among(text, formats))) {
            return json_null();
        }
        fits = text != NULL;
        break;
    case WORD:
        fits = is_word(text);
        break;
    case NUMBER:
        fits = json_is_number(value);
        break;
    case SIZE:
        fits = json_is_integer(value) && json_integer_value(value) >= 0;
        break;
    case BOOLEAN:
        fits = json_is_boolean(value);
        break;
    }
    return fits ? json_incref(value) : NULL;
}

/* New: the property; as pydantic has optional ones, of a type or null, without the null. */
static json_t *without_null(json_t *property)
{
    json_t *copy = json_copy(property);
    json_t *types = json_object_get(property, "anyOf");
    const char *last = rpc_text_plain(json_object_get(json_array_get(types, 1), "type"));
    if (json_array_size(types) == 2 && last && strcmp(last, "null") == 0) {
        (void)json_object_update_missing(copy, json_array_get(types, 0));
    }
    return copy;
}

static json_t *take_property(json_t *asked)
{
    json_auto_t *property = without_null(asked);
    static const struct {
        const char *name;
        enum kind kind; /* of its default */
    } types[] = {{"string", TEXT},
                 {"number", NUMBER},
                 {"integer", NUMBER},
                 {"boolean", BOOLEAN},
                 {"array", WORDS}};
    enum { COUNT = sizeof types / sizeof *types };
    const char *type = rpc_text_plain(json_object_get(property, "type"));
    const json_t *names = json_object_get(property, "enumNames");
    unsigned i = 0;
    while (type && i < COUNT && strcmp(type, types[i].name) != 0) {
        i++;
    }
    if (!type || i == COUNT ||
        (names && json_array_size(names) != json_array_size(json_object_get(property, "enum")))) {
        return NULL;
    }
    const struct member more[] = {
        {"items", ITEMS, types[i].kind == WORDS}, {"default", types[i].kind}, {}};
    json_auto_t *others = take_members(property, more);
    json_t *taken = others ? take_members(property, property_members) : NULL;
    (void)json_object_update(taken, others);
    return taken;
}

json_t *tool_form_new(json_t *schema)
{
    json_t *asked = json_object_get(schema, "properties");
    const char *type = rpc_text_plain(json_object_get(schema, "type"));
    const char *key = NULL;
    json_t *property = NULL;
    json_auto_t *properties = json_object();
    json_auto_t *required = json_array();
    if (!type || strcmp(type, "object") != 0 || !json_is_object(asked)) {
        return NULL;
    }
    json_object_foreach (asked, key, property) {
        if (!is_word(key) || json_object_set_new(properties, key, take_property(property)) < 0) {
            return NULL;
        }
    }
    json_t *names = json_object_get(schema, "required");
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = rpc_text_plain(json_array_get(names, i));
        if (name && json_object_get(asked, name)) {
            (void)json_array_append(required, json_array_get(names, i));
        }
    }
    json_t *form = json_pack("{s:s, s:O, s:O*}", "type", "object", "properties", properties,
                             "required", json_array_size(required) > 0 ? required : NULL);
    if (json_dumpb(form, NULL, 0, 0) > FORM_BYTES) {
        json_decref(form);
        return NULL;
    }
    return form;
}

enum { MESSAGE_BYTES = 2000 };

struct tool_elicitation {
    struct cell_elicitation asked; /* first, so that one leads to the other */
    struct tool_elicitation *next;
    struct tool_elicitations *owner;
    const struct tool_call *call;
    json_t *id;
    json_t *form;
    tool_elicited_fn fn;
    void *arg;
    char message[MESSAGE_BYTES];
};

static void elicitation_free(struct tool_elicitation *elicitation)
{
    list_remove(&elicitation->owner->list, elicitation);
    elicitation->owner->count--;
    json_decref(elicitation->id);
    json_decref(elicitation->form);
    free(elicitation);
}

static void user_responded(struct cell_elicitation *asked, const char *why, const json_t *content)
{
    struct tool_elicitation *elicitation = (struct tool_elicitation *)asked;
    json_auto_t *nothing = json_object();
    json_auto_t *id = json_incref(elicitation->id);
    tool_elicited_fn fn = elicitation->fn;
    void *arg = elicitation->arg;
    elicitation_free(elicitation); /* before the call goes on, and may end */
    fn(arg, id, why ? NULL : content ? content : nothing);
}

/* New: the form that is asked for, or NULL: it is none, or there is a URL to open. */
static json_t *form_of(const json_t *params)
{
    const json_t *mode = json_object_get(params, "mode");
    bool fits = !mode || (json_is_string(mode) && strcmp(json_string_value(mode), "form") == 0);
    return fits ? tool_form_new(json_object_get(params, "requestedSchema")) : NULL;
}

static struct tool_elicitation *elicitation_new(struct tool_elicitations *owner,
                                                const struct tool_call *call, const json_t *id,
                                                const json_t *params)
{
    const char *message = rpc_text_plain(json_object_get(params, "message"));
    char name[WORD_BYTES];
    char shown[MESSAGE_BYTES - WORD_BYTES - 8];
    json_auto_t *form = form_of(params);
    struct tool_elicitation *elicitation = message && form ? calloc(1, sizeof *elicitation) : NULL;
    if (!elicitation) {
        return NULL;
    }
    (void)snprintf(elicitation->message, sizeof elicitation->message, "%s asks: %s",
                   word_show(owner->name, strlen(owner->name), name, sizeof name),
                   word_line(message, shown, sizeof shown));
    elicitation->owner = owner;
    elicitation->call = call;
    elicitation->id = json_incref((json_t *)(uintptr_t)id);
    elicitation->form = take_ptr(form);
    elicitation->asked = (struct cell_elicitation){.kind = "elicitation",
                                                   .subject = elicitation->message,
                                                   .message = elicitation->message,
                                                   .form = elicitation->form,
                                                   .run = call->run,
                                                   .fn = user_responded};
    elicitation->next = owner->list;
    owner->list = elicitation;
    owner->count++;
    return elicitation;
}

/* call: on whose behalf the server asks; NULL: none, and it is declined. params: of the request,
 * may be anything. fn: called once, maybe before this returns, unless it is dropped. */
static void tool_elicitations_receive(struct tool_elicitations *elicitations,
                                      struct tool_call *call, const json_t *id,
                                      const json_t *params, tool_elicited_fn fn, void *arg)
{
    struct tool_elicitation *elicitation =
        call && elicitations->asker && elicitations->count < LIMIT_TOOL_CALLS
            ? elicitation_new(elicitations, call, id, params)
            : NULL;
    if (elicitation) {
        elicitation->fn = fn;
        elicitation->arg = arg;
        elicitations->asker->ask(elicitations->asker->ctx, &elicitation->asked);
    } else {
        log_info("tools", "an elicitation of %s is declined: %s", elicitations->name,
                 !call                  ? "it belongs to no call"
                 : !elicitations->asker ? "nobody can be asked"
                                        : "it is no form as MCP has them, or one of too many");
        fn(arg, id, NULL);
    }
}

/* The call has ended (NULL: all have), and with it what was asked on its behalf. */
static void tool_elicitations_drop(struct tool_elicitations *elicitations,
                                   const struct tool_call *call)
{
    struct tool_elicitation *elicitation = elicitations->list;
    while (elicitation) {
        struct tool_elicitation *next = elicitation->next;
        if (!call || elicitation->call == call) {
            elicitations->asker->withdraw(elicitations->asker->ctx, &elicitation->asked);
            elicitation_free(elicitation);
        }
        elicitation = next;
    }
}

#define SEVERAL UINT32_MAX /* sessions */

/* Takes a call that has left off the list. */
static void remove_sent(struct tool_call *call)
{
    struct tool_calls *calls = call->calls;
    tool_elicitations_drop(&calls->elicitations, call);
    list_remove(&calls->sent, call);
    calls->sent_count--;
}

static struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* What has been cancelled is not taken back: it waits to be read as well. */
static bool takes_calls(const struct tool_calls *calls)
{
    return calls->leave && calls->sent_count < LIMIT_TOOL_CALLS &&
           rpc_client_unread(calls->client) <= LIMIT_TOOL_UNSENT_BYTES;
}

static void on_response(void *arg, const json_t *result, const json_t *error, const char *text);

static void on_pong(void *arg, const json_t *, const json_t *, const char *)
{
    struct tool_calls *calls = arg;
    calls->pings--;
}

/* What an older server has asked before it reads this belongs to no call of this cell. */
static void begin_cell(struct tool_calls *calls, const struct tool_call *call)
{
    if (calls->session != call->session || calls->cell != call->run->cell) {
        calls->session = call->session;
        calls->cell = call->run->cell;
        calls->pings +=
            !rpc_client_is_modern(calls->client) && calls->pings < LIMIT_TOOL_CALLS &&
            rpc_client_request(calls->client, "ping", json_object(), on_pong, calls) > 0;
    }
}

void tool_calls_send(struct tool_calls *calls)
{
    while (calls->queue && takes_calls(calls)) {
        struct tool_call *call = calls->queue;
        calls->queue = call->next;
        if (call->rounds == 0 && !call->leave(call)) {
            continue;
        }
        begin_cell(calls, call);
        json_t *params = json_pack("{s:s, s:O}", "name", call->tool, "arguments", call->arguments);
        (void)json_object_update(params, call->input);
        json_decref(take_ptr(call->input));
        (void)json_object_set_new(params, "_meta", json_copy(call->run->request.trace));
        call->request = rpc_client_request(calls->client, "tools/call", params, on_response, call);
        if (call->request == 0) {
            call->done(call, TOOL_NOTHING, span_of("was not asked: out of memory"));
            continue;
        }
        call->next = calls->sent;
        calls->sent = call;
        calls->sent_count++;
    }
    loop_expect(calls->loop); /* the response to a call, or the code's next one */
}

static void end_call(struct tool_call *call, enum tool_outcome outcome, struct span text)
{
    struct tool_calls *calls = call->calls;
    remove_sent(call);
    call->done(call, outcome, text);
    tool_calls_send(calls);
}

/* --- input that a call requires: MCP 2026-07-28 basic/patterns/mrtr --- */

/* Before the others that wait: it has had its turn, and has been counted. */
static void send_again(struct tool_call *call)
{
    struct tool_calls *calls = call->calls;
    remove_sent(call);
    call->request = 0;
    call->next = calls->queue;
    calls->queue = call;
    tool_calls_send(calls);
}

static void input_given(void *arg, const json_t *key, const json_t *content)
{
    struct tool_call *call = arg;
    (void)json_object_set_new(json_object_get(call->input, "inputResponses"),
                              json_string_value(key), rpc_client_elicit_result(content));
    if (--call->missing == 0) {
        send_again(call);
    }
}

/* Why the call does not go on, a sentence; NULL: nothing is against it. */
static const char *input_problem(const struct tool_call *call, json_t *requests,
                                 const json_t *state)
{
    const char *key = NULL;
    json_t *request = NULL;
    if ((!requests && !state) || (requests && !json_is_object(requests)) ||
        (state && !json_is_string(state))) {
        return "the tool server asks for input, and not as the protocol has it";
    }
    if (rpc_client_result(call->calls->client).size > LIMIT_TOOL_INPUT_BYTES) {
        return "the tool server asks for input in more than 1 MiB";
    }
    if (call->rounds > LIMIT_TOOL_ROUNDS) {
        return "the tool server has asked for input 16 times in this call, and is not asked again";
    }
    json_object_foreach (requests, key, request) {
        const char *method = rpc_text_plain(json_object_get(request, "method"));
        if (!method || strcmp(method, "elicitation/create") != 0) {
            return "the tool server asks for more than forms, such as sampling or roots, which is "
                   "refused";
        }
    }
    return NULL;
}

/* Asks the user, and sends the call again. */
static void require_input(struct tool_call *call, const json_t *result)
{
    json_t *requests = json_object_get(result, "inputRequests");
    const json_t *state = json_object_get(result, "requestState");
    const char *key = NULL;
    const json_t *request = NULL;
    call->rounds++;
    const char *problem = input_problem(call, requests, state);
    if (problem) {
        end_call(call, TOOL_ERROR, span_of(problem));
        return;
    }
    call->input = json_pack("{s:o*, s:O*}", "inputResponses", requests ? json_object() : NULL,
                            "requestState", state);
    call->missing = json_object_size(requests);
    if (call->missing == 0) {
        send_again(call);
        return;
    }
    json_object_foreach (requests, key, request) { /* the last one may end the call */
        json_auto_t *name = json_string(key);
        tool_elicitations_receive(&call->calls->elicitations, call, name,
                                  json_object_get(request, "params"), input_given, call);
    }
}

static void on_response(void *arg, const json_t *result, const json_t *error, const char *text)
{
    struct tool_call *call = arg;
    const char *kind = rpc_client_is_modern(call->calls->client)
                           ? rpc_text_plain(json_object_get(result, "resultType"))
                           : NULL; /* results of older servers may have any member */
    if (kind && strcmp(kind, "input_required") == 0) {
        require_input(call, result);
    } else if (kind && strcmp(kind, "complete") != 0) {
        end_call(call, TOOL_ERROR, span_of("the tool server's result is of an unknown type"));
    } else if (result) {
        end_call(arg, TOOL_RESULT, rpc_client_result(call->calls->client));
    } else if (error) {
        const json_t *message = json_object_get(error, "message");
        end_call(arg, TOOL_ERROR,
                 json_is_string(message)
                     ? (struct span){json_string_value(message), json_string_length(message)}
                     : span_of("an error without a message"));
    } else {
        end_call(arg, TOOL_NOTHING, span_of(text));
    }
}

void tool_calls_add(struct tool_calls *calls, struct tool_call *call)
{
    call->calls = calls;
    list_append(&calls->queue, call);
    tool_calls_send(calls);
}

void tool_calls_drop(struct tool_call *call)
{
    struct tool_calls *calls = call->calls;
    if (call->request) {
        calls->left = calls->left && calls->left != call->session ? SEVERAL : call->session;
        rpc_client_cancel(calls->client, call->request);
        remove_sent(call);
        tool_calls_send(calls);
    } else {
        list_remove(&calls->queue, call);
    }
}

/* For which call the server asks, which its request does not say: any of one run is as good, since
 * the user sees the question with that run. NULL: there are calls of several, whose users would be
 * asked for one another, or a call of another session was cancelled: nothing says that its end has
 * come; or it may have asked before this cell. */
static struct tool_call *asking_call(const struct tool_calls *calls)
{
    struct tool_call *oldest = NULL;
    for (struct tool_call *call = calls->sent; call; call = call->next) {
        if (call->run != calls->sent->run || (calls->left && calls->left != call->session) ||
            calls->pings > 0) {
            return NULL;
        }
        oldest = call;
    }
    return oldest;
}

static void elicited(void *arg, const json_t *id, const json_t *content)
{
    const struct tool_calls *calls = arg;
    rpc_client_elicited(calls->client, id, content);
}

void tool_calls_elicit(struct tool_calls *calls, const json_t *id, const json_t *params)
{
    tool_elicitations_receive(&calls->elicitations, asking_call(calls), id, params, elicited,
                              calls);
}

void tool_calls_stop(struct tool_calls *calls)
{
    calls->leave = false;
    calls->left = calls->session = calls->pings = 0;
    tool_elicitations_drop(&calls->elicitations, NULL);
    calls->client = NULL;
}

void tool_calls_end(struct tool_calls *calls, const char *why)
{
    struct tool_call *lists[] = {take_ptr(calls->sent), take_ptr(calls->queue)};
    calls->sent_count = 0;
    for (unsigned i = 0; i < 2; i++) {
        for (struct tool_call *call = lists[i]; call;) {
            struct tool_call *next = call->next;
            call->done(call, TOOL_NOTHING, span_of(why));
            call = next;
        }
    }
}
