// Holds several sessions over HTTP at once, as clients do. Prints a line of JSON after each step, and waits for a line
// before the next.
//   node gateway.mjs URL SESSIONS
import readline from 'node:readline/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, count] = process.argv.slice(2);
const lines = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function step(detail) {
  console.log(JSON.stringify(detail));
  await lines.next();
}

async function session(number) {
  const transport = new StreamableHTTPClientTransport(new URL(url));
  const client = new Client({ name: `client ${number}`, version: '1.0.0' });
  await client.connect(transport);
  return { number, client, transport };
}
const python = async ({ client }, code) =>
  (await client.callTool({ name: 'run_python', arguments: { code } })).content[0].text.split('\n')[0];
const each = (sessions, code) => Promise.all(sessions.map(one => python(one, code(one.number))));

const sessions = await Promise.all([...Array(Number(count)).keys()].map(session));
await each(sessions, number => `mine = ${number}; open("file-${number}", "w").close()`);
await step(await each(sessions, () => 'import os; print(mine, os.listdir())'));

const ended = sessions.splice(0, sessions.length / 2);
for (const { client, transport } of ended) {
  await transport.terminateSession();
  await client.close();
}
await step(await each(sessions, () => 'print("still", mine)'));
process.exit(0); // without closing the sessions, like a client that crashes
