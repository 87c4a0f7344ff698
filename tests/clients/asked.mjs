// Elicitations in the middle of a cell, with the official clients. Prints one JSON line per cell.
//   node asked.mjs v1|legacy|modern SERVER ARG...
const [kind, command, ...args] = process.argv.slice(2);
const v1 = kind === 'v1';
const { Client } = await import(v1 ? '@modelcontextprotocol/sdk/client/index.js' : '@modelcontextprotocol/client');
const { StdioClientTransport } = await import(
  v1 ? '@modelcontextprotocol/sdk/client/stdio.js' : '@modelcontextprotocol/client/stdio');
const method = v1 ? (await import('@modelcontextprotocol/sdk/types.js')).ElicitRequestSchema : 'elicitation/create';

const client = new Client({ name: 'sandpiper-tests', version: '1' }, {
  capabilities: { elicitation: { form: { applyDefaults: true } } },
  ...(!v1 && { versionNegotiation: { mode: kind === 'modern' ? { pin: '2026-07-28' } : 'legacy' } }),
});
client.onerror = error => console.log(JSON.stringify({ error: String(error.message) }));
let asked = [];
client.setRequestHandler(method, ({ params }) => {
  asked.push(params.message);
  const { properties } = params.requestedSchema;
  return params.message.includes('"b"') ? { action: 'decline' }
    : { action: 'accept', content: 'name' in properties ? { name: 'Ada', check: true } : {} };
});
await client.connect(new StdioClientTransport({ command, args, stderr: 'ignore' }));
for (const code of JSON.parse(await new Response(process.stdin).text())) {
  asked = [];
  const params = { name: 'run_python', arguments: { code } };
  const { content } = await (v1 ? client.callTool(params, undefined) : client.callTool(params));
  console.log(JSON.stringify({ asked, text: content.map(block => block.text).join('') }));
}
await client.close();
