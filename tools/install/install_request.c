#include "tools/install/install_request.h"

#include <assert.h>
#include <fnmatch.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/word.h"
#include "sandbox/sandbox.h"

/* A distribution's name in the form for comparisons: lower case, one "-" for each run of "-", "_"
 * and "." (PEP 503). Other characters stay. Cut to fit out. Returns out. */
static char *requirement_normalise(const char *name, size_t size, char *out, size_t out_size)
{
    size_t length = 0;
    for (size_t i = 0; i < size && length + 1 < out_size; i++) {
        char c = name[i];
        if (c == '-' || c == '_' || c == '.') {
            if (length > 0 && out[length - 1] == '-') {
                continue;
            }
            c = '-';
        }
        out[length++] = parse_lower(c);
    }
    out[length] = '\0';
    return out;
}

#define BLANKS "[ \t]*"
#define NAME "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
#define EXTRAS "\\[" BLANKS "(" NAME BLANKS "," BLANKS ")*(" NAME BLANKS ")?\\]" BLANKS
#define VERSION "(===?|~=|!=|<=?|>=?)" BLANKS "[A-Za-z0-9._*+!-]+" BLANKS
#define VERSIONS "(" VERSION "," BLANKS ")*(" VERSION ")?"

/* How many bytes at the front are a requirement without its marker. *ret_length: those of its
 * name. */
static size_t match(const char *text, size_t *ret_length)
{
    static const char form[] =
        "^(" NAME ")" BLANKS "(" EXTRAS ")?(" VERSIONS "|\\(" BLANKS VERSIONS "\\)" BLANKS ")";
    static regex_t compiled;
    static bool is_compiled;
    regmatch_t found[2] = {};
    is_compiled = is_compiled || regcomp(&compiled, form, REG_EXTENDED) == 0;
    if (!is_compiled || regexec(&compiled, text, 2, found, 0) != 0) {
        found[0].rm_eo = found[1].rm_eo = 0;
    }
    *ret_length = (size_t)found[1].rm_eo;
    return (size_t)found[0].rm_eo;
}

/* Whether this is a path or a URL, not a name: a name cannot contain these. */
static bool is_place(const char *requirement)
{
    const char *marker = strchr(requirement, ';');
    size_t size = marker ? (size_t)(marker - requirement) : strlen(requirement);
    return requirement[0] == '.' || requirement[0] == '~' || memchr(requirement, '/', size) ||
           memchr(requirement, '\\', size) || memchr(requirement, '@', size);
}

/* Whether a name is that of a file which holds requirements or code: anybody can have taken it on
 * the index. Suffixes as in guest/hints.py; an index knows a project with "-" for each "." too. */
static bool is_file(const char *name, size_t size)
{
    static const char *const suffixes[] = {
        ".txt", ".in",  ".toml", ".cfg", ".ini", ".lock", ".yaml", ".yml", ".json", ".whl",
        ".py",  ".zip", ".tar",  ".gz",  ".tgz", ".bz2",  ".tbz",  ".xz",  ".txz"};
    static const char *const projects[] = {"ruamel.yaml", "discord.py"};
    for (unsigned i = 0; i < sizeof projects / sizeof *projects; i++) {
        if (strlen(projects[i]) == size && strncasecmp(name, projects[i], size) == 0) {
            return false;
        }
    }
    for (unsigned i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        size_t length = strlen(suffixes[i]);
        if (size > length && strncasecmp(name + size - length, suffixes[i], length) == 0) {
            return true;
        }
    }
    return size == strlen("Pipfile") && memcmp(name, "Pipfile", size) == 0;
}

/* What pip's users write that is no requirement, each with what to send. NULL: unknown. */
static const char *common_mistake(const char *requirement, const char *at)
{
    if (requirement[0] == '-') {
        return "is a pip option; only package names are accepted, and the user chooses the index "
               "(--index-url)";
    }
    if (is_place(requirement)) {
        return "is a URL or a path; packages come from the index only, by name: send \"name\" or "
               "\"name==1.2\"";
    }
    if (strncmp(requirement, "pip ", 4) == 0 || strncmp(requirement, "uv ", 3) == 0) {
        return "is a command; send only the names, each as a separate item";
    }
    if (*at == '=') {
        return "has one \"=\"; a version is written name==1.2";
    }
    if (parse_is_alnum(*at) || *at == ',') {
        return "contains more than one name; send each as a separate item";
    }
    return NULL;
}

static const char *refuse(const char *requirement, size_t size, const char *why,
                          char text[REQUIREMENT_TEXT_BYTES])
{
    char shown[80];
    (void)snprintf(text, REQUIREMENT_TEXT_BYTES, "%s %s.",
                   word_quote(requirement, size, shown, sizeof shown), why);
    return text;
}

const char *requirement_check(const char *requirement, size_t size,
                              char name[REQUIREMENT_NAME_BYTES], char text[REQUIREMENT_TEXT_BYTES])
{
    static const char wrong[] =
        "is an invalid requirement; send a name, optionally with extras, versions and a marker, "
        "such as \"pandas\", \"pandas[excel]>=2,<3\"";
    if (size >= REQUIREMENT_BYTES) {
        return refuse(requirement, size, "is too long for a requirement", text);
    }
    for (size_t i = 0; i < size; i++) {
        if ((requirement[i] < ' ' && requirement[i] != '\t') || requirement[i] > '~') {
            return refuse(requirement, size,
                          "contains invalid characters; send each requirement as a separate item",
                          text);
        }
    }
    const char *begin = requirement + strspn(requirement, " \t");
    size_t length = 0;
    const char *at = begin + match(begin, &length);
    bool whole = length > 0 && length < REQUIREMENT_NAME_BYTES && !is_place(begin) &&
                 (*at == '\0' || (*at == ';' && at[1 + strspn(at + 1, " \t")]));
    if (whole && is_file(begin, length)) {
        return refuse(requirement, size,
                      "is a file, not a package; send its lines, each as a separate item", text);
    }
    if (!whole) {
        const char *mistake = common_mistake(begin, at);
        return refuse(requirement, size, mistake ? mistake : wrong, text);
    }
    (void)requirement_normalise(begin, length, name, REQUIREMENT_NAME_BYTES);
    return NULL;
}

const char *requirement_show(const char *requirement, char out[REQUIREMENT_BYTES])
{
    size_t end = strcspn(requirement, ";");
    size_t used = 0;
    for (size_t i = 0; i < end && used + 1 < REQUIREMENT_BYTES; i++) {
        if (!strchr(" \t()", requirement[i])) {
            out[used++] = requirement[i];
        }
    }
    out[used] = '\0';
    return out;
}

/* --- the user's policy --- */

/* The first pattern of the lists that matches name, cut to fit out; false: none. */
static bool find_match(const struct install_words *lists, const char *name, char *out, size_t size)
{
    char pattern[REQUIREMENT_NAME_BYTES];
    for (unsigned i = 0; i < lists->count; i++) {
        for (const char *at = lists->at[i]; *at;) {
            at += strspn(at, ", ");
            size_t length = strcspn(at, ", ");
            (void)requirement_normalise(at, length, pattern, sizeof pattern);
            if (length > 0 && fnmatch(pattern, name, 0) == 0) {
                (void)snprintf(out, size, "%.*s", (int)(length < 64 ? length : 64), at);
                return true;
            }
            at += length;
        }
    }
    return false;
}

const char *install_policy_refusal(const struct install_config *config, const char *name,
                                   char *text, size_t size)
{
    char pattern[80];
    if (find_match(&config->deny, name, pattern, sizeof pattern)) {
        (void)snprintf(text, size, "%s is refused (--deny-package %s)", name, pattern);
        return text;
    }
    if (config->allow.count > 0 && !find_match(&config->allow, name, pattern, sizeof pattern)) {
        (void)snprintf(text, size, "%s is not an allowed package (--allow-package)", name);
        return text;
    }
    return NULL;
}

enum { WORDS_SHOWN_BYTES = 300 };

static void append_words(const struct install_words *words, const char *before, struct buf *text)
{
    size_t begin = buf_size(text);
    buf_append_text(text, words->count > 0 ? before : "");
    for (unsigned i = 0; i < words->count; i++) {
        if (buf_size(text) - begin > WORDS_SHOWN_BYTES) {
            buf_append_text(text, ", ...");
            break;
        }
        buf_appendf(text, "%s%.100s", i > 0 ? ", " : "", words->at[i]);
    }
    buf_append_text(text, words->count > 0 ? "." : "");
}

int install_policy_describe(const struct install_config *config, struct buf *text)
{
    buf_appendf(text, "\n\n%s",
                config->allow_sdist ? "Packages without a wheel are built from source."
                                    : "Only wheels are installed.");
    append_words(&config->allow, " Allowed packages: ", text);
    append_words(&config->deny, " Denied packages: ", text);
    append_words(&config->preinstall, " Preinstalled: ", text);
    buf_append_text(text,
                    config->mode == INSTALL_ASK ? " The user is asked for approval first." : "");
    buf_append_text(
        text,
        config->auto_install
            ? " Before code runs, what its import statements lack is installed if the package "
              "has that name or is well known."
            : "");
    return buf_error(text);
}

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
