#include "tools/install_policy.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "tools/install_config.h"
#include "tools/requirement.h"

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
    char normal[REQUIREMENT_NAME_BYTES];
    char pattern[80];
    (void)requirement_normalise(name, strlen(name), normal, sizeof normal);
    if (find_match(&config->deny, normal, pattern, sizeof pattern)) {
        (void)snprintf(text, size, "%s is refused (--deny-package %s)", normal, pattern);
        return text;
    }
    if (config->allow.count > 0 && !find_match(&config->allow, normal, pattern, sizeof pattern)) {
        (void)snprintf(text, size, "%s is not among what is allowed (--allow-package)", normal);
        return text;
    }
    return NULL;
}
