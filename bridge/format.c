/* One transformer and a table: what each vendor calls the parts of a declaration, and which
 * keywords of JSON Schema it takes. A keyword that is left out is still enforced when the call
 * comes, and the properties' descriptions say in words what it demands. */

#include "bridge/format.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/word.h"

enum nullable {
    NULLABLE_NOT,     /* optional properties stay so */
    NULLABLE_TYPE,    /* "type": ["string", "null"] */
    NULLABLE_KEYWORD, /* "nullable": true */
};

struct shape {
    const char *schema_key;      /* of the declaration: where its schema is */
    const char *const *keywords; /* that are taken, closed by NULL; NULL: all */
    enum nullable optional;      /* made required, too, unless NULLABLE_NOT */
    bool upper_types;            /* "STRING" for "string" */
    bool few_optional;           /* without those that rarely matter */
};

enum mark {
    MARK_NEVER,
    MARK_STRICT, /* "strict": true, where it is */
    MARK_ALWAYS, /* "strict": true or false */
};

struct dialect {
    const char *name;
    const char *list;   /* the array lies in an object under this key; NULL: it stands alone */
    const char *inside; /* the declaration lies in an object under this key; NULL: it does not */
    bool typed;         /* "type": "function" */
    bool whole;         /* everything that tools/list has of a tool is kept */
    enum mark mark;
    size_t description_most; /* characters of a tool's description; 0: no limit */
    struct shape plain;
    struct shape strict;
};

#define STRUCTURE "type", "description", "enum", "items", "properties", "required"

/* Structured Outputs, "Supported schemas" in OpenAI's guide. */
static const char *const openai_keywords[] = {
    STRUCTURE, "additionalProperties", "pattern", "minimum", "maximum", "minItems", "maxItems",
    NULL,
};
/* Structured outputs, "JSON Schema limitations" in Anthropic's guide: refuses bounds of numbers and
 * of lengths. */
static const char *const anthropic_keywords[] = {STRUCTURE, "title", "additionalProperties", NULL};
/* GenerationConfig.responseJsonSchema in the reference of the Gemini API lists what it reads. */
static const char *const gemini_keywords[] = {
    STRUCTURE, "title", "additionalProperties", "minimum", "maximum", "minItems", "maxItems", NULL,
};
/* The type Schema there, a selection from OpenAPI 3.0. Bounds of lengths are left out, which it
 * writes as strings. */
static const char *const gemini_schema_keywords[] = {
    STRUCTURE, "title", "minimum", "maximum", "pattern", NULL,
};

/* The chat API of OpenAI and those modelled on it refuse longer descriptions of functions, but not
 * of parameters (error "string_above_max_length"). */
enum { OPENAI_DESCRIPTION_MOST = 1024 };

static const struct dialect dialects[BRIDGE_FORMAT_COUNT] = {
    [BRIDGE_MCP] = {.name = "mcp",
                    .whole = true,
                    .plain = {"inputSchema", NULL, NULLABLE_NOT, false},
                    .strict = {"inputSchema", openai_keywords, NULLABLE_TYPE, false}},
    [BRIDGE_OPENAI_CHAT] = {.name = "openai-chat",
                            .inside = "function",
                            .typed = true,
                            .mark = MARK_ALWAYS,
                            .description_most = OPENAI_DESCRIPTION_MOST,
                            .plain = {"parameters", NULL, NULLABLE_NOT, false},
                            .strict = {"parameters", openai_keywords, NULLABLE_TYPE, false}},
    [BRIDGE_OPENAI_RESPONSES] = {.name = "openai-responses",
                                 .typed = true,
                                 .mark = MARK_ALWAYS,
                                 .description_most = OPENAI_DESCRIPTION_MOST,
                                 .plain = {"parameters", NULL, NULLABLE_NOT, false},
                                 .strict = {"parameters", openai_keywords, NULLABLE_TYPE, false}},
    /* A request may have 24 optional parameters in its strict tools, and only 16 nullable ones. */
    [BRIDGE_ANTHROPIC] = {.name = "anthropic",
                          .mark = MARK_STRICT,
                          .plain = {"input_schema", NULL, NULLABLE_NOT, false},
                          .strict = {"input_schema", anthropic_keywords, NULLABLE_NOT, false,
                                     true}},
    [BRIDGE_GEMINI] = {.name = "gemini",
                       .list = "functionDeclarations",
                       .plain = {"parametersJsonSchema", gemini_keywords, NULLABLE_NOT, false},
                       .strict = {"parameters", gemini_schema_keywords, NULLABLE_KEYWORD, true}},
};

enum bridge_format bridge_format_find(const char *name)
{
    unsigned i = 0;
    while (i < BRIDGE_FORMAT_COUNT && strcmp(dialects[i].name, name) != 0) {
        i++;
    }
    return (enum bridge_format)i;
}

static bool takes(const struct shape *shape, const char *keyword)
{
    return !shape->keywords || parse_is_among(keyword, shape->keywords);
}

static bool names(const json_t *list, const char *key)
{
    size_t i = 0;
    const json_t *item = NULL;
    json_array_foreach (list, i, item) {
        if (strcmp(json_string_value(item), key) == 0) {
            return true;
        }
    }
    return false;
}

/* New: the type's name as the shape writes it. */
static json_t *shape_type(const struct shape *shape, const json_t *type)
{
    char upper[16] = "";
    const char *name = json_string_value(type);
    for (size_t i = 0; name[i] && i + 1 < sizeof upper; i++) {
        upper[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    }
    return json_string(shape->upper_types ? upper : name);
}

/* 0 or -1. */
static int make_nullable(const struct shape *shape, json_t *property)
{
    if (shape->optional == NULLABLE_KEYWORD) {
        return json_object_set_new(property, "nullable", json_true());
    }
    json_t *options = json_object_get(property, "enum");
    if (options && json_array_append_new(options, json_null()) < 0) {
        return -1;
    }
    json_t *type = json_object_get(property, "type");
    return type ? json_object_set_new(property, "type", json_pack("[O, s]", type, "null")) : 0;
}

static json_t *shape_schema(const struct shape *shape, const json_t *schema);

/* New: the properties, each in the shape. */
static json_t *shape_properties(const struct shape *shape, const json_t *schema)
{
    json_auto_t *properties = json_object();
    const char *key = NULL;
    const json_t *property = NULL;
    json_object_foreach (json_object_get(schema, "properties"), key, property) {
        json_t *shaped = shape_schema(shape, property);
        if (!shaped || json_object_set_new(properties, key, shaped) < 0 ||
            (shape->optional != NULLABLE_NOT && !names(json_object_get(schema, "required"), key) &&
             make_nullable(shape, shaped) < 0)) {
            return NULL;
        }
    }
    return take_ptr(properties);
}

/* New: the names of all properties. */
static json_t *all_names(const json_t *schema)
{
    json_auto_t *list = json_array();
    const char *key = NULL;
    const json_t *property = NULL;
    json_object_foreach (json_object_get(schema, "properties"), key, property) {
        if (json_array_append_new(list, json_string(key)) < 0) {
            return NULL;
        }
    }
    return take_ptr(list);
}

/* New: one keyword of the schema, in the shape. */
static json_t *shape_keyword(const struct shape *shape, const json_t *schema, const char *keyword,
                             const json_t *value)
{
    if (strcmp(keyword, "properties") == 0) {
        return shape_properties(shape, schema);
    }
    if (strcmp(keyword, "items") == 0) {
        return shape_schema(shape, value);
    }
    if (strcmp(keyword, "type") == 0) {
        return shape_type(shape, value);
    }
    if (strcmp(keyword, "required") == 0 && shape->optional != NULLABLE_NOT) {
        return all_names(schema);
    }
    return json_deep_copy(value);
}

/* New. Recursion is bounded by our own schema files. */
static json_t *shape_schema(const struct shape *shape, const json_t *schema)
{
    json_auto_t *shaped = json_object();
    json_t *object = (json_t *)(uintptr_t)schema; /* jansson's iterators take no const */
    const char *keyword = NULL;
    json_t *value = NULL;
    json_object_foreach (object, keyword, value) {
        if (takes(shape, keyword) &&
            json_object_set_new(shaped, keyword, shape_keyword(shape, schema, keyword, value)) <
                0) {
            return NULL;
        }
    }
    if (shape->optional != NULLABLE_NOT && json_object_get(schema, "properties") &&
        !json_object_get(schema, "required") &&
        json_object_set_new(shaped, "required", all_names(schema)) < 0) {
        return NULL;
    }
    return take_ptr(shaped);
}

/* Where to cut text so that it has no more than most characters: after its last whole paragraph,
 * else word, else character. Returns size when all of it fits. */
static size_t cut_at(const char *text, size_t size, size_t most)
{
    size_t characters = 0;
    size_t paragraph = 0;
    size_t word = 0;
    for (size_t i = 0; i < size; i++) {
        if (!utf8_is_inner(text[i]) && characters++ == most) {
            return paragraph ? paragraph : word ? word : i;
        }
        if (strncmp(text + i, "\n\n", 2) == 0) {
            paragraph = i;
        } else if (text[i] == ' ') {
            word = i;
        }
    }
    return size;
}

/* Moves what is too long for the description to the end of the first property's, so that the model
 * loses nothing. 0 or -1. */
static int resolve_description(const struct dialect *dialect, json_t *declaration, json_t *schema)
{
    const json_t *whole = json_object_get(declaration, "description");
    const char *text = json_string_value(whole);
    size_t size = json_string_length(whole);
    size_t cut =
        text && dialect->description_most ? cut_at(text, size, dialect->description_most) : size;
    if (cut == size) {
        return 0;
    }
    json_t *properties = json_object_get(schema, "properties");
    json_t *first = json_object_iter_value(json_object_iter(properties));
    const char *about = json_string_value(json_object_get(first, "description"));
    const char *rest = text + cut + strspn(text + cut, " \n");
    json_t *shown = json_stringn(text, cut);
    if (first && json_object_set_new(first, "description",
                                     json_sprintf("%s\n\n%s", about ? about : "", rest)) < 0) {
        json_decref(shown);
        return -1;
    }
    return json_object_set_new(declaration, "description", shown);
}

/* The four that a model misses least: the sessions of tools to which all sessions are alike, and
 * what frees memory that runs short by itself. */
static void leave_out_rare(json_t *schema, const char *tool)
{
    bool runs = tool && strcmp(tool, "run_python") == 0;
    (void)json_object_del(json_object_get(schema, "properties"), runs ? "drop" : "session");
}

/* New: one tool. */
static json_t *declare(const struct dialect *dialect, bool strict, const json_t *tool)
{
    const struct shape *shape = strict ? &dialect->strict : &dialect->plain;
    json_auto_t *schema = shape_schema(shape, json_object_get(tool, "inputSchema"));
    if (shape->few_optional) {
        leave_out_rare(schema, json_string_value(json_object_get(tool, "name")));
    }
    json_auto_t *bare = json_pack("{s:O, s:O}", "name", json_object_get(tool, "name"),
                                  "description", json_object_get(tool, "description"));
    json_auto_t *declaration =
        dialect->whole ? json_copy((json_t *)(uintptr_t)tool) : json_object();
    if (!schema || !bare || !declaration ||
        (dialect->typed && !dialect->inside &&
         json_object_set_new(declaration, "type", json_string("function")) < 0) ||
        json_object_update(declaration, bare) < 0 ||
        resolve_description(dialect, declaration, schema) < 0 ||
        json_object_set(declaration, shape->schema_key, schema) < 0) {
        return NULL;
    }
    if ((dialect->mark == MARK_ALWAYS || (dialect->mark == MARK_STRICT && strict)) &&
        json_object_set_new(declaration, "strict", json_boolean(strict)) < 0) {
        return NULL;
    }
    return dialect->inside
               ? json_pack("{s:s, s:O}", "type", "function", dialect->inside, declaration)
               : take_ptr(declaration);
}

json_t *bridge_declare(enum bridge_format format, bool strict, const json_t *tools)
{
    const struct dialect *dialect = &dialects[format];
    json_auto_t *list = json_array();
    size_t i = 0;
    const json_t *tool = NULL;
    json_array_foreach (tools, i, tool) {
        if (json_array_append_new(list, declare(dialect, strict, tool)) < 0) {
            return NULL;
        }
    }
    return dialect->list ? json_pack("{s:O}", dialect->list, list) : take_ptr(list);
}

/* The parts of a result: its text in one piece, and its images. */
struct parts {
    json_t *text;
    json_t *images; /* array of image blocks */
    bool is_error;
};

static void parts_done(struct parts *parts)
{
    json_decref(parts->text);
    json_decref(parts->images);
}

/* 0 or -1. */
static int parts_take(struct parts *parts, const json_t *result)
{
    OWNED(buf_done) struct buf text = BUF_EMPTY;
    size_t i = 0;
    json_t *block = NULL;
    parts->is_error = json_is_true(json_object_get(result, "isError"));
    parts->images = json_array();
    json_array_foreach (json_object_get(result, "content"), i, block) {
        const char *type = json_string_value(json_object_get(block, "type"));
        const json_t *said = json_object_get(block, "text");
        if (type && strcmp(type, "image") == 0) {
            if (json_array_append(parts->images, block) < 0) {
                return -1;
            }
        } else if (said &&
                   ((buf_size(&text) > 0 && buf_append(&text, "\n", 1) < 0) ||
                    buf_append(&text, json_string_value(said), json_string_length(said)) < 0)) {
            return -1;
        }
    }
    parts->text = json_stringn(buf_bytes(&text), buf_size(&text));
    return parts->text && parts->images ? 0 : -1;
}

/* New: "data:image/png;base64,…", as OpenAI's APIs take an image. */
static json_t *data_url(const json_t *image)
{
    return json_sprintf("data:%s;base64,%s", json_string_value(json_object_get(image, "mimeType")),
                        json_string_value(json_object_get(image, "data")));
}

/* New: an array of first (stolen, or NULL) and what make() makes of each image. */
static json_t *list_images(const json_t *images, json_t *first,
                           json_t *(*make)(const json_t *image))
{
    json_auto_t *list = json_array();
    size_t i = 0;
    const json_t *image = NULL;
    if (first && json_array_append_new(list, first) < 0) {
        return NULL;
    }
    json_array_foreach (images, i, image) {
        if (json_array_append_new(list, make(image)) < 0) {
            return NULL;
        }
    }
    return take_ptr(list);
}

static json_t *chat_image(const json_t *image)
{
    return json_pack("{s:s, s:{s:o}}", "type", "image_url", "image_url", "url", data_url(image));
}

/* A message of a tool has only text: images follow as the user's. */
static json_t *result_chat(const char *tool, const char *id, const struct parts *parts)
{
    json_auto_t *messages =
        json_pack("[{s:s, s:s*, s:O}]", "role", "tool", "tool_call_id", id, "content", parts->text);
    if (messages && json_array_size(parts->images) > 0) {
        json_t *first = json_pack("{s:s, s:o}", "type", "text", "text",
                                  json_sprintf("The images that %s returned:", tool));
        json_t *content = list_images(parts->images, first, chat_image);
        if (json_array_append_new(
                messages, json_pack("{s:s, s:o}", "role", "user", "content", content)) < 0) {
            return NULL;
        }
    }
    return take_ptr(messages);
}

static json_t *responses_image(const json_t *image)
{
    return json_pack("{s:s, s:s, s:o}", "type", "input_image", "detail", "auto", "image_url",
                     data_url(image));
}

static json_t *result_responses(const char *, const char *id, const struct parts *parts)
{
    json_t *output = json_incref(parts->text);
    if (json_array_size(parts->images) > 0) {
        json_t *first = json_pack("{s:s, s:o}", "type", "input_text", "text", output);
        output = list_images(parts->images, first, responses_image);
    }
    return json_pack("[{s:s, s:s*, s:o}]", "type", "function_call_output", "call_id", id, "output",
                     output);
}

static json_t *anthropic_image(const json_t *image)
{
    return json_pack("{s:s, s:{s:s, s:O, s:O}}", "type", "image", "source", "type", "base64",
                     "media_type", json_object_get(image, "mimeType"), "data",
                     json_object_get(image, "data"));
}

static json_t *result_anthropic(const char *, const char *id, const struct parts *parts)
{
    json_t *first = json_string_length(parts->text) > 0
                        ? json_pack("{s:s, s:O}", "type", "text", "text", parts->text)
                        : NULL; /* the API refuses empty text blocks */
    return json_pack("[{s:s, s:s*, s:o, s:b}]", "type", "tool_result", "tool_use_id", id, "content",
                     list_images(parts->images, first, anthropic_image), "is_error",
                     parts->is_error);
}

static json_t *gemini_image(const json_t *image)
{
    return json_pack("{s:{s:O, s:O}}", "inlineData", "mimeType", json_object_get(image, "mimeType"),
                     "data", json_object_get(image, "data"));
}

static json_t *result_gemini(const char *tool, const char *id, const struct parts *parts)
{
    json_t *images =
        json_array_size(parts->images) > 0 ? list_images(parts->images, NULL, gemini_image) : NULL;
    return json_pack("[{s:{s:s*, s:s, s:{s:O}, s:o*}}]", "functionResponse", "id", id, "name", tool,
                     "response", parts->is_error ? "error" : "output", parts->text, "parts",
                     images);
}

/* The result itself, without members that belong to one message of the protocol. */
static json_t *result_mcp(const json_t *result)
{
    return json_pack("[{s:O, s:O*, s:b}]", "content", json_object_get(result, "content"),
                     "structuredContent", json_object_get(result, "structuredContent"), "isError",
                     json_is_true(json_object_get(result, "isError")));
}

json_t *bridge_result(enum bridge_format format, const char *tool, const char *id,
                      const json_t *result)
{
    static json_t *(*const made[BRIDGE_FORMAT_COUNT])(const char *tool, const char *id,
                                                      const struct parts *parts) = {
        [BRIDGE_OPENAI_CHAT] = result_chat,
        [BRIDGE_OPENAI_RESPONSES] = result_responses,
        [BRIDGE_ANTHROPIC] = result_anthropic,
        [BRIDGE_GEMINI] = result_gemini,
    };
    OWNED(parts_done) struct parts parts = {};
    if (format == BRIDGE_MCP) {
        return result_mcp(result);
    }
    return parts_take(&parts, result) < 0 ? NULL : made[format](tool, id, &parts);
}
