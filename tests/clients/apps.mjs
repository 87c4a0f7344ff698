// MCPJam's static checks of what a server declares for MCP Apps:  node apps.mjs SERVER ARG...
// Prints a line of JSON for each check. DO_NOT_TRACK=1 keeps the package from its makers' servers.
import { MCPAppsConformanceTest } from '@mcpjam/sdk';

const [command, ...args] = process.argv.slice(2);
const { checks } = await new MCPAppsConformanceTest({ command, args, timeout: 60000 }).run();
for (const { id, status, error, warnings } of checks) {
  console.log(JSON.stringify({ id, status, error: error?.message, warnings }));
}
process.exit(0);
