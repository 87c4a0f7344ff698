#include "tools/install/install_request.h"

#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
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

/* --- the sources of packages --- */

static const char public_index[] = "https://pypi.org/simple";
static const char public_files[] = "files.pythonhosted.org:443";

static void add_source(struct install_sources *sources, const char *text)
{
    const char *wrong = index_url_parse(text, &sources->urls[sources->count++]);
    assert(!wrong); /* the flags take no such URL */
    (void)wrong;
}

void install_sources_read(const struct install_config *config, struct install_sources *sources)
{
    const struct install_words *extra = &config->extra_index_urls;
    sources->config = config;
    sources->count = 0; /* the rest has 100 KB, which stay untouched */
    if (config->no_index) {
        return;
    }
    add_source(sources, config->index_url ? config->index_url : public_index);
    for (unsigned i = 0; i < extra->count; i++) {
        add_source(sources, extra->at[i]);
    }
}

void install_sources_hosts(const struct install_sources *sources,
                           void (*fn)(void *arg, const char *word), void *arg)
{
    char word[sizeof sources->urls[0].host + 16];
    for (unsigned i = 0; i < sources->count; i++) {
        const struct index_url *url = &sources->urls[i];
        bool is_v6 = strchr(url->host, ':') != NULL;
        (void)snprintf(word, sizeof word, is_v6 ? "[%s]:%u" : "%s:%u", url->host, url->port);
        fn(arg, word);
        if (strcmp(url->clean, public_index) == 0) {
            fn(arg, public_files);
        }
    }
    for (unsigned i = 0; sources->count > 0 && i < sources->config->index_hosts.count; i++) {
        fn(arg, sources->config->index_hosts.at[i]);
    }
}

static void redact(const char *secret, char *bytes, size_t size)
{
    size_t length = strlen(secret);
    char *at = bytes;
    /* A shorter one is not a real secret, and would blot out half of the text. */
    while (length >= 4 && (at = memmem(at, size - (size_t)(at - bytes), secret, length))) {
        memset(at, '*', length);
        at += length;
    }
}

void install_sources_redact(const struct install_sources *sources, char *bytes, size_t size)
{
    for (unsigned i = 0; i < sources->count; i++) {
        const struct index_url *url = &sources->urls[i];
        redact(url->password, bytes, size);
        redact(url->password_encoded, bytes, size);
        if (!url->password[0]) { /* a token */
            redact(url->login, bytes, size);
        }
    }
}

const char *install_sources_describe(const struct install_sources *sources, char *out, size_t size)
{
    const struct install_config *config = sources->config;
    const char *also = config->find_links ? " and a directory of wheels" : "";
    if (sources->count == 0) {
        (void)snprintf(out, size, "%s",
                       config->find_links ? "a directory of wheels" : "no index (--no-index)");
    } else if (sources->count == 1) {
        (void)snprintf(out, size, "%.200s%s", sources->urls[0].clean, also);
    } else {
        (void)snprintf(out, size, "%.200s, %u more ind%s%s", sources->urls[0].clean,
                       sources->count - 1, sources->count == 2 ? "ex" : "exes", also);
    }
    return out;
}

static json_t *layers_of(const struct install_input *input)
{
    json_t *list = json_array();
    for (unsigned n = input->layers; list && n > 0; n--) {
        (void)json_array_append_new(list, json_sprintf("%s/%u", input->layers_path, n));
    }
    return list;
}

/* Without credentials, which have a member of their own. */
static json_t *extra_urls_of(const struct install_sources *sources)
{
    json_t *list = json_array();
    for (unsigned i = 1; list && i < sources->count; i++) {
        (void)json_array_append_new(list, json_string(sources->urls[i].clean));
    }
    return list;
}

static json_t *credentials_of(const struct install_sources *sources)
{
    json_t *list = json_array();
    for (unsigned i = 0; list && i < sources->count; i++) {
        const struct index_url *url = &sources->urls[i];
        if (url->login[0]) {
            (void)json_array_append_new(list,
                                        json_pack("{s:s, s:s, s:s}", "url", url->clean, "login",
                                                  url->login, "password", url->password));
        }
    }
    return list;
}

static json_t *fetch_request(const struct install_sources *sources,
                             const struct install_input *input)
{
    const struct install_config *config = sources->config;
    return json_pack(
        "{s:s, s:O, s:b, s:b, s:o, s:b, s:b, s:b, s:b, s:b, s:o, s:o, s:s*, s:o*}", "step", "fetch",
        "packages", input->packages, "upstream", input->upstream, "upgrade", input->upgrade,
        "extra_index_urls", extra_urls_of(sources), "no_index", config->no_index, "find_links",
        config->find_links != NULL, "constraint", config->constraint != NULL, "cert",
        config->index_cert != NULL, "only_binary", !config->allow_sdist, "layers", layers_of(input),
        "credentials", credentials_of(sources), "index_url",
        sources->count > 0 ? sources->urls[0].clean : NULL, "built", json_deep_copy(input->built));
}

/* The names of the files that FETCH has left for the step. */
static json_t *wheels_of(const json_t *fetched)
{
    json_t *list = json_array();
    size_t i = 0;
    json_t *item = NULL;
    json_array_foreach (json_object_get(fetched, "to_install"), i, item) {
        const char *file = json_string_value(json_object_get(item, "file"));
        (void)json_array_append_new(list, json_string(file ? file : ""));
    }
    return list;
}

json_t *install_request(const struct install_sources *sources, enum install_step step,
                        const struct install_input *input)
{
    json_t *request = NULL;
    switch (step) {
    case INSTALL_FETCH:
        request = fetch_request(sources, input);
        break;
    case INSTALL_BUILD:
        request =
            json_pack("{s:s, s:O, s:o}", "step", "build", "to_build",
                      json_object_get(input->fetched, "to_build"), "layers", layers_of(input));
        break;
    case INSTALL_PLACE:
    default:
        request = json_pack("{s:s, s:o, s:o}", "step", "install", "wheels",
                            wheels_of(input->fetched), "layers", layers_of(input));
        break;
    }
    if (request) {
        (void)json_object_set_new(request, "max_bytes",
                                  json_integer((json_int_t)input->bytes_most));
        (void)json_object_set_new(request, "max_files", json_integer(LIMIT_PACKAGE_FILES));
    }
    return request;
}
