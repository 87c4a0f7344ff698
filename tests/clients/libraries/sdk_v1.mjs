// @modelcontextprotocol/sdk 1.x, which supports only initialize.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { codeOf, resultOf } from './results.mjs';

export async function connect(mode, command, args) {
  const client = new Client({ name: 'sandpiper-tests', version: '1' }, { capabilities: {} });
  const complaints = [];
  client.onerror = error => complaints.push(String(error.message));
  await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
  const call = (name, given, signal) => client.callTool({ name, arguments: given }, undefined, { signal });
  return {
    complaints,
    instructions: () => client.getInstructions(),
    ping: () => client.ping(),
    tools: async () => (await client.listTools()).tools.map(tool => tool.name),
    call: async (...given) => resultOf(await call(...given)),
    refusal: tool => codeOf(call(tool, {})),
    close: () => client.close(),
  };
}
