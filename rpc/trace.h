#pragma once
#include <jansson.h>

/* The trace context of a request (MCP SEP-414): what a client's tracing wants passed on. New: an
 * object with those of traceparent, tracestate and baggage that meta has in the formats of the W3C,
 * each at most LIMIT_TRACE_BYTES long, so that they are printable ASCII; NULL: none is, or there is
 * no memory. meta: a request's _meta, borrowed, may be anything. */
json_t *rpc_trace_new(const json_t *meta);
