// Runs cells as tasks with the official client of the extension, and prints one JSON line per step.
//   node tasks.mjs SERVER ARG...
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';

const [command, ...args] = process.argv.slice(2);
const protocolVersion = '2026-07-28';
const clientInfo = { name: 'sandpiper-tests', version: '1' };
const asks = args.includes('--tools');
const capabilities = { extensions: { 'io.modelcontextprotocol/tasks': {} }, ...(asks && { elicitation: { form: {} } }) };
let failed = 0;

async function step(title, action) {
  const began = performance.now();
  let ok = false, detail;
  try {
    detail = await action();
    ok = detail !== false;
  } catch (error) {
    detail = String(error.stack).slice(0, 600);
  }
  failed += !ok;
  console.log(JSON.stringify({ step: title, ok, ms: Math.round(performance.now() - began), detail }));
}

const transport = new StdioClientTransport({ command, args, stderr: 'ignore' });
const client = new Client(clientInfo, { capabilities, versionNegotiation: { mode: { pin: protocolVersion } } });
await client.connect(transport);

// The client itself cannot parse a task. Such requests share its transport, with ids of their own.
const waiting = new Map();
const { onmessage } = transport;
transport.onmessage = (message, extra) => {
  const resolve = message.method === undefined && waiting.get(message.id);
  if (!resolve)
    return onmessage(message, extra);
  waiting.delete(message.id);
  resolve(message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result });
};
let last = 0;
const rawDispatch = (request, { signal } = {}) => new Promise((resolve, reject) => {
  const id = `task-${++last}`;
  waiting.set(id, resolve);
  signal?.addEventListener('abort', () => reject(signal.reason));
  transport.send({ jsonrpc: '2.0', id, ...request }).catch(reject);
});

const session = createTaskSessionFromClient(client, {
  endpointId: 'sandpiper', rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities: capabilities },
  onInputRequest: request => {
    asked.push(request.params.message);
    return { action: asked.length === 2 ? 'decline' : 'accept', ...(asked.length !== 2 && { content: {} }) };
  },
});
const asked = [];
const python = (code, more = {}) => session.callTool('run_python', { code, ...more });
const textOf = result => result.content.filter(block => block.type === 'text').map(block => block.text).join('');
const immediate = async (code, text) => {
  const execution = await python(code);
  const { status, result } = await execution.result();
  return execution.kind === 'immediate' && status === 'completed' && textOf(result).startsWith(text);
};
const picture = readFileSync(new URL('picture.py', import.meta.url), 'utf8');

if (asks) {
  await step('a task asks', async () => {
    const execution = await python(`from sandpiper import tools
for name, seconds in ('a', 4), ('b', 0), ('c', 0):
    try: print(tools.everything.echo(message=name))
    except PermissionError as error: print(error)
    tools.everything.trigger_long_running_operation(duration=seconds, steps=1)`);
    const { outcome } = await execution.settle();
    if (execution.kind !== 'task' || asked.length !== 3 ||
        !textOf(outcome.result).startsWith('Echo: a\nnot approved: everything.echo. The user declined.\nEcho: c\n'))
      throw new Error(JSON.stringify({ kind: execution.kind, outcome, asked }));
  });
  await session.close();
  await client.close();
  process.exit(failed);
}

await step('the server declares the extension', () => {
  const declared = client.getServerCapabilities().extensions;
  return JSON.stringify(declared) === JSON.stringify(capabilities.extensions);
});
await step('a short cell gets its result', () => immediate('kept = 6 * 7; print(kept)', '42\n'));
await step('a long cell runs to its end as a task', async () => {
  const messages = [];
  const execution = await python(
    `import time\nfor i in range(40):\n    print("step", i)\n    time.sleep(0.1)\nend = 7\n${picture}`,
    { timeout_s: 60 });
  const { outcome } = await execution.settle({
    onEvent: event => event.type === 'task' && messages.push(event.task.statusMessage),
  });
  const { content } = outcome.result;
  if (execution.kind !== 'task' || outcome.status !== 'completed' ||
      !messages.some(message => /^job 1, \d+ s: "step \d+"$/.test(message)) ||
      !textOf(outcome.result).includes('step 38\nstep 39\n') || !content.some(block => block.type === 'image'))
    throw new Error(JSON.stringify({ kind: execution.kind, outcome, messages }));
});
await step('its variables are the session\'s', () => immediate('print(end)', '7\n'));
await step('a cell is cancelled', async () => {
  const execution = await python('import time; time.sleep(600)', { timeout_s: 900 });
  await execution.cancel();
  const { outcome } = await execution.settle();
  return outcome.status === 'cancelled' || Promise.reject(new Error(JSON.stringify(outcome)));
});
await step('the session is usable', () => immediate('print(kept)', '42\n'));
await step('close', async () => {
  await session.close();
  await client.close();
});
process.exit(failed ? 1 : 0);
