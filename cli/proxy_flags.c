/* --proxy and --no-proxy: how connections leave this machine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/word.h"
#include "cli/flags.h"

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

static const char *variable(const char *name)
{
    return getenv(name);
}

void proxy_resolve(struct options *options)
{
    const struct egress_settings settings = {options->proxy.url, options->proxy.direct, variable};
    options->spec.ways = ways_read(&settings, &options->ways) ? &options->ways : NULL;
}

char *proxy_hide(char *value)
{
    char *copy = strdup(value);
    char *begin = strstr(value, "://");
    begin = begin ? begin + 3 : value;
    char *at = memrchr(begin, '@', strcspn(begin, "/?#"));
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
    while (options->spec.ways && ways_next_unreadable(&at, &entry, &size)) {
        log_warn("cli", "--no-proxy or NO_PROXY: %s matches nothing, as it cannot be read",
                 word_show(entry, size, shown, sizeof shown));
    }
    if (options->proxy.file && options->config_exposed && proxy_has_password(options->proxy.url)) {
        log_warn("cli", "%s has a password, and others may read it: run chmod 600",
                 options->proxy.file);
    }
}
