// A headless client with MCP Apps: official SDK, official AppBridge, Debian's Chromium, no network.
//   node view_host.mjs CHROMIUM COMMAND ARG... < cases.json
// Reads an array of cases, and prints a line of JSON about each: {name, failed: [check], ...what was seen}.
//   name, args: server arguments; tool, input: the call that is shown; before: calls and files that come first;
//   era legacy|modern|auto; host: a name of PROFILES; theme, width, zoom; ui: false declares no extension;
//   cancel: no result is sent; clicks: selectors; evaluate: expressions, in the view; picture: a file;
//   keys: pressed one after the other, a focus that it had is on "selector"; tree: the accessibility tree is read;
//   media: {feature: value} of the display; running: no result is sent either, and the picture shows that;
//   hangs: the view does not answer in the end, but the client does;
//   payloads: HTML outputs, each in a frame, that must not reach the network, whatever in them is clicked; naive: in frames
//   of another page instead, as they are and cleaned by nobody; seen.reached has those of which the network's log has the name;
//   hostile: the sinks and the routes to the client must stay silent; leaks: those of them that may not
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import http from 'node:http';
import net from 'node:net';
import dgram from 'node:dgram';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { getToolUiResourceUri, RESOURCE_MIME_TYPE } from '@modelcontextprotocol/ext-apps/app-bridge';
import { build } from 'esbuild';
import puppeteer from 'puppeteer-core';
import { hostPage, policyOf, PROFILES, proxyPage } from './host_pages.mjs';

const UI = 'io.modelcontextprotocol/ui';
const MODERN = '2026-07-28';
const [chromium, command, ...serverArgs] = process.argv.slice(2);
const cases = JSON.parse((await process.stdin.toArray()).join(''));
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const listen = (server) => new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(server.address().port)));

const bundle = await build({
  bundle: true, format: 'esm', write: false, logLevel: 'error',
  stdin: { contents: "export { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge'", resolveDir: process.cwd() },
});
const bridge = bundle.outputFiles[0].text;

// Where a hostile output sends things: both names lead here.
const sink = { tcp: 0, udp: 0, lines: [] };
const tcp = net.createServer((socket) => {
  sink.tcp++;
  socket.on('data', (data) => { sink.lines.push(String(data).split('\r\n')[0]); socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n'); });
  socket.on('error', () => {});
});
const tcpPort = await listen(tcp);
const udp = dgram.createSocket('udp4').on('message', () => sink.udp++);
const udpPort = await new Promise((resolve) => udp.bind(0, '127.0.0.1', () => resolve(udp.address().port)));

// What has the focus: its name, and its ring as "solid 2". null: nothing in the view has it.
const FOCUSED = `(() => {
  const e = document.hasFocus() && document.activeElement, style = e && getComputedStyle(e.closest('.frame') || e);
  return e && e !== document.body ? [e.ariaLabel || e.title || e.innerText, style.outlineStyle + ' ' + parseFloat(style.outlineWidth)] : null;
})()`;

// All that Chromium's network process does has a line there: also looking up a name for a connection to come.
const logDirectory = mkdtempSync(join(tmpdir(), 'sp-netlog-'));
const netLog = join(logDirectory, 'log.json');

const browser = await puppeteer.launch({
  executablePath: chromium, headless: true, timeout: 120000,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--site-per-process', '--force-prefers-reduced-motion',
    '--log-net-log=' + netLog,
    '--host-resolver-rules=MAP evil.example 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1'],
});

// Names below localhost need no server of names. Each payload has its own.
const addressOf = (number, name) => `http://p${number}.${name}.localhost:${tcpPort}/`;
const fill = (payloads, name) => payloads.map((text, at) => text.replaceAll('URL', addressOf(at, name)));

// What must not be in a frame's document, whether or not Chromium would follow it today. Then clicks all that is in it.
// null: it is not yet there. source: the text of which it must be the very nodes.
function attack(document, source) {
  if (document.URL !== 'about:srcdoc' || document.readyState !== 'complete') return null;
  const all = (selector) => Document.prototype.querySelectorAll.call(document, selector); // whatever an element is named
  const found = [], elements = [...all('*')];
  for (const element of elements) {
    if (/^(link|script|base|iframe|frame|object|embed|form|button|template|math|set|animate.*|feimage|foreignobject|title|textarea|xmp|no.*)$/i.test(element.localName)) {
      found.push(element.localName);
    }
    if (element.localName === 'style' && (element.parentNode !== document.head && element !== document.body.firstChild || /localhost/.test(element.textContent))) found.push('style');
    for (const { name, value } of element.attributes) {
      if (/localhost|javascript:/.test(value) && !/^(id|class|title|alt|value|data-\w+)$/.test(name)) found.push(name + '=' + value);
      if (/^on/.test(name)) found.push(name);
    }
  }
  if (all('meta').length !== 2) found.push('meta');
  if (source && !source.endsWith('<body>' + document.body.innerHTML + '</body></html>')) found.push('other nodes than were written');
  const view = document.defaultView;
  for (const element of elements) element.dispatchEvent(new view.MouseEvent('click', { bubbles: true, cancelable: true, view }));
  return found;
}

// Attacks the frames of a view, and waits until a connection that comes after that was made. Returns those of before it,
// and what was found in the frames.
async function attackAll(page, view, isOpaque, control) {
  const sources = isOpaque && await view.evaluate("[...document.querySelectorAll('iframe')].map((frame) => frame.srcdoc)");
  const attempt = () => (isOpaque ? Promise.all(view.childFrames().map((frame, at) => frame.evaluate(`(${attack})(document, ${JSON.stringify(sources[at])})`)
    .catch((error) => [String(error)])))
    : view.evaluate(`[...document.querySelectorAll('iframe')].map((frame) => (${attack})(frame.contentDocument))`));
  let found = await attempt();
  for (const end = Date.now() + 200000; found.includes(null) && Date.now() < end; found = await attempt()) await sleep(50);
  const before = sink.tcp;
  await page.evaluate((href) => {
    const link = document.createElement('link');
    link.rel = 'preconnect';
    link.href = href;
    document.head.append(link);
  }, control);
  for (const end = Date.now() + 60000; sink.tcp === before && Date.now() < end;) await sleep(20);
  return [before, found];
}

// What the payloads do where nobody cleans them: once as they are, and once written and parsed again.
async function playNaive(one) {
  const page = await browser.newPage();
  for (let from = 0; from < one.payloads.length; from += 100) {
    await page.goto('about:blank'); // some of them replace the page
    await page.evaluate((texts) => Promise.all(texts.flatMap((text) => [text, new DOMParser().parseFromString(text, 'text/html').body?.innerHTML ?? '']).map((body) => {
      const frame = document.createElement('iframe');
      frame.srcdoc = '<!doctype html><body>' + body;
      document.body.append(frame);
      return new Promise((loaded) => { frame.onload = loaded; });
    })), fill(one.payloads, one.name).slice(from, from + 100)).catch(() => {});
  }
  await page.close();
  return { name: one.name, failed: [] };
}

async function play(one) {
  if (one.naive) return playNaive(one);
  const seen = { name: one.name, failed: [], notes: [], calls: [], requests: [], console: [], evaluated: [] };
  const check = (title, ok, detail) => { if (!ok) seen.failed.push(detail === undefined ? title : title + ': ' + JSON.stringify(detail).slice(0, 300)); return ok; };
  const profile = PROFILES[one.host ?? 'spec'];
  const given = one.payloads && `class Html:
    def __init__(self, text): self.text = text
    def __repr__(self): return "."
    def _repr_html_(self): return self.text
for text in ${JSON.stringify(fill(one.payloads, one.name)).replaceAll('\x7f', '')}: display(Html(text))`;
  const input = given ? { code: given } : JSON.parse(JSON.stringify(one.input).replaceAll('TCP_PORT', tcpPort).replaceAll('UDP_PORT', udpPort));
  const theme = one.theme ?? 'light', width = one.width ?? 720;
  Object.assign(sink, { tcp: 0, udp: 0, lines: [] });

  // The server, as the official client sees it.
  const transport = new StdioClientTransport({ command, args: [...serverArgs, ...(one.args ?? [])], stderr: 'inherit' });
  const client = new Client({ name: 'view-host', version: '1' }, {
    capabilities: one.ui === false ? {} : { extensions: { [UI]: { mimeTypes: [RESOURCE_MIME_TYPE] } } },
    versionNegotiation: { mode: one.era === 'modern' ? { pin: MODERN } : one.era ?? 'legacy' },
  });
  await client.connect(transport);
  const capabilities = client.getServerCapabilities();
  check('the extension is declared to those that declare it', Boolean(capabilities.extensions?.[UI]) === (one.ui !== false));
  const { tools } = await client.listTools();
  seen.tools = tools;
  const tool = tools.find((tool) => tool.name === one.tool);
  const uri = getToolUiResourceUri(tool);
  check('both names of the resource agree', uri && tool._meta['ui/resourceUri'] === uri);
  check('no outputSchema', !tool.outputSchema);
  const resource = (await client.readResource({ uri })).contents[0];
  const html = resource.text;
  seen.page = html;
  check('one HTML5 document', resource.uri === uri && resource.mimeType === RESOURCE_MIME_TYPE && /^<!doctype html>/i.test(html));
  for (const [name, value] of one.before ?? []) {
    if (name === 'file') writeFileSync(value.path, value.text);
    else await client.callTool({ name, arguments: value });
  }
  const resultOf = client.callTool({ name: one.tool, arguments: input });
  resultOf.catch(() => {});

  async function finish() {
    const result = await resultOf.catch((error) => ({ content: [], failure: String(error.message) }));
    seen.result = { ...result, bytes: JSON.stringify(result).length };
    check('no structuredContent', result.structuredContent === undefined);
    check('below 1 MB', seen.result.bytes < 1e6, seen.result.bytes);
    check('view data only for those that declare views', Boolean(result._meta?.['sandpiper/view']) === (one.ui !== false && one.tool !== 'apply_changes'));
    return result;
  }
  if (one.ui === false) {
    await finish();
    await client.close();
    return seen;
  }

  // Two origins: the client's page and the proxy.
  const proxy = http.createServer((request, response) => {
    response.writeHead(request.url === '/' ? 200 : 404, { 'content-type': 'text/html', ...(!profile.opaque && { 'content-security-policy': policyOf(profile) }) });
    response.end(request.url === '/' ? proxyPage(profile) : '');
  });
  const proxyPort = await listen(proxy);
  const own = http.createServer((request, response) => {
    const isBridge = request.url === '/bridge.js';
    response.writeHead(200, { 'content-type': isBridge ? 'text/javascript' : 'text/html' });
    response.end(isBridge ? bridge : request.url === '/' ? hostPage(profile, theme, width, proxyPort) : '');
  });
  const start = `http://127.0.0.1:${await listen(own)}/`;
  const proxyStart = `http://localhost:${proxyPort}/`;
  const isOwn = (url) => url.startsWith(start) || url.startsWith(proxyStart) || /^(data|about|blob):/.test(url);

  const page = await browser.newPage();
  await page.setViewport({ width: Math.max(width, 320), height: 600 });
  page.on('console', (message) => seen.console.push([message.type(), message.text().slice(0, 300)]));
  page.on('pageerror', (error) => seen.console.push(['error', String(error.message).slice(0, 300)]));
  page.on('requestfinished', (request) => { if (!isOwn(request.url())) seen.requests.push(request.url()); });
  page.on('requestfailed', (request) => {
    const refused = /csp|BLOCKED_BY/.test(request.failure()?.errorText ?? '');
    if (!isOwn(request.url()) && !refused) seen.requests.push(request.url());
  });
  page.on('popup', () => seen.requests.push('popup'));
  page.on('framenavigated', (frame) => { if (frame === page.mainFrame() && frame.url() !== start) seen.requests.push('top: ' + frame.url()); });
  await page.exposeFunction('hostNote', (kind, value) => { seen.notes.push([kind, value]); });
  await page.exposeFunction('hostCall', async (params) => {
    seen.calls.push(params);
    try {
      return { result: await client.callTool(params) };
    } catch (error) {
      return { error: String(error.message) };
    }
  });
  const proxyFrame = () => page.frames().find((frame) => frame.url().startsWith(proxyStart));
  const view = () => proxyFrame()?.childFrames()[0];
  // What must come true, however busy the machine is.
  async function until(title, expression) {
    const end = Date.now() + (one.payloads ? 200000 : 20000);
    while (Date.now() < end) {
      if (await Promise.race([view().evaluate(expression).catch(() => false), sleep(3000)])) return true;
      await sleep(50);
    }
    return check(title, false);
  }

  await page.goto(start);
  await page.waitForFunction('window.loaded');
  const all = { openLinks: {}, serverTools: {}, serverResources: {}, logging: {}, message: { text: {} }, updateModelContext: { text: {} } };
  const context = profile.noContext ? undefined : {
    theme, displayMode: 'inline', availableDisplayModes: ['inline'], platform: 'desktop', locale: 'en-US', toolInfo: { tool },
    containerDimensions: profile.height ? { width, height: profile.height } : { width, maxHeight: 5000 },
    ...(profile.variables && { styles: { variables: {
      '--color-background-primary': 'light-dark(rgba(255, 255, 255, 1), rgba(48, 48, 46, 1))',
      '--color-text-primary': 'light-dark(rgba(20, 20, 19, 1), rgba(250, 249, 245, 1))', '--font-sans': 'sans-serif', '--font-mono': 'monospace',
    } } }),
  };
  await page.evaluate((given) => window.start(given), { capabilities: profile.capabilities ?? all, context, html });
  const methods = seen.notes.filter(([kind]) => kind === 'view').map(([, method]) => method);
  const first = methods.filter((method) => !/sandbox-/.test(method)).slice(0, 2);
  check('nothing but ui/initialize before initialized', first.join() === 'ui/initialize,ui/notifications/initialized', first);
  await view().evaluate(() => { // what a screen reader says by itself
    window.announced = [];
    const spoken = document.querySelector('[role=status]');
    new MutationObserver(() => window.announced.push(spoken.textContent)).observe(spoken, { childList: true, characterData: true, subtree: true });
  });
  if (one.media) {
    const features = Object.entries(one.media).map(([name, value]) => ({ name, value }));
    await view().client.send('Emulation.setEmulatedMedia', { features });
  }
  if (one.zoom) await view().evaluate((zoom) => { document.documentElement.style.fontSize = 16 * zoom + 'px'; }, one.zoom);

  await page.evaluate((given) => window.bridge.sendToolInput({ arguments: given }), input);
  if (one.running) {
    await until('it runs', "document.querySelector('.wait') !== null");
  } else if (one.cancel) {
    await page.evaluate(() => window.bridge.sendToolCancelled({ reason: 'by the user' }));
  } else {
    const result = await finish();
    const passed = profile.emptied ? { content: [{ type: 'text', text: '{}' }] }
      : profile.strips ? { content: result.content, ...(result.isError !== undefined && { isError: result.isError }) } : result;
    // From the data to the drawn page: two frames later it is painted.
    await view().evaluate(() => {
      window.began = 0;
      addEventListener('message', (event) => {
        if (event.data?.method !== 'ui/notifications/tool-result') return;
        const began = performance.now();
        queueMicrotask(() => requestAnimationFrame(() => setTimeout(() => { window.took = performance.now() - began; })));
      });
    });
    await page.evaluate((given) => window.bridge.sendToolResult(given), passed);
  }
  if (!one.running) await until('no longer busy', "document.querySelector('[aria-busy=true]') === null");
  if (one.host === 'desktop' && one.tool === 'run_python') await until('the data was read', "document.getElementById('view').dataset.from === 'read'");
  if (!one.cancel && !one.running) seen.took = await until('drawn', 'window.took > 0') && await view().evaluate('window.took');
  for (const selector of one.clicks ?? []) {
    if (await until('there is ' + selector, `document.querySelector(${JSON.stringify(selector)}) !== null`)) await view().$eval(selector, (element) => element.click());
  }
  if (one.hangs) {
    const answers = (frame) => Promise.race([frame.evaluate('1 + 1').catch(() => 0), sleep(5000)]);
    await sleep(1000);
    check('the client lives', await answers(page) === 2);
    seen.hung = await answers(view()) !== 2;
    await page.close();
    proxy.close();
    own.close();
    await client.close();
    return seen;
  }
  seen.keys = [];
  for (const key of one.keys ?? []) {
    if (/^[A-Z]/.test(key)) await page.keyboard.press(key);
    else await view().focus(key);
    seen.keys.push(await view().evaluate(FOCUSED));
  }
  for (const expression of one.until ?? []) await until(expression, expression);
  for (const expression of one.evaluate ?? []) {
    seen.evaluated.push(await Promise.race([view().evaluate(expression).catch((error) => String(error)), sleep(10000).then(() => 'no answer')]));
  }
  if (one.tree) {
    const { nodes } = await view().client.send('Accessibility.getFullAXTree', { frameId: view()._id });
    seen.tree = nodes.filter((node) => !node.ignored && node.role).map((node) => ({
      role: node.role.value, name: node.name?.value ?? '', ...Object.fromEntries((node.properties ?? []).map(({ name, value }) => [name, value.value])) }));
  }
  if (one.payloads) {
    const count = profile.strips && profile.reads !== false || profile.emptied ? 0 : one.payloads.length;
    await until('a frame for each payload', `[...document.querySelectorAll('iframe')].filter((frame) => frame.style.height).length === ${count}`);
    const [connections, found] = await attackAll(page, view(), profile.opaque, addressOf('control', one.name));
    check('no connection', connections === 0, sink);
    check('each payload was shown', found.length === count, found.length);
    found.forEach((names, at) => check('only what is known is in the frame', names?.length === 0, [one.payloads[at].slice(-150), names]));
  }
  if (one.hostile) await sleep(1500); // what it does later: nothing says that nothing will come
  await sleep(100);

  const sizes = seen.notes.filter(([kind]) => kind === 'size').map(([, size]) => size.height);
  check('its height was sent', sizes.length > 0 && sizes.at(-1) > 0, sizes);
  seen.height = sizes.at(-1);
  const found = await Promise.race([view().evaluate(() => ({
    text: document.getElementById('view').innerText, from: document.getElementById('view').dataset.from, width: document.documentElement.scrollWidth, inner: innerWidth,
    bottom: Math.ceil(document.getElementById('view').getBoundingClientRect().bottom), language: document.documentElement.lang, origin, announced: window.announced,
    buttons: [...document.querySelectorAll('button')].map((button) => button.textContent),
    unnamed: [...document.querySelectorAll('button,iframe,summary,img')].filter((e) => !(e.textContent.trim() || e.title || e.ariaLabel || e.alt)).length,
  })).catch(() => null), sleep(5000)]);
  if (check('the view is alive', found)) {
    seen.found = found;
    check('nothing is wider than the view', found.width <= found.inner + 1, [found.width, found.inner]);
    check('it shows something', found.text.trim());
    check('all that can be used has a name', !found.unnamed && found.language === 'en');
    check('the height is that of the page', Math.abs(found.bottom - seen.height) <= 1, [found.bottom, seen.height]);
    check('its status is read out', found.announced.length > 0 && found.announced.every((text, at) => text && text !== found.announced[at - 1]), found.announced);
    if (profile.opaque) check('there is no origin', found.origin === 'null');
  }
  seen.frames = await Promise.all((one.payloads ? [] : page.frames()).map((frame) => Promise.race([
    frame.evaluate(() => document.body?.innerText ?? '').catch(() => ''), sleep(2000).then(() => 'no answer')])));
  if (one.picture) {
    await page.setViewport({ width: Math.max(width, 320), height: Math.min(Math.max(seen.height, 80), 4000), deviceScaleFactor: 1 });
    await sleep(200);
    await page.screenshot({ path: one.picture });
  }
  check('nothing was requested', seen.requests.length === 0, seen.requests);
  check('only files are read by the view', seen.calls.every((call) => call.name === 'read_file'), seen.calls);
  check('the view did nothing else', !seen.notes.some(([kind]) => kind === 'did' || kind === 'error'), seen.notes.filter(([kind]) => kind === 'did' || kind === 'error'));
  if (one.hostile) {
    seen.sink = { ...sink };
    const leaks = one.leaks ?? [];
    check('no TCP', sink.tcp === 0 || (leaks.includes('preconnect') && sink.lines.length === 0), sink);
    check('no UDP', sink.udp === 0 || leaks.includes('webrtc'), sink.udp);
    check('nothing is forged', !/^FORGED$/m.test(found?.text ?? ''));
  } else {
    const errors = seen.console.filter(([type, text]) => type === 'error' && !/favicon/.test(text));
    check('no error, no violation of the policy', errors.length === 0, errors);
  }
  check('teardown has a response', await Promise.race([page.evaluate(() => window.bridge.teardownResource({}).then(() => true)), sleep(5000)]));
  await page.close();
  proxy.close();
  own.close();
  await client.close();
  return seen;
}

const held = [];
for (const one of cases) {
  let seen;
  try {
    seen = await play(one);
  } catch (error) {
    seen = { name: one.name, failed: [String(error.stack).slice(0, 600)] };
  }
  if (one.payloads) held.push(seen);
  else console.log(JSON.stringify(seen));
}
await browser.close(); // the log is whole
const reached = new Set(readFileSync(netLog, 'latin1').match(/p\w+\.[\w-]+\.localhost/g));
rmSync(logDirectory, { recursive: true });
for (const seen of held) {
  seen.reached = [...reached].filter((name) => name.endsWith(`.${seen.name}.localhost`)).map((name) => name.slice(1).split('.')[0]);
  await new Promise((written) => process.stdout.write(JSON.stringify(seen) + '\n', written));
}
process.exit(0);
