#include "tools/install/index_url.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/parse.h"
#include "sandbox/sandbox.h"

/* Refuses what a netrc file cannot hold. */
static bool decode(const char *text, size_t size, char *out, size_t out_size)
{
    ssize_t length = parse_percent(text, size, out, out_size);
    for (ssize_t i = 0; i < length; i++) {
        length = (unsigned char)out[i] <= ' ' || out[i] == 0x7f ? -1 : length;
    }
    return length >= 0;
}

/* Takes what a request to the proxy may name. The host keeps its spelling, which a netrc file's
 * entry must have too. */
static bool take_host(const char *text, size_t size, bool tls, struct index_url *url)
{
    struct target target;
    bool bracketed = *text == '[';
    if (!target_read(text, size, &target)) {
        return false;
    }
    (void)snprintf(url->host, sizeof url->host, "%.*s",
                   (int)strcspn(text + bracketed, bracketed ? "]" : ":/"), text + bracketed);
    url->port = target.port ? target.port : tls ? 443 : 80;
    return true;
}

/* "login", "login:password". */
static bool take_credentials(const char *text, size_t size, struct index_url *url)
{
    const char *colon = memchr(text, ':', size);
    size_t login = colon ? (size_t)(colon - text) : size;
    if (login == 0 || !decode(text, login, url->login, sizeof url->login)) {
        return false;
    }
    if (!colon) {
        return true;
    }
    (void)snprintf(url->password_encoded, sizeof url->password_encoded, "%.*s",
                   (int)(size - login - 1), colon + 1);
    return decode(colon + 1, size - login - 1, url->password, sizeof url->password);
}

const char *index_url_parse(const char *text, struct index_url *ret_url)
{
    struct index_url url = {};
    bool tls = strncmp(text, "https://", 8) == 0;
    if (!tls && strncmp(text, "http://", 7) != 0) {
        return "the URL must begin with http:// or https://";
    }
    if (strlen(text) >= sizeof url.clean) {
        return "the URL is too long";
    }
    for (const char *at = text; *at; at++) {
        if (*at <= ' ' || *at > '~' || strchr("\"<>\\^`{|}?#", *at)) {
            return "invalid character in index URL";
        }
    }
    const char *authority = text + (tls ? 8 : 7);
    size_t size = strcspn(authority, "/");
    const char *host = authority;
    for (size_t i = 0; i < size; i++) {
        host = authority[i] == '@' ? authority + i + 1 : host; /* the last one counts */
    }
    if (host > authority && !take_credentials(authority, (size_t)(host - 1 - authority), &url)) {
        return "the URL has credentials that cannot be used";
    }
    if (!take_host(host, size - (size_t)(host - authority), tls, &url)) {
        return "invalid host or port";
    }
    (void)snprintf(url.clean, sizeof url.clean, "%s%s", tls ? "https://" : "http://", host);
    *ret_url = url;
    return NULL;
}
