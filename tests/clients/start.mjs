// Starts a server as a client does: node start.mjs CLIENT MODE COMMAND ARG..., CLIENT a file of libraries/.
// Makes two calls, prints their results as one line of JSON, and closes the connection when it receives input on stdin.
import { once } from 'node:events';

const [name, mode, command, ...args] = process.argv.slice(2);
const { connect } = await import(`./libraries/${name}.mjs`);
const client = await connect(mode, command, args);
const tools = await client.tools();
await client.call('run_python', { code: 'kept = 6 * 7' });
const { text } = await client.call('run_python', { code: 'print(kept)' });
console.log(JSON.stringify({ tools, text, complaints: client.complaints }));
await once(process.stdin, 'data');
await client.close();
process.exit(0);
