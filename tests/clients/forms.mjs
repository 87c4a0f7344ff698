// Checks with the vendors' own code that they accept the output of `sandpiper schema --format`. Prints a line per
// error.
//   node forms.mjs SERVER
// Their SDKs convert any schema to strict mode; a schema that the conversion leaves unchanged is strict already.
import { execFileSync } from 'node:child_process';
import { isDeepStrictEqual } from 'node:util';
import { toStrictJsonSchema } from 'openai/lib/transform';
import { transformJSONSchema } from '@anthropic-ai/sdk/lib/transform-json-schema';

const server = process.argv[2];
const declared = (...args) => JSON.parse(execFileSync(server, ['schema', '--format', ...args]));
const complain = (tool, text) => console.log(`${tool}: ${text}`);

function fixed(tool, transform, schema, expected = schema) {
  try {
    if (!isDeepStrictEqual(transform(schema), expected)) complain(tool, `${transform.name} changes the schema`);
  } catch (error) {
    complain(tool, error.message);
  }
}

const chat = declared('openai-chat', '--strict').map(tool => tool.function);
for (const tool of [...chat, ...declared('openai-responses', '--strict')]) {
  if (tool.strict !== true) complain(tool.name, 'is not marked as strict');
  if ([...tool.description].length > 1024) complain(tool.name, 'has too long a description');
  fixed(tool.name, toStrictJsonSchema, tool.parameters);
}

let optional = 0;
for (const tool of declared('anthropic', '--strict')) {
  const expected = structuredClone(tool.input_schema); // without the type of an enumeration, which its values imply
  for (const property of Object.values(expected.properties)) if (property.enum) delete property.type;
  fixed(tool.name, transformJSONSchema, tool.input_schema, expected);
  optional += Object.keys(expected.properties).length - (expected.required ?? []).length;
}
if (optional > 24) complain('anthropic', `${optional} optional parameters in a request, more than 24`);

for (const tools of [chat, declared('anthropic'), declared('gemini').functionDeclarations]) {
  for (const { name } of tools) if (!/^[A-Za-z_][A-Za-z0-9_-]{0,62}$/.test(name)) complain(name, 'is no name for all');
}
