#include "tools/install/requirement.h"

#include <fnmatch.h>
#include <regex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/word.h"
#include "tools/install/install_config.h"

/* ctype(3) depends on the locale, and is not defined for bytes of UTF-8. */
static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
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
