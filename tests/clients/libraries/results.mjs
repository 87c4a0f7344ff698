// Converts a CallToolResult for smoke.mjs.
export const resultOf = result => ({
  text: result.content.map(block => block.text ?? '').join(''),
  images: result.content.filter(block => block.type === 'image').map(block => block.mimeType),
  isError: result.isError === true,
});

export async function codeOf(promise) {
  try { await promise; } catch (error) { return error.code; }
  return undefined;
}
