#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

void unit_skip(const char *feature, const char *why)
{
    const char *required = getenv("SANDPIPER_TEST_REQUIRE");
    size_t size = strlen(feature);
    while (required && *required) {
        size_t length = strcspn(required, ",");
        if (length == size && strncmp(required, feature, size) == 0) {
            fail_msg("%s is required: %s", feature, why);
        }
        required += length;
        required += *required == ',';
    }
    print_message("# skipped: %s\n", why);
    skip();
}
