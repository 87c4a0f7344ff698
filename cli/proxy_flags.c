/* --proxy and --no-proxy: how connections leave this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/word.h"
#include "cli/flags.h"
#include "tools/install/install_request.h"

enum { SHOWN_BYTES = 700 };

void proxy_take(struct options *options, const struct flag *flag, const char *value)
{
    struct egress_upstream upstream;
    if (strcmp(value, "off") != 0 && !upstream_parse(value, &upstream)) {
        options_error(options, "--%s: %s", flag->name, upstream.unusable);
        return;
    }
    options->proxy.url = value;
    options->proxy.file = options->config_line > 0 ? options->config_file : NULL;
}

void proxy_take_direct(struct options *options, const struct flag *flag, const char *value)
{
    if (strlen(value) >= EGRESS_DIRECT_BYTES) {
        options_error(options, "--%s has more than %d bytes", flag->name, EGRESS_DIRECT_BYTES - 1);
        return;
    }
    options->proxy.direct = value;
}

void proxy_resolve(struct options *options)
{
    const struct egress_settings settings = {options->proxy.url, options->proxy.direct, getenv};
    options->spec.ways = ways_read(&settings, &options->ways) ? &options->ways : NULL;
}

char *proxy_hide(char *value)
{
    char *copy = strdup(value);
    char *begin = strstr(value, "://");
    begin = begin ? begin + 3 : value;
    char *at = strrchr(begin, '@'); /* also after a '/' or '#' of a password that is not encoded */
    char *colon = at ? memchr(begin, ':', (size_t)(at - begin)) : NULL;
    if (copy && colon) {
        memset(colon + 1, '*', (size_t)(at - colon - 1));
    }
    return copy ? copy : value;
}

bool proxy_has_password(const char *url)
{
    struct egress_upstream upstream;
    return upstream_parse(url, &upstream) && upstream.has_login;
}

const char *proxy_show(const char *url, char *out, size_t size)
{
    struct egress_upstream upstream;
    char shown[SHOWN_BYTES];
    if (!upstream_parse(url, &upstream)) {
        return strcmp(url, "off") == 0 ? "off" : "(invalid)";
    }
    return word_line(upstream_print(&upstream, /* user= */ true, shown, sizeof shown), out, size);
}

void proxy_warn(const struct options *options)
{
    const char *at = options->ways.direct;
    const char *entry = NULL;
    size_t size = 0;
    char shown[WORD_BYTES];
    if (options->spec.ways && options->ways.direct_cut) {
        log_warn("cli", "NO_PROXY has more than %d bytes: the entries behind them match nothing",
                 EGRESS_DIRECT_BYTES - 1);
    }
    while (options->spec.ways && ways_next_unreadable(&at, &entry, &size)) {
        log_warn("cli", "--no-proxy or NO_PROXY: %s matches nothing, as it cannot be read",
                 memchr(entry, '@', size) ? "an entry with a login"
                                          : word_show(entry, size, shown, sizeof shown));
    }
    if (options->proxy.file && options->config_exposed && proxy_has_password(options->proxy.url)) {
        log_warn("cli", "%s has a password, and others may read it: run chmod 600",
                 options->proxy.file);
    }
}

/* --- doctor --- */

struct tried {
    const struct egress_ways *ways;
    unsigned count;
    struct egress_try entries[EGRESS_TRIES];
};

/* Adds "HOST:PORT", if it is to be reached through a proxy. */
static void add_host(void *arg, const char *word)
{
    struct tried *tried = arg;
    struct target target;
    if (tried->count < EGRESS_TRIES && target_read(word, strlen(word), &target)) {
        target.port = target.port ? target.port : 443;
        if (ways_find(tried->ways, &target, target.port != 80)) {
            tried->entries[tried->count++].target = target;
        }
    }
}

static void find_hosts(const struct options *options, struct tried *tried)
{
    static struct install_sources sources;
    char word[TARGET_BYTES];
    if (options->install.mode != INSTALL_OFF) {
        install_sources_read(&options->install, &sources);
        install_sources_hosts(&sources, add_host, tried);
    }
    for (unsigned i = 0; i < options->egress.count; i++) {
        const struct egress_row *row = &options->egress.rows[i];
        struct target target = {.port = row->ports[0]};
        memcpy(target.host, row->host, sizeof target.host);
        add_host(tried, target_print(&target, word));
    }
}

static struct box_fact *add_fact(struct box_fact *facts, unsigned *count, bool warning)
{
    facts[*count] = (struct box_fact){.name = "proxy", .warning = warning};
    return &facts[(*count)++];
}

unsigned proxy_facts(const struct options *options, const struct box_spec *spec,
                     struct box_fact *facts)
{
    static struct tried tried;
    unsigned count = 0;
    tried = (struct tried){.ways = spec->ways};
    for (unsigned kind = 0; spec->ways && kind < EGRESS_KINDS; kind++) {
        const struct egress_upstream *upstream = &spec->ways->upstreams[kind];
        const char *const kinds[] = {[EGRESS_HTTPS] = "https", [EGRESS_HTTP] = "http"};
        struct box_fact *fact = add_fact(facts, &count, upstream->unusable[0]);
        char shown[SHOWN_BYTES];
        (void)snprintf(fact->text, sizeof fact->text, "%s: %.300s%s%s%s", kinds[kind],
                       !upstream->source[0] ? "directly"
                       : upstream->unusable[0]
                           ? upstream->unusable
                           : upstream_print(upstream, /* user= */ true, shown, sizeof shown),
                       upstream->source[0] ? " (" : "", upstream->source,
                       upstream->source[0] ? ")" : "");
    }
    if (spec->ways) {
        find_hosts(options, &tried);
        egress_try_all(spec, tried.entries, tried.count);
    }
    for (unsigned i = 0; i < tried.count; i++) {
        struct box_fact *fact = add_fact(facts, &count, !tried.entries[i].reached);
        char word[TARGET_BYTES];
        (void)snprintf(fact->text, sizeof fact->text, "%.399s",
                       tried.entries[i].reached ? target_print(&tried.entries[i].target, word)
                                                : tried.entries[i].text);
        if (tried.entries[i].reached) {
            (void)strncat(fact->text, " is reached", sizeof fact->text - strlen(fact->text) - 1);
        }
    }
    return count;
}
