#pragma once
#include <jansson.h>
#include <stdbool.h>

#include "base/embed.h"

/* The declared subset of JSON Schema 2020-12. Anything else in a schema file fails a test. */

enum keyword_type {
    KEYWORD_TYPE_ANY,
    KEYWORD_TYPE_ARRAY,
    KEYWORD_TYPE_BOOLEAN,
    KEYWORD_TYPE_INTEGER,
    KEYWORD_TYPE_NUMBER,
    KEYWORD_TYPE_OBJECT,
    KEYWORD_TYPE_STRING,
    KEYWORD_TYPE_COUNT,
};

/* The value of the schema's "type"; KEYWORD_TYPE_ANY when there is none. */
enum keyword_type keyword_type(const json_t *schema);

/* Instead of "pattern", in the schemas of others: matched against short strings only. */
#define KEYWORD_FOREIGN_PATTERN "sandpiper.pattern"
#define KEYWORD_FOREIGN "sandpiper.foreign" /* null is a value, and no missing one */

/* The files NAME.input.json, in order; ends with a NULL name. Generated at build time. */
extern const struct embedded schema_catalog[];

/* The files NAME.output.json, one for each input file. Ends with a NULL name. */
extern const struct embedded schema_outputs[];
