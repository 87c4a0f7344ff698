// The two pages of a client with MCP Apps, and the policy for the page that it shows.
// Source: ext-apps specification/2026-01-26/apps.mdx, "Sandbox proxy" and "Content Security Policy".

const STRICT = [
  "default-src 'none'", "script-src 'self' 'unsafe-inline'", "style-src 'self' 'unsafe-inline'", "connect-src 'none'",
  "img-src 'self' data:", "font-src 'self'", "media-src 'self' data:", "frame-src 'none'", "object-src 'none'",
  "base-uri 'self'", "form-action 'none'",
].join('; ');

const LOOSE = [
  "default-src 'self' 'unsafe-inline'", "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob: data:",
  "style-src 'self' 'unsafe-inline' blob: data:", "img-src 'self' data: blob:", "font-src 'self' data: blob:",
  "connect-src 'self'", "worker-src 'self' blob:", "frame-src 'self' blob: data:", "object-src 'none'",
  "base-uri 'self'", "form-action 'self'",
].join('; ');

// What clients do differently; docs/VIEW.md has the sources.
export const PROFILES = {
  spec: {},
  opaque: { opaque: true }, // the page has no origin
  claude: { loose: true, variables: true },
  desktop: { loose: true, variables: true, strips: true, reads: false }, // content and isError only
  goose: { capabilities: {} }, // no calls by the page
  bare: { capabilities: {}, strips: true, noContext: true },
  reload: { emptied: true }, // a chat that was opened again
  fixed: { height: 400 },
};

export const policyOf = (profile) => (profile.loose ? LOOSE : STRICT);

// Between the client's page and the view: another origin, which passes messages on.
export const proxyPage = (profile) => `<!doctype html><meta charset="utf-8">
<style>html,body,iframe{margin:0;width:100%;height:100%;border:0;display:block}html,body{overflow:hidden}</style><body><script>
const hostOrigin = new URL(document.referrer).origin, opaque = ${Boolean(profile.opaque)};
const inner = document.createElement('iframe');
inner.setAttribute('sandbox', opaque ? 'allow-scripts' : 'allow-scripts allow-same-origin allow-forms');
document.body.append(inner);
const meta = '<meta http-equiv="Content-Security-Policy" content="' + ${JSON.stringify(policyOf(profile))} + '">';
addEventListener('message', (event) => {
  if (event.source === parent && event.origin === hostOrigin) {
    if (event.data?.method !== 'ui/notifications/sandbox-resource-ready') {
      inner.contentWindow.postMessage(event.data, '*');
    } else if (opaque) {
      inner.srcdoc = event.data.params.html.replace(/<head[^>]*>/i, (head) => head + meta);
    } else {
      const inside = inner.contentDocument;
      inside.open();
      inside.write(event.data.params.html);
      inside.close();
    }
  } else if (event.source === inner.contentWindow) parent.postMessage(event.data, hostOrigin);
});
parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/sandbox-proxy-ready', params: {} }, hostOrigin);
</script>`;

// The client's own page, with the official AppBridge.
export const hostPage = (profile, theme, width, proxyPort) => `<!doctype html><meta charset="utf-8">
<style>html{color-scheme:${theme}}body{margin:0;background:${theme === 'dark' ? '#191b1e' : '#fff'}}
#frame{border:0;display:block;width:${width}px;height:${profile.height ?? 150}px}</style>
<iframe id="frame" sandbox="allow-scripts allow-same-origin allow-forms"></iframe><script type="module">
import { AppBridge, PostMessageTransport } from '/bridge.js';
const frame = document.getElementById('frame');
window.start = ({ capabilities, context, html }) => new Promise((resolve, reject) => {
  const bridge = window.bridge = new AppBridge(null, { name: 'view-host', version: '1' }, capabilities, { hostContext: context });
  bridge.oncalltool = async (params) => {
    const answer = await hostCall(params);
    if (answer.error) throw Error(answer.error);
    return answer.result;
  };
  bridge.onmessage = async () => { hostNote('did', 'ui/message'); return {}; };
  bridge.onopenlink = async () => { hostNote('did', 'ui/open-link'); return {}; };
  bridge.onupdatemodelcontext = async () => { hostNote('did', 'ui/update-model-context'); return {}; };
  bridge.onrequestdisplaymode = async () => ({ mode: 'inline' });
  bridge.onerror = (error) => hostNote('error', String(error?.message ?? error));
  bridge.onsizechange = (size) => {
    hostNote('size', size);
    if (size.height != null && !${profile.height ?? 0}) frame.style.height = Math.min(size.height, 5000) + 'px';
  };
  bridge.oninitialized = () => resolve();
  bridge.onsandboxready = () => bridge.sendSandboxResourceReady({ html });
  const transport = new PostMessageTransport(frame.contentWindow, frame.contentWindow);
  bridge.connect(transport).then(() => {
    const onmessage = transport.onmessage;
    transport.onmessage = (message, extra) => {
      if (message.method) hostNote('view', message.method);
      onmessage(message, extra);
    };
    frame.src = 'http://localhost:${proxyPort}/';
    setTimeout(() => reject(Error('the view did not initialize within 20 s')), 20000);
  }, reject);
});
window.loaded = true;
</script>`;
