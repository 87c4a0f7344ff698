// @ai-sdk/mcp of Vercel's AI SDK. It does not notify the server of a cancelled call, and complains about the response.
import { createMCPClient } from '@ai-sdk/mcp';
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio';
import { resultOf } from './results.mjs';

export async function connect(mode, command, args) {
  const complaints = [];
  const client = await createMCPClient({
    transport: new StdioTransport({ command, args, stderr: 'ignore' }),
    protocolVersionDiscovery: mode !== 'legacy',
    onUncaughtError: error => {
      if (!/Received a response for an unknown message ID/.test(error))
        complaints.push(String(error));
    },
  });
  return {
    complaints,
    cancelsAlone: true,
    instructions: () => client.instructions,
    tools: async () => Object.keys(await client.tools()),
    call: async (name, given, signal) => resultOf(
      await client.callTool({ name, arguments: given, options: { signal } })),
    close: () => client.close(),
  };
}
