// Claude and a Sandpiper server, joined by the two official SDKs.
//
//   node bridge.ts MODEL QUESTION       Node.js 22.18 or newer runs TypeScript as it is
//
// The key comes from ANTHROPIC_API_KEY; ANTHROPIC_BASE_URL names another server; SANDPIPER names the program.
// One server runs for the whole conversation, so variables and files stay from call to call.
import Anthropic from '@anthropic-ai/sdk';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { CallToolResultSchema, type CallToolResult } from '@modelcontextprotocol/sdk/types.js';

const TURNS = 20; // most turns of the model
const CALL_MS = 3_630_000; // longer than the longest call that the server allows

type ResultContent = Exclude<Anthropic.ToolResultBlockParam['content'], string | undefined>[number];
type MediaType = Anthropic.Base64ImageSource['media_type'];

/** What the server answered, as Claude wants it: the blocks of both are almost the same. */
function toBlocks(result: CallToolResult): ResultContent[] {
  return result.content.flatMap((block): ResultContent[] => {
    if (block.type === 'text') return block.text ? [{ type: 'text', text: block.text }] : [];
    if (block.type !== 'image') return [];
    const source = { type: 'base64' as const, media_type: block.mimeType as MediaType, data: block.data };
    return [{ type: 'image', source }];
  });
}

async function call(sandbox: Client, use: Anthropic.ToolUseBlock): Promise<Anthropic.ToolResultBlockParam> {
  const params = { name: use.name, arguments: use.input as Record<string, unknown> };
  try {
    const result = await sandbox.callTool(params, CallToolResultSchema, { timeout: CALL_MS }) as CallToolResult;
    return { type: 'tool_result', tool_use_id: use.id, content: toBlocks(result), is_error: result.isError ?? false };
  } catch (error) { // the model gets the error and corrects the call
    return { type: 'tool_result', tool_use_id: use.id, content: String(error), is_error: true };
  }
}

/** Asks, calls what the model wants called, asks again. Returns the model's last words. */
async function run(sandbox: Client, model: string, question: string): Promise<string> {
  const anthropic = new Anthropic();
  const { tools } = await sandbox.listTools();
  const messages: Anthropic.MessageParam[] = [{ role: 'user', content: question }];
  for (let turn = 0; turn < TURNS; turn++) {
    const answer = await anthropic.messages.create({
      model,
      max_tokens: 8192,
      system: sandbox.getInstructions() ?? '',
      tools: tools.map(tool => ({
        name: tool.name,
        description: tool.description ?? '',
        input_schema: tool.inputSchema as Anthropic.Tool.InputSchema,
      })),
      messages,
    });
    messages.push({ role: 'assistant', content: answer.content });
    const uses = answer.content.filter(block => block.type === 'tool_use');
    if (uses.length === 0) {
      return answer.content.map(block => block.type === 'text' ? block.text : '').join('');
    }
    const results: Anthropic.ToolResultBlockParam[] = [];
    for (const use of uses) { // one after the other: they may build on each other
      console.error(`[${use.name}]`);
      results.push(await call(sandbox, use));
    }
    messages.push({ role: 'user', content: results });
  }
  throw new Error(`no end after ${TURNS} turns`);
}

const [model, question] = process.argv.slice(2);
if (!model || !question) {
  console.error('usage: node bridge.ts MODEL QUESTION');
  process.exit(2);
}
const sandbox = new Client({ name: 'bridge', version: '1.0.0' });
await sandbox.connect(new StdioClientTransport({ command: process.env.SANDPIPER ?? 'sandpiper', stderr: 'inherit' }));
try {
  console.log(await run(sandbox, model, question));
} finally {
  await sandbox.close(); // ends the server, and everything in the sandbox with it
}
