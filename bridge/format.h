#pragma once
#include <jansson.h>
#include <stdbool.h>

/* The forms in which programs without MCP declare the tools to a model and pass it a result: the
 * function calling of the vendors' APIs. Pure: JSON in, JSON out. */

enum bridge_format {
    BRIDGE_MCP,
    BRIDGE_OPENAI_CHAT,
    BRIDGE_OPENAI_RESPONSES,
    BRIDGE_ANTHROPIC,
    BRIDGE_GEMINI,
    BRIDGE_FORMAT_COUNT,
};

#define BRIDGE_FORMAT_NAMES "mcp, openai-chat, openai-responses, anthropic or gemini"

/* BRIDGE_FORMAT_COUNT when there is no such format. */
enum bridge_format bridge_format_find(const char *name);

/* New: the tools as a request to the vendor has them. tools: the array of tools/list, borrowed.
 * strict: uses only keywords that the vendor's decoder enforces, and the mark that enables it;
 * optional properties are nullable and required where the vendor requires that. NULL when out of
 * memory. */
json_t *bridge_declare(enum bridge_format format, bool strict, const json_t *tools);

/* New: an array of what goes back into the conversation, one element a message or block. result:
 * that of tools/call, borrowed. id: of the model's call; NULL leaves the key out. NULL when out of
 * memory. */
json_t *bridge_result(enum bridge_format format, const char *tool, const char *id,
                      const json_t *result);
