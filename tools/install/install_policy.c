#include "tools/install/install_policy.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "tools/install/install_config.h"
#include "tools/install/requirement.h"

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
