#include "tools/install/requirement.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/word.h"
#include "tools/install/install_config.h"

/* ctype(3) depends on the locale, and is not defined for bytes of UTF-8. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

static bool is_name(char c)
{
    return is_word(c) || c == '-' || c == '_' || c == '.';
}

static bool is_version(char c)
{
    return is_name(c) || c == '*' || c == '+' || c == '!';
}

static const char *skip_blanks(const char *at)
{
    return at + strspn(at, " \t");
}

char *requirement_normalise(const char *name, size_t size, char *out, size_t out_size)
{
    size_t length = 0;
    for (size_t i = 0; i < size && length + 1 < out_size; i++) {
        char c = name[i];
        if (c == '-' || c == '_' || c == '.') {
            if (length > 0 && out[length - 1] == '-') {
                continue;
            }
            c = '-';
        } else if (c >= 'A' && c <= 'Z') {
            c = (char)(c - 'A' + 'a');
        }
        out[length++] = c;
    }
    out[length] = '\0';
    return out;
}

/* Takes a name at the front of *at and moves *at after it: letters and digits at both ends. */
static size_t take_name(const char **at)
{
    const char *begin = *at;
    while (is_name(**at)) {
        (*at)++;
    }
    size_t size = (size_t)(*at - begin);
    return size > 0 && is_word(begin[0]) && is_word(begin[size - 1]) ? size : 0;
}

/* Takes "[a, b]" after a name. */
static bool take_extras(const char **at)
{
    if (**at != '[') {
        return true;
    }
    *at = skip_blanks(*at + 1);
    while (**at != ']') {
        if (take_name(at) == 0) {
            return false;
        }
        *at = skip_blanks(*at);
        if (**at == ',') {
            *at = skip_blanks(*at + 1);
        } else if (**at != ']') {
            return false;
        }
    }
    *at = skip_blanks(*at + 1);
    return true;
}

/* Takes one of PEP 440's operators. */
static bool take_operator(const char **at)
{
    static const char *const operators[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">"};
    for (unsigned i = 0; i < sizeof operators / sizeof *operators; i++) {
        size_t size = strlen(operators[i]);
        if (strncmp(*at, operators[i], size) == 0) {
            *at = skip_blanks(*at + size);
            return true;
        }
    }
    return false;
}

/* Takes ">=1.2, <2", maybe in parentheses. */
static bool take_versions(const char **at)
{
    bool parenthesis = **at == '(';
    if (parenthesis) {
        *at = skip_blanks(*at + 1);
    }
    while (take_operator(at)) {
        const char *begin = *at;
        while (is_version(**at)) {
            (*at)++;
        }
        if (*at == begin) {
            return false;
        }
        *at = skip_blanks(*at);
        if (**at != ',') {
            break;
        }
        *at = skip_blanks(*at + 1);
    }
    if (parenthesis) {
        if (**at != ')') {
            return false;
        }
        *at = skip_blanks(*at + 1);
    }
    return true;
}

/* Whether this is a path or a URL, not a name: a name cannot contain these. */
static bool is_place(const char *requirement)
{
    const char *marker = strchr(requirement, ';');
    size_t size = marker ? (size_t)(marker - requirement) : strlen(requirement);
    return requirement[0] == '.' || requirement[0] == '~' || memchr(requirement, '/', size) ||
           memchr(requirement, '\\', size) || memchr(requirement, '@', size);
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
    if (is_word(*at) || *at == ',') {
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
    const char *begin = skip_blanks(requirement);
    const char *at = begin;
    size_t length = take_name(&at);
    const char *behind = skip_blanks(at);
    bool whole = length > 0 && length < REQUIREMENT_NAME_BYTES && !is_place(begin);
    at = behind;
    whole = whole && take_extras(&at) && take_versions(&at);
    if (whole && *at == ';') {
        at = skip_blanks(at + 1);
        whole = *at != '\0';
        at += strlen(at);
    }
    if (!whole || *at != '\0') {
        const char *mistake = common_mistake(begin, *at ? at : behind);
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
