// @langchain/mcp-adapters: tools as LangChain's agents call them. It throws on an error.
import { MultiServerMCPClient } from '@langchain/mcp-adapters';

const typeOf = block => block.mime_type ?? block.mimeType ?? /^data:([^;]*)/.exec(block.image_url?.url)?.[1];

export async function connect(mode, command, args) {
  const client = new MultiServerMCPClient({
    mcpServers: { sandpiper: { transport: 'stdio', command, args, stderr: 'ignore' } } });
  const tools = new Map((await client.getTools()).map(tool => [tool.name, tool]));
  return {
    complaints: [],
    tools: async () => [...tools.keys()],
    call: async (name, given, signal) => {
      try {
        const shown = await tools.get(name).invoke(given, { signal });
        const blocks = typeof shown === 'string' ? [{ type: 'text', text: shown }] : shown;
        return {
          text: blocks.map(block => block.text ?? '').join(''),
          images: blocks.filter(block => block.type !== 'text').map(typeOf),
          isError: false,
        };
      } catch (error) {
        if (signal?.aborted) throw error;
        return { text: String(error.message), images: [], isError: true };
      }
    },
    close: () => client.close(),
  };
}
