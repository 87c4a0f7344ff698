// Starts a server as a host does: node start.mjs CLIENT MODE COMMAND ARG..., CLIENT a file of clients/.
// After two calls it prints what it was told, as one line of JSON; it ends the server when stdin says so.
import { once } from 'node:events';

const [name, mode, command, ...args] = process.argv.slice(2);
const { connect } = await import(`./clients/${name}.mjs`);
const client = await connect(mode, command, args);
const tools = await client.tools();
await client.call('run_python', { code: 'kept = 6 * 7' });
const { text } = await client.call('run_python', { code: 'print(kept)' });
console.log(JSON.stringify({ tools, text, complaints: client.complaints }));
await once(process.stdin, 'data');
await client.close();
process.exit(0);
