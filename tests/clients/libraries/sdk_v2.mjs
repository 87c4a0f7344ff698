// @modelcontextprotocol/client 2.x, with each way to connect.
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { codeOf, resultOf } from './results.mjs';

const modes = { legacy: 'legacy', auto: 'auto', modern: { pin: '2026-07-28' } };

export async function connect(mode, command, args) {
  const client = new Client({ name: 'sandpiper-tests', version: '1' },
    { capabilities: {}, versionNegotiation: { mode: modes[mode] } });
  const complaints = [];
  client.onerror = error => complaints.push(String(error.message));
  await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
  const expected = mode === 'legacy' ? '2025-11-25' : '2026-07-28';
  if (client.getNegotiatedProtocolVersion() !== expected)
    throw new Error(`the version is ${client.getNegotiatedProtocolVersion()}`);
  const call = (name, given, signal) => client.callTool({ name, arguments: given }, { signal });
  return {
    complaints,
    instructions: () => client.getInstructions(),
    ...(mode === 'legacy' && { ping: () => client.ping() }),
    tools: async () => (await client.listTools()).tools.map(tool => tool.name),
    call: async (...given) => resultOf(await call(...given)),
    refusal: tool => codeOf(call(tool, {})),
    close: () => client.close(),
  };
}
