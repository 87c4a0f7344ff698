#pragma once
#include <jansson.h>
#include <stdbool.h>

/* The forms in which programs that speak no MCP tell a model of the tools and hand it a result:
 * the function calling of the vendors' APIs. Pure: JSON in, JSON out. */

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

/* New: what a request to the vendor names as its tools. tools: the array of tools/list, borrowed.
 * strict: only keywords that the vendor's decoder enforces, and the mark that it should; properties
 * that may be left out are nullable and required, where the vendor wants that. NULL when there is no
 * memory. */
json_t *bridge_declare(enum bridge_format format, bool strict, const json_t *tools);

/* New: an array of what goes back into the conversation, one element a message or block. result:
 * that of tools/call, borrowed. id: of the model's call; NULL leaves the key out. NULL when there is
 * no memory. */
json_t *bridge_result(enum bridge_format format, const char *tool, const char *id,
                      const json_t *result);
