#include "sandbox/egress/policy.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ROWS_REPORTED = 4 };

static const uint16_t default_ports[EGRESS_PORTS] = {443, 80};

static bool row_is(const struct egress_row *row, const struct target *target, uint16_t port)
{
    bool same = row->literal == target->literal &&
                (row->literal ? address_equal(&row->address, &target->address)
                              : strcmp(row->host, target->host) == 0);
    return same && (row->ports[0] == port || row->ports[1] == port);
}

static bool has(const struct egress_policy *policy, const struct target *target, uint16_t port)
{
    for (unsigned i = 0; i < policy->count; i++) {
        if (row_is(&policy->rows[i], target, port)) {
            return true;
        }
    }
    return false;
}

int egress_policy_add(struct egress_policy *policy, const char *word, struct fail *ret_fail)
{
    struct target target;
    const char *flag = policy->flag ? policy->flag : "a host";
    if (!target_read(word, strlen(word), &target)) {
        return fail_set(ret_fail, EINVAL,
                        "%s takes NAME, NAME:PORT or an address such as 192.0.2.1:80 or [::1]:80, "
                        "not \"%.100s\" (write an internationalised name in its xn-- form)",
                        flag, word);
    }
    struct egress_row row = {
        .ports = {target.port}, .literal = target.literal, .address = target.address};
    if (target.port == 0) {
        memcpy(row.ports, default_ports, sizeof row.ports);
    }
    if (has(policy, &target, row.ports[0]) &&
        (row.ports[1] == 0 || has(policy, &target, row.ports[1]))) {
        return 0;
    }
    if (policy->count == EGRESS_ROWS) {
        return fail_set(ret_fail, ENOSPC, "%s: at most %d hosts", flag, EGRESS_ROWS);
    }
    memcpy(row.host, target.host, sizeof row.host);
    policy->rows[policy->count++] = row;
    return 0;
}

/* "host:port", with brackets where it needs them. */
static const char *target_print(const struct target *target, char text[EGRESS_HOST_BYTES + 10])
{
    bool brackets = strchr(target->host, ':') != NULL;
    (void)snprintf(text, EGRESS_HOST_BYTES + 10, "%s%s%s:%u", brackets ? "[" : "", target->host,
                   brackets ? "]" : "", target->port);
    return text;
}

void event_set(struct egress_event *event, enum egress_event_kind kind, const struct target *target,
               const char *fmt, ...)
{
    char name[EGRESS_HOST_BYTES + 10];
    va_list args;
    *event = (struct egress_event){.kind = kind, .port = target->port};
    memcpy(event->host, target->host, sizeof event->host);
    int used = target->host[0]
                   ? snprintf(event->text, sizeof event->text, "%s ", target_print(target, name))
                   : 0;
    va_start(args, fmt);
    (void)vsnprintf(event->text + used, sizeof event->text - (size_t)used, fmt, args);
    va_end(args);
}

/* "a.example, b.example:8080 and 3 more" */
static void list_hosts(const struct egress_policy *policy, char *text, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < policy->count && i < ROWS_REPORTED && used < size; i++) {
        const struct egress_row *row = &policy->rows[i];
        int n = row->ports[1]
                    ? snprintf(text + used, size - used, "%s%.60s", i ? ", " : "", row->host)
                    : snprintf(text + used, size - used, "%s%.60s:%u", i ? ", " : "", row->host,
                               row->ports[0]);
        used += (size_t)n;
    }
    if (policy->count > ROWS_REPORTED && used < size) {
        (void)snprintf(text + used, size - used, " and %u more", policy->count - ROWS_REPORTED);
    }
}

int policy_find(const struct egress_policy *policy, const struct target *target,
                struct egress_event *ret_event)
{
    char hosts[256] = "none";
    char name[EGRESS_HOST_BYTES + 10];
    for (unsigned i = 0; i < policy->count; i++) {
        if (row_is(&policy->rows[i], target, target->port)) {
            return (int)i;
        }
    }
    /* Of a service of the user's own, nobody is asked: one click among others would open it. */
    const char *error = target->literal                          ? address_error(&target->address)
                        : strcmp(target->host, "localhost") == 0 ? "a loopback address"
                                                                 : NULL;
    if (error) {
        event_set(ret_event, EGRESS_REFUSED_ADDRESS, target,
                  "is %s; only the user can allow it, at the server's start: %s %.100s", error,
                  policy->flag, target_print(target, name));
        return -1;
    }
    list_hosts(policy, hosts, sizeof hosts);
    event_set(ret_event, EGRESS_REFUSED_HOST, target,
              "is not an allowed host (%s); the user can allow it: %s %.100s", hosts, policy->flag,
              target_print(target, name));
    return -1;
}

bool policy_allows_addresses(const struct egress_policy *policy, const struct target *target,
                             const struct egress_address *addresses, size_t count,
                             struct egress_event *ret_event)
{
    static const char loopback[] = "a loopback address";
    for (size_t i = 0; i < count; i++) {
        const char *error = address_error(&addresses[i]);
        const struct target named = {.literal = true, .address = addresses[i]};
        bool own = error && (policy->any_address ? !strstr(error, "metadata")
                                                 : strcmp(error, loopback) == 0 &&
                                                       strcmp(target->host, "localhost") == 0);
        if (error && !own && !has(policy, &named, target->port)) {
            char text[ADDRESS_TEXT_BYTES];
            struct target at = {.port = target->port};
            char name[EGRESS_HOST_BYTES + 10];
            (void)snprintf(at.host, sizeof at.host, "%s", address_print(&addresses[i], text));
            event_set(ret_event, EGRESS_REFUSED_ADDRESS, target,
                      "resolves to %s, %s; the user can allow that address: %s %s", text, error,
                      policy->flag, target_print(&at, name));
            return false;
        }
    }
    return true;
}
