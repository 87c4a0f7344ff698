#include "sandbox/egress/upstream.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/parse.h"

enum { PROXY_PORT = 80, SCHEME_MOST = 16, ENTRY_BYTES = EGRESS_HOST_BYTES + 16 };

/* --- URLs --- */

static bool refuse(struct egress_upstream *upstream, const char *why)
{
    (void)snprintf(upstream->unusable, sizeof upstream->unusable, "%s", why);
    return false;
}

/* Cuts "SCHEME://" off. Returns what follows it, or NULL for a scheme that is not supported. */
static const char *cut_scheme(const char *url, struct egress_upstream *upstream)
{
    const char *end = strstr(url, "://");
    size_t size = end ? (size_t)(end - url) : 0;
    size_t letters =
        strspn(url, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-.");
    if (!end || (size == 4 && strncasecmp(url, "http", size) == 0)) {
        return end ? end + 3 : url;
    }
    if (letters != size || size == 0 || size > SCHEME_MOST) {
        (void)refuse(upstream, "it is no URL: http://[USER:PASSWORD@]HOST:PORT is one");
        return NULL;
    }
    (void)snprintf(upstream->unusable, sizeof upstream->unusable,
                   "%.*s:// is not supported, only http://%s", (int)size, url,
                   size == 5 && strncasecmp(url, "https", size) == 0
                       ? ", which the same proxy may take"
                       : "; a local helper that speaks both, such as gost, can lead there");
    return NULL;
}

/* Decodes a part of the login. Control characters would end the field that it is sent in. */
static bool take_part(const char *text, size_t size, char *out, size_t out_size)
{
    bool valid = parse_percent(text, size, out, out_size) >= 0;
    for (const char *at = out; valid && *at; at++) {
        valid = (unsigned char)*at >= ' ' && *at != 0x7f;
    }
    return valid;
}

static bool take_login(const char *text, size_t size, struct egress_upstream *upstream)
{
    const char *colon = memchr(text, ':', size);
    size_t user = colon ? (size_t)(colon - text) : size;
    size_t password = colon ? size - user - 1 : 0;
    upstream->has_login = true;
    return take_part(text, user, upstream->user, sizeof upstream->user) &&
           !strchr(upstream->user, ':') && /* RFC 7617, 2 */
           take_part(colon ? colon + 1 : "", password, upstream->password,
                     sizeof upstream->password);
}

bool upstream_parse(const char *url, struct egress_upstream *ret_upstream)
{
    struct egress_upstream *upstream = ret_upstream;
    struct target target = {};
    *upstream = (struct egress_upstream){};
    url += strspn(url, " \t");
    const char *authority = cut_scheme(url, upstream);
    if (!authority) {
        return false;
    }
    size_t size = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', size); /* the last one */
    const char *host = at ? at + 1 : authority;
    if (at && !take_login(authority, (size_t)(at - authority), upstream)) {
        return refuse(upstream,
                      "the user name or the password cannot be read: a control "
                      "character, or a % that begins no code (write %25)");
    }
    size -= (size_t)(host - authority);
    while (size > 0 && (host[size - 1] == ' ' || host[size - 1] == '\t')) {
        size--;
    }
    if (!target_read(host, size, &target)) {
        return refuse(upstream, "its host or port cannot be read");
    }
    memcpy(upstream->host, target.host, sizeof upstream->host);
    upstream->port = target.port ? target.port : PROXY_PORT;
    upstream->literal = target.literal;
    upstream->address = target.address;
    return true;
}

const char *upstream_print(const struct egress_upstream *upstream, bool user, char *out,
                           size_t size)
{
    bool brackets = strchr(upstream->host, ':') != NULL;
    bool login = user && upstream->has_login;
    (void)snprintf(out, size, "%s%.64s%s%s%.200s%s:%u", user ? "http://" : "",
                   login ? upstream->user : "", login ? ":***@" : "", brackets ? "[" : "",
                   upstream->host, brackets ? "]" : "", upstream->port);
    return out;
}

/* RFC 4648, 4. out: 4 bytes for each 3 of text, and a NUL. */
static void base64_encode(const char *text, size_t size, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        unsigned bits = 0;
        for (size_t k = i; k < i + 3; k++) {
            bits = bits << 8 | (k < size ? (unsigned char)text[k] : 0);
        }
        for (unsigned k = 0; k < 4; k++) {
            *out++ = (char)(i + k > size ? '=' : digits[bits >> (18 - 6 * k) & 63]);
        }
    }
    *out = '\0';
}

const char *upstream_login(const struct egress_upstream *upstream, char out[UPSTREAM_LOGIN_BYTES])
{
    static const char scheme[] = "Basic ";
    char login[sizeof upstream->user + sizeof upstream->password + 1];
    out[0] = '\0';
    if (upstream->has_login) {
        _Static_assert(sizeof scheme + (sizeof login + 2) / 3 * 4 <= UPSTREAM_LOGIN_BYTES);
        (void)snprintf(login, sizeof login, "%s:%s", upstream->user, upstream->password);
        memcpy(out, scheme, sizeof scheme);
        base64_encode(login, strlen(login), out + sizeof scheme - 1);
    }
    return out;
}

/* --- settings --- */

/* The variable with this name in lower case, else in capitals. *ret_name: which of them it is. */
static const char *variable_of(const struct egress_settings *settings, const char *const names[2],
                               const char **ret_name)
{
    const char *value = NULL;
    for (unsigned i = 0; i < 2 && !value; i++) {
        value = settings->variable(names[i]);
        *ret_name = names[i];
    }
    return value;
}

static const char separators[] = ", \t\r\n";

/* Takes the list of what goes directly, as far as whole entries fit: a part of one could match
 * more, such as "10.1.2.0/2" of "10.1.2.0/24". */
static void take_direct(struct egress_ways *ways, const char *list)
{
    size_t size = strlen(list);
    ways->direct_cut = size >= sizeof ways->direct;
    if (ways->direct_cut) {
        for (size = sizeof ways->direct - 1; size > 0 && !strchr(separators, list[size]);) {
            size--;
        }
    }
    memcpy(ways->direct, list, size);
    ways->direct[size] = '\0';
}

bool ways_read(const struct egress_settings *settings, struct egress_ways *ret_ways)
{
    static const char *const own[EGRESS_KINDS][2] = {
        [EGRESS_HTTPS] = {"https_proxy", "HTTPS_PROXY"},
        [EGRESS_HTTP] = {"http_proxy", "HTTP_PROXY"},
    };
    static const char *const all[2] = {"all_proxy", "ALL_PROXY"};
    static const char *const direct[2] = {"no_proxy", "NO_PROXY"};
    struct egress_ways *ways = ret_ways;
    bool any = false;
    *ways = (struct egress_ways){};
    for (unsigned kind = 0; kind < EGRESS_KINDS; kind++) {
        struct egress_upstream *upstream = &ways->upstreams[kind];
        const char *name = "--proxy";
        const char *url = settings->proxy;
        if (!url) {
            url = variable_of(settings, own[kind], &name);
            url = url ? url : variable_of(settings, all, &name);
        } else if (strcmp(url, "off") == 0) {
            url = NULL;
        }
        if (url && url[strspn(url, " \t")]) {
            (void)upstream_parse(url, upstream);
            (void)snprintf(upstream->source, sizeof upstream->source, "%s", name);
            any = true;
        }
    }
    const char *name = NULL;
    const char *list =
        settings->no_proxy ? settings->no_proxy : variable_of(settings, direct, &name);
    take_direct(ways, list ? list : "");
    return any;
}

/* --- what goes directly --- */

/* The next entry of a list; size 0: there is none. */
static size_t next_entry(const char **at, const char **ret_entry)
{
    *at += strspn(*at, separators);
    size_t size = strcspn(*at, separators);
    *ret_entry = *at;
    *at += size;
    return size;
}

struct direct {
    bool all;
    struct target target; /* port 0: all */
    unsigned bits;        /* of its address that count */
};

enum { V4_BITS = 32, V6_BITS = 128 };

static bool direct_read(const char *text, size_t size, struct direct *ret_direct)
{
    char entry[ENTRY_BYTES];
    struct direct direct = {.bits = V6_BITS};
    direct.all = size == 1 && *text == '*';
    size_t skip = size > 2 && strncmp(text, "*.", 2) == 0 ? 2 : *text == '.';
    (void)snprintf(entry, sizeof entry, "%.*s", (int)(size - skip), text + skip);
    char *slash = strchr(entry, '/');
    uint64_t bits = 0;
    if (direct.all || size - skip >= sizeof entry) {
        *ret_direct = direct;
        return direct.all;
    }
    if (slash) {
        *slash = '\0';
        if (!address_read(entry, &direct.target.address) || parse_u64(slash + 1, &bits) < 0) {
            return false;
        }
        bool is_v4 = address_is_v4(&direct.target.address);
        direct.bits = (unsigned)bits + (is_v4 ? V6_BITS - V4_BITS : 0);
        direct.target.literal = bits <= (is_v4 ? V4_BITS : V6_BITS);
        *ret_direct = direct;
        return direct.target.literal;
    }
    direct.target.literal = address_read(entry, &direct.target.address);
    bool valid = direct.target.literal || target_read(entry, strlen(entry), &direct.target);
    *ret_direct = direct;
    return valid;
}

static bool same_bits(const struct egress_address *a, const struct egress_address *b, unsigned bits)
{
    unsigned whole = bits / 8;
    uint8_t mask = (uint8_t)(0xff00U >> bits % 8);
    return memcmp(a->bytes, b->bytes, whole) == 0 &&
           (bits % 8 == 0 || ((a->bytes[whole] ^ b->bytes[whole]) & mask) == 0);
}

static bool direct_matches(const struct direct *direct, const struct target *target)
{
    const struct target *named = &direct->target;
    if (direct->all) {
        return true;
    }
    return named->literal == target->literal && (!named->port || named->port == target->port) &&
           (named->literal ? same_bits(&named->address, &target->address, direct->bits)
                           : name_is_below(target->host, named->host));
}

/* Of the upstream proxy's machine these would be the loopback addresses. */
static bool is_loopback(const struct target *target)
{
    const char *kind = target->literal ? address_error(&target->address) : name_error(target->host);
    return kind && strstr(kind, "loopback");
}

bool ways_is_direct(const struct egress_ways *ways, const struct target *target)
{
    struct direct direct;
    const char *at = ways->direct;
    const char *entry = NULL;
    bool found = is_loopback(target);
    for (size_t size = 0; !found && (size = next_entry(&at, &entry)) > 0;) {
        found = direct_read(entry, size, &direct) && direct_matches(&direct, target);
    }
    return found;
}

const struct egress_upstream *ways_find(const struct egress_ways *ways, const struct target *target,
                                        bool tunnel)
{
    const struct egress_upstream *upstream = &ways->upstreams[tunnel ? EGRESS_HTTPS : EGRESS_HTTP];
    return upstream->source[0] && !ways_is_direct(ways, target) ? upstream : NULL;
}

bool ways_next_unreadable(const char **at, const char **ret_entry, size_t *ret_size)
{
    struct direct direct;
    while ((*ret_size = next_entry(at, ret_entry)) > 0) {
        if (!direct_read(*ret_entry, *ret_size, &direct)) {
            return true;
        }
    }
    return false;
}

/* --- replies --- */

struct line {
    const char *at;
    size_t size; /* without its end */
};

/* Takes the next line, which ends with LF, as some proxies write no CR. False: it is incomplete. */
static bool next_line(const char *bytes, size_t size, size_t *at, struct line *ret_line)
{
    const char *end = memchr(bytes + *at, '\n', size - *at);
    if (!end) {
        return false;
    }
    *ret_line = (struct line){bytes + *at, (size_t)(end - bytes) - *at};
    ret_line->size -= ret_line->size > 0 && end[-1] == '\r';
    *at = (size_t)(end - bytes) + 1;
    return true;
}

/* "HTTP/1.1 200 reason"; of the reason nothing is kept, as a proxy can put the login into it. */
static bool status_read(struct line line, struct upstream_reply *reply)
{
    static const char version[] = "HTTP/1.";
    enum { CODE_AT = 9, CODE_END = 12 };
    uint64_t status = 0;
    if (line.size < CODE_END || strncmp(line.at, version, sizeof version - 1) != 0 ||
        line.at[CODE_AT - 1] != ' ' || !digits_read(line.at + CODE_AT, 3, 3, &status) ||
        (line.size > CODE_END && line.at[CODE_END] != ' ')) {
        return false;
    }
    reply->status = (unsigned)status;
    return status >= 100;
}

/* Notes the schemes of a field that asks for a login. One field may hold several, and words between
 * quotation marks are none. */
static void take_schemes(const char *value, size_t size, struct upstream_reply *reply)
{
    static const char *const known[] = {"Basic",    "Negotiate", "NTLM",
                                        "Kerberos", "Digest",    "Bearer"};
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (value[i] == '"' && (i == 0 || value[i - 1] != '\\')) {
            quoted = !quoted;
        }
        bool begins = !quoted && (i == 0 || value[i - 1] == ' ' || value[i - 1] == ',');
        for (unsigned k = 0; begins && k < sizeof known / sizeof *known; k++) {
            size_t length = strlen(known[k]);
            bool ends =
                i + length == size || (i + length < size && strchr(" ,\t", value[i + length]));
            if (!ends || strncasecmp(value + i, known[k], length) != 0) {
                continue;
            }
            reply->takes_basic = reply->takes_basic || k == 0;
            if (k > 0 && !strstr(reply->schemes, known[k])) {
                size_t used = strlen(reply->schemes);
                (void)snprintf(reply->schemes + used, sizeof reply->schemes - used, "%s%s",
                               used ? ", " : "", known[k]);
            }
        }
    }
}

/* What a field of a reply says of its body. */
struct body {
    bool is_html, is_there;
};

/* The value of a field with this name, without blanks in front; NULL: it is another one. */
static const char *value_of(struct line line, const char *name, size_t *ret_size)
{
    size_t size = strlen(name);
    if (line.size < size || strncasecmp(line.at, name, size) != 0) {
        return NULL;
    }
    while (size < line.size && (line.at[size] == ' ' || line.at[size] == '\t')) {
        size++;
    }
    *ret_size = line.size - size;
    return line.at + size;
}

static void field_read(struct line line, struct upstream_reply *reply, struct body *body)
{
    static const char html[] = "text/html";
    /* tinyproxy refuses a wrong password with a 401 */
    const char *asks = reply->status == 401 ? "WWW-Authenticate:" : "Proxy-Authenticate:";
    const char *value = NULL;
    size_t size = 0;
    if ((value = value_of(line, asks, &size))) {
        take_schemes(value, size, reply);
    } else if ((value = value_of(line, "Content-Type:", &size))) {
        body->is_html = size >= sizeof html - 1 && strncasecmp(value, html, sizeof html - 1) == 0;
    } else if ((value = value_of(line, "Content-Length:", &size))) {
        body->is_there = body->is_there || (size > 0 && *value != '0');
    } else if (value_of(line, "Transfer-Encoding:", &size)) {
        body->is_there = true;
    }
}

/* Whether a captive portal has replied: a redirection, the status of RFC 6585, 6, or a page in
 * place of the tunnel. Some proxies announce a body with a success that has none, RFC 9110 9.3.6:
 * that alone says nothing. */
static bool is_page(const struct upstream_reply *reply, const struct body *body, bool bracket)
{
    enum { LOGIN_NEEDED = 511 };
    return reply->status / 100 == 3 || reply->status == LOGIN_NEEDED ||
           (reply->status / 100 == 2 && body->is_html && (body->is_there || bracket));
}

enum reply_result reply_read(const char *bytes, size_t size, struct upstream_reply *ret_reply)
{
    static const char begin[] = "HTTP/1.";
    size_t at = 0;
    for (;;) {
        struct upstream_reply reply = {};
        struct body body = {};
        struct line line;
        size_t seen = size - at < sizeof begin - 1 ? size - at : sizeof begin - 1;
        if (memcmp(bytes + at, begin, seen) != 0) {
            return REPLY_GARBAGE;
        }
        bool complete = next_line(bytes, size, &at, &line);
        if (complete && !status_read(line, &reply)) {
            return REPLY_GARBAGE;
        }
        while (complete && (complete = next_line(bytes, size, &at, &line)) && line.size > 0) {
            field_read(line, &reply, &body);
        }
        if (!complete) {
            return size < REPLY_HEAD_MOST ? REPLY_MORE : REPLY_GARBAGE;
        }
        if (reply.status >= 200) {
            reply.takes_basic = reply.takes_basic || !reply.schemes[0];
            reply.head_bytes = at;
            reply.is_page = is_page(&reply, &body, at < size && bytes[at] == '<');
            *ret_reply = reply;
            return REPLY_WHOLE;
        }
    }
}

/* --- sentences --- */

static void explain_refusal(const struct egress_upstream *upstream,
                            const struct upstream_reply *reply, const struct target *target,
                            struct egress_event *event)
{
    char name[EGRESS_HOST_BYTES];
    bool login = reply->status == 407 || reply->status == 401;
    (void)upstream_print(upstream, /* user= */ false, name, sizeof name);
    if (login && !reply->takes_basic) {
        event_set(event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.100s accepts only %s, which is not "
                  "supported; a local helper such as px or cntlm does it, and --proxy names that",
                  name, reply->schemes);
    } else if (login && upstream->has_login) {
        event_set(event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.100s refused the user name or the "
                  "password; the user can correct them (%s) and restart Sandpiper",
                  name, upstream->source);
    } else if (login) {
        event_set(event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.100s asks for a password; the user can "
                  "name it: proxy = http://USER:PASSWORD@%.100s in Sandpiper's configuration file",
                  name, name);
    } else if (reply->is_page) {
        event_set(event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.100s replied with a page (%u), such as "
                  "for a login to the network; the user can open a site in a browser of this "
                  "machine and log in, then repeat it",
                  name, reply->status);
    } else {
        event_set(event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.100s refuses it (%u)%s; the user can "
                  "ask the network's administrators, or name it in --no-proxy if it needs no proxy",
                  name, reply->status,
                  target->port != 443 && target->port != 80 ? "; proxies often permit only port 443"
                                                            : "");
    }
}

void upstream_explain(const struct egress_upstream *upstream, enum upstream_error error,
                      const struct upstream_reply *reply, const struct target *target,
                      struct egress_event *ret_event)
{
    static const char *const what[] = {
        [UPSTREAM_REFUSED_CONNECTION] = "refused the connection: it is not running, or elsewhere",
        [UPSTREAM_NO_ROUTE] = "cannot be reached: there is no route to it",
        [UPSTREAM_NO_NAME] = "has a name that does not exist",
        [UPSTREAM_NO_RESOLVER] = "has a name that no name server resolves",
        [UPSTREAM_NO_CONNECTION] = "accepted no connection within 10 s",
        [UPSTREAM_SILENT] = "sent no reply within 20 s",
        [UPSTREAM_SLOW] = "sent no reply within 120 s, which the site may have delayed",
        [UPSTREAM_CLOSED] = "closed the connection without a reply",
        [UPSTREAM_GARBAGE] = "sent what is no HTTP: it may be another service",
        [UPSTREAM_PASSWORD] =
            "refused the password, which is not sent again until Sandpiper is restarted",
    };
    char name[EGRESS_HOST_BYTES];
    if (error == UPSTREAM_REFUSES) {
        explain_refusal(upstream, reply, target, ret_event);
    } else if (error == UPSTREAM_UNUSABLE) {
        event_set(ret_event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy of %s cannot be used: %s",
                  upstream->source, upstream->unusable);
    } else {
        event_set(ret_event, EGRESS_UPSTREAM, target,
                  "cannot be reached: the upstream proxy %.200s %s; the user can check %s",
                  upstream_print(upstream, /* user= */ false, name, sizeof name), what[error],
                  upstream->source);
    }
}
