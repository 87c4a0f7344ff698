// Two sessions over HTTP, as hosts hold them. Prints a line of JSON after each step, and waits for a line before the next.
//   node gateway.mjs URL
import readline from 'node:readline/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function step(detail) {
  console.log(JSON.stringify(detail));
  await lines.next();
}

const sessions = [];
for (const name of ['first', 'second']) {
  const transport = new StreamableHTTPClientTransport(new URL(process.argv[2]));
  const client = new Client({ name, version: '1.0.0' });
  await client.connect(transport);
  sessions.push({ client, transport });
}
const python = async ({ client }, code) =>
  (await client.callTool({ name: 'run_python', arguments: { code } })).content[0].text;

const [first, second] = sessions;
await python(first, 'mine = 1; open("file", "w").close()');
await step({
  kept: await python(first, 'print(mine)'),
  other: await python(second, 'import os; print("mine" in globals(), os.listdir())'),
});
await first.transport.terminateSession();
await first.client.close();
await step({ kept: await python(second, 'print("still", os.getcwd())') });
process.exit(0); // without a word, as a client that dies
