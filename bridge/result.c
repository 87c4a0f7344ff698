#include <string.h>

#include "base/buf.h"
#include "base/own.h"
#include "bridge/format.h"

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
