// Drives a server with a client library as its users do, and prints one JSON line per step.
//   node smoke.mjs CLIENT MODE SERVER ARG...
// CLIENT: a file of libraries/. MODE: legacy (initialize), auto (the library's default), modern.
// A client's connect(mode, command, args) gives an object with
//   tools()              names                     close()
//   call(tool, arguments, signal)                  {text, images: [mime type], isError}
//   complaints           the library's own messages
//   cancelsAlone         true where the library does not cancel a call in the server: the next call waits for it
// and if the library has them: instructions(), ping(), refusal(tool): the error code of an unknown tool.
import { readFileSync } from 'node:fs';
import { performance } from 'node:perf_hooks';

const [name, mode, command, ...args] = process.argv.slice(2);
const { connect } = await import(`./libraries/${name}.mjs`);
let client, failed = 0;

async function step(title, action) {
  const began = performance.now();
  let ok = false, detail;
  try {
    detail = await action();
    ok = detail !== false;
  } catch (error) {
    detail = `${error.code ?? ''} ${error.stack}`.slice(0, 600);
  }
  failed += !ok;
  console.log(JSON.stringify({ step: title, ok, ms: Math.round(performance.now() - began), detail }));
  return ok;
}

const python = (code, signal) => client.call('run_python', { code }, signal);
const prints = async (code, text) => (await python(code)).text.startsWith(`${text}\n`);
const picture = readFileSync(new URL('picture.py', import.meta.url), 'utf8');

if (!await step('connect', async () => { client = await connect(mode, command, args); }))
  process.exit(1);
if (client.instructions)
  await step('instructions are given', () => client.instructions().length > 0);
await step('the tools are listed', async () => {
  const names = await client.tools();
  return ['run_python', 'write_file', 'read_file'].every(tool => names.includes(tool));
});
if (client.ping)
  await step('ping', () => client.ping().then(() => true));
await step('run_python', () => prints('print(6 * 7)', '42'));
await step('state persists', async () => {
  await python('kept = "here"');
  return prints('print(kept)', 'here');
});
await step('an image arrives as an image', async () => {
  const { images } = await python(picture);
  return images.length === 1 && images[0] === 'image/png';
});
await step('an exception is an error', async () => {
  const { isError, text } = await python('{}["k"]');
  return isError && text.includes('KeyError');
});
await step('a missing argument is an error', async () =>
  (await client.call('run_python', {})).isError);
await step('write_file and read_file', async () => {
  await client.call('write_file', { path: 'sdk/a.txt', content: 'hello\n' });
  return (await client.call('read_file', { path: 'sdk/a.txt' })).text.includes('hello');
});
if (client.refusal)
  await step('an unknown tool is refused', async () => await client.refusal('no_such_tool') === -32602);
await step('eight calls at once', async () => {
  const results = await Promise.all([...Array(8).keys()].map(n => python(`print(${n})`)));
  return results.every((result, n) => result.text.startsWith(`${n}\n`));
});
await step('a cancelled call leaves the server usable', async () => {
  const abort = new AbortController();
  setTimeout(() => abort.abort('smoke'), 300);
  let aborted = false;
  await python(`import time; time.sleep(${client.cancelsAlone ? 2 : 25})`, abort.signal).catch(() => { aborted = true; });
  return aborted && prints('print(kept)', 'here');
});
await step('close', () => client.close().then(() => true));
await step('the client had nothing to complain of', () =>
  client.complaints.length === 0 || Promise.reject(new Error(client.complaints.join('; '))));
process.exit(failed ? 1 : 0);
