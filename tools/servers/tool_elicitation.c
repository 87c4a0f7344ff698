#include "tools/servers/tool_elicitation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/list.h"
#include "base/log.h"
#include "base/own.h"
#include "base/word.h"
#include "rpc/text.h"
#include "tools/servers/tool_calls.h"
#include "tools/servers/tool_form.h"

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

void tool_elicitations_receive(struct tool_elicitations *elicitations, struct tool_call *call,
                               const json_t *id, const json_t *params, tool_elicited_fn fn,
                               void *arg)
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

void tool_elicitations_drop(struct tool_elicitations *elicitations, const struct tool_call *call)
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
