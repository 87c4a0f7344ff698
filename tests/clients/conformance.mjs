// Lets the official conformance suite, which speaks Streamable HTTP only, check a server on stdio.
//   node conformance.mjs [--one] SERVER ARG...      prints its URL, serves until it is killed
// Messages pass unchanged; a gateway that serves through an SDK would let the suite check that SDK. Each session
// (initialize) has a server of its own, and so has each request of 2026-07-28, which depends on no other; with --one
// they share one, for tasks. Of HTTP it has only what the suite needs: status codes, sessions, event streams; a stream
// that the client closes cancels its request.
import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import http from 'node:http';
import readline from 'node:readline';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const SUBSCRIPTION = 'io.modelcontextprotocol/subscriptionId';
const STATUS = new Map([[-32601, 404], [-32602, 400], [-32600, 400], [-32700, 400], [-32021, 400], [-32022, 400]]);
const one = process.argv[2] === '--one';
const [command, ...args] = process.argv.slice(one ? 3 : 2);
const servers = new Set();
const sessions = new Map();

class Server {
  constructor() {
    this.process = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.waiting = new Map(); // request id: handler of its messages
    servers.add(this);
    this.process.on('exit', () => servers.delete(this));
    readline.createInterface({ input: this.process.stdout }).on('line', line => this.receive(JSON.parse(line)));
  }

  say(message) {
    this.process.stdin.write(`${JSON.stringify(message)}\n`);
  }

  ask(message, handler) {
    this.waiting.set(message.id, { handler, token: message.params?._meta?.progressToken });
    this.say(message);
  }

  drop(id) {
    if (this.waiting.delete(id))
      this.say({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } });
  }

  receive(message) {
    const { params } = message;
    let id = message.method === undefined ? message.id : params?._meta?.[SUBSCRIPTION];
    for (const [asked, { token }] of this.waiting)
      if (id === undefined && token !== undefined && token === params?.progressToken)
        id = asked;
    id ??= [...this.waiting.keys()].at(-1); // a request of the server's belongs to no stream: use any
    const { handler } = this.waiting.get(id) ?? {};
    if (message.method === undefined)
      this.waiting.delete(id);
    handler?.(message);
  }

  end() {
    this.process.stdin.end();
  }
}

// One is always started ahead, because the suite waits only 0.8 s for some responses.
let spare = new Server();

function newServer() {
  if (one)
    return spare;
  const ready = spare;
  spare = new Server();
  return ready;
}

async function read(request) {
  const chunks = [];
  for await (const chunk of request)
    chunks.push(chunk);
  return Buffer.concat(chunks).toString('utf8');
}

function send(response, status, message, headers = {}) {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(message && JSON.stringify(message));
}

const event = message => `data: ${JSON.stringify(message)}\n\n`;

// Passes a request on and returns its response: as JSON, or as events when another message precedes the response.
function exchange(server, message, response, { headers = {}, modern }) {
  server.ask(message, received => {
    const last = received.method === undefined;
    if (last && !response.headersSent) {
      send(response, modern && received.error ? STATUS.get(received.error.code) ?? 200 : 200, received, headers);
    } else {
      if (!response.headersSent)
        response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      response.write(event(received));
      if (last)
        response.end();
    }
  });
  response.on('close', () => {
    server.drop(message.id);
    if (modern && !one)
      server.end();
  });
}

async function serve(request, response) {
  const key = request.headers['mcp-session-id'];
  const session = sessions.get(key);
  if (request.method === 'DELETE' && session) {
    session.end();
    sessions.delete(key);
    return send(response, 200);
  }
  if (request.method !== 'POST')
    return send(response, 405, undefined, { allow: 'POST' });
  const message = JSON.parse(await read(request));
  const modern = message.params?._meta?.[VERSION] !== undefined ||
    request.headers['mcp-protocol-version'] >= '2026-07-28';
  if (!modern && key && !session)
    return send(response, 404, { jsonrpc: '2.0', id: message.id, error: { code: -32001, message: 'No such session' } });
  const server = session ?? newServer();
  const headers = {};
  if (!modern && message.method === 'initialize') {
    headers['mcp-session-id'] = randomUUID();
    sessions.set(headers['mcp-session-id'], server);
  }
  if (message.id !== undefined && message.method)
    return exchange(server, message, response, { headers, modern: modern || !session && message.method !== 'initialize' });
  server.say(message);
  if (!session && !one)
    server.end();
  return send(response, 202);
}

const listener = http.createServer((request, response) => serve(request, response).catch(error => {
  console.error(error);
  send(response, 500);
}));
listener.listen(0, '127.0.0.1', () => console.log(`http://localhost:${listener.address().port}/mcp`));
process.stdin.resume().on('end', () => {
  listener.close();
  listener.closeAllConnections();
  for (const server of servers)
    server.end();
});
