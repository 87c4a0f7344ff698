// @openai/agents-core, the core of the OpenAI Agents SDK for JavaScript.
import { MCPServerStdio } from '@openai/agents-core';
import { resultOf } from './results.mjs';

export async function connect(mode, command, args) {
  const server = new MCPServerStdio({ name: 'sandpiper', command, args });
  await server.connect();
  return {
    complaints: [],
    tools: async () => (await server.listTools()).map(tool => tool.name),
    call: async (name, given, signal) => resultOf(await server.callToolResult(name, given, null, { signal })),
    close: () => server.close(),
  };
}
