#pragma once

/* Error codes on the wire: JSON-RPC 2.0 section 5.1, and MCP for the last three. */
enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603,
    RPC_UNSUPPORTED_VERSION = -32022,
    RPC_MISSING_CAPABILITY = -32021,
    RPC_RESOURCE_NOT_FOUND = -32002, /* until 2025-11-25 */
};
