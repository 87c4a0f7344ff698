// Drives a server with an official SDK client, as a host would, and prints one JSON line per step.
//   node smoke.mjs v1|v2 SERVER ARG...
// v1: @modelcontextprotocol/sdk 1.x. v2: @modelcontextprotocol/client 2.x in its legacy (initialize) mode.
import { performance } from 'node:perf_hooks';

const [generation, command, ...args] = process.argv.slice(2);
const modules = {
  v1: ['@modelcontextprotocol/sdk/client/index.js', '@modelcontextprotocol/sdk/client/stdio.js'],
  v2: ['@modelcontextprotocol/client', '@modelcontextprotocol/client/stdio'],
}[generation];
const { Client } = await import(modules[0]);
const { StdioClientTransport } = await import(modules[1]);

const transport = new StdioClientTransport({ command, args, stderr: 'ignore' });
const options = { capabilities: {} };
if (generation === 'v2') options.versionNegotiation = { mode: 'legacy' };
const client = new Client({ name: 'sandpiper-smoke', version: '1.0.0' }, options);
const complaints = [];
client.onerror = error => complaints.push(String(error.message));

let failed = 0;
async function step(name, action) {
  const began = performance.now();
  let ok = false, detail;
  try {
    detail = await action();
    ok = detail !== false;
  } catch (error) {
    detail = `${error.code ?? ''} ${error.message}`.slice(0, 300);
  }
  failed += !ok;
  console.log(JSON.stringify({ step: name, ok, ms: Math.round(performance.now() - began), detail }));
}

const call = (name, given, extra = {}) => generation === 'v1'
  ? client.callTool({ name, arguments: given }, undefined, { timeout: 30000, ...extra })
  : client.callTool({ name, arguments: given }, { timeout: 30000, ...extra });
const python = (code, extra) => call('run_python', { code }, extra);
const text = result => result.content.map(block => block.text ?? '').join('');
async function codeOf(action) {
  try { await action(); } catch (error) { return error.code; }
  return undefined;
}

await step('connect', () => client.connect(transport).then(() => client.getServerVersion()?.name));
await step('instructions are given', () => client.getInstructions().length > 0);
await step('tools/list', async () => {
  const { tools } = await client.listTools();
  return ['run_python', 'write_file', 'read_file'].every(name => tools.some(t => t.name === name));
});
await step('ping', () => client.ping().then(() => true));
await step('run_python', async () => text(await python('print(6 * 7)')).startsWith('42\n'));
await step('state persists', async () => {
  await python('kept = "here"');
  return text(await python('print(kept)')).startsWith('here\n');
});
await step('an exception is an isError result', async () => {
  const result = await python('{}["k"]');
  return result.isError === true && text(result).includes('KeyError');
});
await step('a missing argument is an isError result', async () =>
  (await call('run_python', {})).isError === true);
await step('write_file and read_file', async () => {
  await call('write_file', { path: 'sdk/a.txt', content: 'hello\n' });
  return text(await call('read_file', { path: 'sdk/a.txt' })).includes('hello');
});
await step('an unknown tool is refused', async () =>
  await codeOf(() => call('no_such_tool', {})) === -32602);
await step('eight calls at once', async () => {
  const results = await Promise.all([...Array(8).keys()].map(n => python(`print(${n})`)));
  return results.every((result, n) => text(result).startsWith(`${n}\n`));
});
await step('a cancelled call leaves the server usable', async () => {
  const abort = new AbortController();
  setTimeout(() => abort.abort('smoke'), 300);
  let aborted = false;
  await python('import time; time.sleep(60)', { signal: abort.signal }).catch(() => { aborted = true; });
  return aborted && text(await python('print(kept)')).startsWith('here\n');
});
await step('close', async () => {
  const began = performance.now();
  await client.close();
  return performance.now() - began < 1900;
});
await step('the client had nothing to complain of', () => complaints.length === 0 || Promise.reject(
  new Error(complaints.join('; '))));
process.exit(failed ? 1 : 0);
