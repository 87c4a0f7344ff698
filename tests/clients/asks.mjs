// A tool server of the official SDK that asks the user as MCP 2026-07-28 has it:  node asks.mjs
import { McpServer, inputRequired, acceptedContent } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const schema = { type: 'object', properties: { sure: { type: 'boolean' } }, required: ['sure'] };

serveStdio(() => {
  const server = new McpServer({ name: 'asks', version: '1' }, { capabilities: { tools: {} } });
  server.registerTool('deploy', {}, async ({ mcpReq }) => {
    if (mcpReq.requestState() !== 'asked') {
      const sure = inputRequired.elicit({ message: 'Deploy?', requestedSchema: schema });
      return inputRequired({ inputRequests: { sure }, requestState: 'asked' });
    }
    const given = acceptedContent(mcpReq.inputResponses, 'sure');
    return { content: [{ type: 'text', text: given ? `deployed: ${given.sure}` : 'not deployed' }] };
  });
  return server;
});
