/* Any arguments for any tool: corrected arguments must not be worse than the original ones. */
#include <stdlib.h>
#include <string.h>

#include "rpc/text.h"
#include "schema/schema.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    json_t *value = scan_size(text, 64, SIZE_MAX) == SCAN_FITS
                        ? json_loadb(text.bytes, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL)
                        : NULL;
    const char *name = NULL;
    for (size_t i = 0; value && (name = schema_name(i)); i++) {
        struct schema_violation violations[3];
        const json_t *schema = schema_input(name);
        size_t before = schema_validate(schema, value, violations, 3);
        for (size_t k = 0; k < 3 && k < before; k++) {
            if (!memchr(violations[k].text, '\0', sizeof violations[k].text) ||
                !memchr(violations[k].pointer, '\0', sizeof violations[k].pointer)) {
                abort();
            }
        }
        json_t *coerced = schema_coerce(schema, value);
        if (!coerced || schema_validate(schema, coerced, NULL, 0) > before) {
            abort();
        }
        json_decref(coerced);
    }
    json_decref(value);
    return 0;
}
