"use strict";
/* Shows the result of one tool call. All data may have been written by hostile code: it becomes text nodes and
   nothing else, except in frames that have no rights. What happens on the wire: MCP Apps 2026-01-26. */
(() => {
  const host = window.parent;
  const root = document.documentElement;
  const main = document.getElementById("view");
  const spoken = document.getElementById("spoken"); /* stays: what is new in the page with its text is not read out */
  const mayAsk = root.dataset.scripts === "ask";
  const LINES = 24, LINES_KEPT = 18, ROWS = 10, ROWS_MORE = 50, CODE_MAX = 50000, DIFF_OPEN = 120, DIFF_LINES = 200, PARTS_AT_ONCE = 5;

  /* ---- elements ---- */

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }

  const button = (name, text, onclick) => make("button", { type: "button", class: name, onclick }, text);

  /* Controls, and characters that are invisible or turn the direction of a line: shown by number. */
  const ODD = /[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]/gu;

  function put(element, text) {
    let at = 0;
    for (const odd of text.matchAll(ODD)) {
      const number = odd[0].codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
      element.append(text.slice(at, odd.index), make("span", { class: "odd" }, "U+" + number));
      at = odd.index + odd[0].length;
    }
    element.append(text.slice(at));
    return element;
  }

  const string = (value) => (typeof value === "string" ? value : "");
  const list = (value) => (Array.isArray(value) ? value : []);
  const plural = (count, word) => count.toLocaleString("en") + " " + word + (count === 1 ? "" : "s");

  /* ---- what the client sends and gets ---- */

  const waiting = new Map(), frames = new Map(), context = {};
  let last = 0, capabilities = {}, ready = false, height = 0, input = null, result = null;

  const post = (message) => host.postMessage({ jsonrpc: "2.0", ...message }, "*");

  function ask(method, params) {
    return new Promise((resolve, reject) => {
      const id = ++last;
      const timer = setTimeout(() => { waiting.delete(id); reject(Error("no answer")); }, 30000);
      waiting.set(id, (message) => {
        clearTimeout(timer);
        if (message.error) reject(Error(string(message.error.message) || "refused"));
        else resolve(message.result || {});
      });
      post({ id, method, params });
    });
  }

  /* Some clients measure the document, others wait for this. */
  function fit() {
    requestAnimationFrame(() => {
      const now = Math.ceil(main.getBoundingClientRect().bottom);
      if (ready && now !== height) {
        height = now;
        post({ method: "ui/notifications/size-changed", params: { width: innerWidth, height } });
      }
    });
  }

  function answer(message) {
    const known = message.method === "ping" || message.method === "ui/resource-teardown";
    post(known ? { id: message.id, result: {} } : { id: message.id, error: { code: -32601, message: "Method not found" } });
  }

  const notices = {
    "ui/notifications/tool-input": (params) => { input = params.arguments || null; draw(); },
    "ui/notifications/tool-result": (params) => { result = params; draw(); },
    "ui/notifications/tool-cancelled": (params) => {
      result = { content: [{ type: "text", text: "[cancelled" + (params.reason ? ": " + string(params.reason) : "") + "]" }] };
      draw();
    },
    "ui/notifications/host-context-changed": (params) => take(params),
  };

  addEventListener("message", (event) => {
    const message = event.data;
    const frame = frames.get(event.source);
    if (frame && message && Number.isFinite(message.height)) { /* all that a nested frame may say */
      frame.style.height = Math.min(Math.max(message.height, 24), 1600) + "px";
    }
    if (event.source !== host || !message || message.jsonrpc !== "2.0") return;
    if (message.method === undefined) {
      const resolve = waiting.get(message.id);
      waiting.delete(message.id);
      if (resolve) resolve(message);
    } else if (message.id !== undefined) answer(message);
    else if (Object.hasOwn(notices, message.method)) notices[message.method](message.params || {});
  });

  function take(changes) {
    Object.assign(context, changes);
    if (changes.theme) root.dataset.theme = changes.theme === "dark" ? "dark" : "light";
    for (const [name, value] of Object.entries((changes.styles && changes.styles.variables) || {})) {
      if (/^--[a-z0-9-]+$/.test(name) && typeof value === "string") root.style.setProperty(name, value);
    }
    fit();
  }

  /* The server's data: only by a tool that reads, so that no user is asked for an approval. */
  async function read(path) {
    if (!capabilities.serverTools) throw Error("this app does not pass on what it needs");
    const got = await ask("tools/call", { name: "read_file", arguments: { path } });
    const text = string(list(got.content)[0] && got.content[0].text);
    if (got.isError) throw Error(text);
    return text;
  }

  /* ---- text ---- */

  /* Where the button is gone that had the focus. */
  function focusOn(element) {
    if (!element.hasAttribute("tabindex") && element.localName !== "summary") element.tabIndex = -1;
    element.focus({ preventScroll: true });
  }

  function showAll(lines, kept, element, add) {
    const more = button("more", "Show " + plural(lines.length - kept, "more line"), () => {
      add();
      more.remove();
      focusOn(element);
      fit();
    });
    return more;
  }

  function long(name, text) {
    const lines = text.split("\n");
    const pre = make("pre", { class: name });
    if (lines.length <= LINES) return put(pre, text);
    put(pre, lines.slice(0, LINES_KEPT).join("\n"));
    return make("div", {}, pre, showAll(lines, LINES_KEPT, pre, () => put(pre, "\n" + lines.slice(LINES_KEPT).join("\n"))));
  }

  const TOKEN = new RegExp([
    "(#.*)",
    "([rbfuRBFU]{0,2}(?:\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?))",
    "\\b(\\d[\\w.]*)",
    "\\b(False|None|True|and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from" +
      "|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield)\\b",
  ].join("|"), "g");

  function highlight(source) {
    const pre = make("pre", { class: "code" });
    const text = source.slice(0, CODE_MAX);
    let at = 0;
    for (const token of text.matchAll(TOKEN)) {
      put(pre, text.slice(at, token.index));
      pre.append(put(make("span", { class: token[1] ? "c" : token[2] ? "s" : token[3] ? "n" : "k" }), token[0]));
      at = token.index + token[0].length;
    }
    return put(pre, text.slice(at) + (source.length > CODE_MAX ? "\n… " + plural(source.length - CODE_MAX, "character") + " more" : ""));
  }

  /* ---- tables ---- */

  const isNumber = (value) => typeof value === "number";
  const isNone = (value) => value === null || value === undefined;

  const MIDNIGHT = /^\d{4}-\d\d-\d\d 00:00:00$/;

  /* How the values of a column are written: numbers with as many decimals as the one that needs most. */
  function writer(values) {
    const given = values.filter((value) => !isNone(value));
    const numeric = given.length > 0 && given.every(isNumber);
    if (!numeric && given.every((value) => MIDNIGHT.test(value))) return { write: (value) => String(value).slice(0, 10) };
    if (!numeric) return { write: (value) => isNumber(value) ? String(+value.toPrecision(7)) : String(value).slice(0, 500) };
    const decimals = Math.max(...given.map((value) => (String(+value.toPrecision(6)).split(".")[1] || "").length));
    const plain = decimals <= 6 && given.every((value) => Math.abs(value) < 1e15);
    return { numeric, write: (value) => plain ? value.toFixed(decimals) : String(+value.toPrecision(7)) };
  }

  function cell(tag, scope, value, column) {
    if (isNone(value)) return make(tag, { scope, class: column.numeric ? "none number" : "none" }, "–");
    const text = column.write(value);
    return put(make(tag, { scope, class: column.numeric && "number", title: isNumber(value) && text !== String(value) && String(value) }), text);
  }

  function compare(a, b) {
    if (isNumber(a) && isNumber(b)) return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  }

  function table(part) {
    const names = list(part.cols).map(String), rows = list(part.rows).map(list), total = list(part.total).map(Number);
    const columns = names.map((_, at) => writer(rows.map((row) => row[at])));
    let shown = ROWS, sorted = -1, order = 1, sequence = rows;

    const heads = names.map((name, at) => make("th", { scope: "col", "aria-sort": "none", class: columns[at].numeric && "number" },
      put(button("sort", "", () => sort(at)), name || "index")));
    const body = make("tbody");
    const note = make("span", { role: "status" });
    const more = button("more", "More rows", () => {
      shown += ROWS_MORE;
      fill();
      if (more.hidden) focusOn(scroll);
    });

    function sort(at) {
      order = sorted === at ? -order : 1;
      sorted = at;
      heads.forEach((head, other) => head.setAttribute("aria-sort", other !== at ? "none" : order > 0 ? "ascending" : "descending"));
      const none = rows.filter((row) => isNone(row[at]));
      sequence = rows.filter((row) => !isNone(row[at])).sort((a, b) => order * compare(a[at], b[at])).concat(none);
      fill();
    }

    function fill() {
      const count = Math.min(shown, rows.length);
      body.replaceChildren(...sequence.slice(0, count).map((row) => make("tr", {}, ...names.map((_, at) =>
        cell(at < part.index ? "th" : "td", at < part.index && "row", row[at], columns[at])))));
      more.hidden = count === rows.length;
      const all = (Number.isFinite(total[0]) ? total[0] : rows.length);
      const cut = total[1] + (part.index || 0) > names.length ? ", " + names.length + " of " + plural(total[1], "column") : "";
      note.textContent = (count < all ? count.toLocaleString("en") + " of " : "") + plural(all, "row") + cut +
        (all > rows.length ? ". Sorting is among the first " + rows.length.toLocaleString("en") + "." : "");
      fit();
    }

    const scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Table" },
      make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body));
    fill();
    return make("div", {}, scroll, make("div", { class: "row" }, note, more));
  }

  /* ---- HTML, in frames without rights ---- */

  const STILL = "default-src 'none';style-src 'unsafe-inline';img-src data:;font-src data:";
  const ALIVE = "default-src 'none';script-src 'unsafe-inline' 'unsafe-eval';style-src 'unsafe-inline';img-src data: blob:;" +
    "font-src data:;media-src data:;form-action 'none';base-uri 'none'";
  /* Says the height, which a frame of another origin cannot be asked for. */
  const SAYS_HEIGHT = "<script>(()=>{const e=document.documentElement,f=()=>parent.postMessage({height:Math.ceil(" +
    "e.getBoundingClientRect().height)},'*');new ResizeObserver(f).observe(e);f()})()</" + "script>";

  const page = (policy, body) => "<!doctype html><html><head><meta charset='utf-8'><meta http-equiv='Content-Security-Policy' content=\"" +
    policy + "\"><style>html{height:max-content}body{margin:0;font:14px system-ui,sans-serif}</style></head><body>" + body + "</body></html>";

  /* The text that a parser reads as these very nodes, if need be without what it would move. */
  function written(nodes) {
    for (let tries = 0; tries < 4; tries++) {
      const text = nodes.innerHTML;
      [nodes] = clean("<!doctype html><body>" + text);
      if (text === nodes.innerHTML) return text;
    }
    throw Error("not the same when it is parsed again");
  }

  function still(source) {
    const [nodes, css] = clean(source);
    const frame = make("iframe", { sandbox: "allow-same-origin", title: "HTML output", tabindex: "-1", referrerpolicy: "no-referrer" });
    const style = "<style>" + css + "</style>"; /* in which there is no "<" */
    if (origin === "null") { /* no nodes can be given to a frame of another origin, nor can its height be read */
      frame.srcdoc = page(STILL, style + written(nodes));
      const lines = nodes.querySelectorAll("tr,p,li,h1,h2,h3,h4,h5,h6,br,hr,pre,div").length + nodes.textContent.split("\n").length / 4;
      frame.style.height = Math.min(Math.max(Math.ceil(24 * lines), 72), 720) + "px";
      return frame;
    }
    frame.addEventListener("load", () => {
      const inside = frame.contentDocument;
      inside.body.append(...inside.importNode(nodes, true).childNodes);
      new ResizeObserver(() => {
        frame.style.height = Math.min(Math.max(Math.ceil(inside.documentElement.getBoundingClientRect().height), 24), 1600) + "px";
        fit();
      }).observe(inside.documentElement);
    });
    frame.srcdoc = page(STILL, style);
    return frame;
  }

  function alive(title, body) {
    const frame = make("iframe", { sandbox: "allow-scripts", title, referrerpolicy: "no-referrer" });
    frame.srcdoc = page(ALIVE, body + SAYS_HEIGHT);
    frame.addEventListener("load", fit);
    new ResizeObserver(fit).observe(frame);
    queueMicrotask(() => frame.contentWindow && frames.set(frame.contentWindow, frame));
    return frame;
  }

  function html(part) {
    const source = string(part.s);
    const frame = make("div", { class: "frame" }, still(source));
    const hasScripts = /<script|\son[a-z]+\s*=|javascript:/i.test(source);
    if (!hasScripts) return frame;
    if (!mayAsk) return make("div", {}, frame, make("div", { class: "row" }, "Its scripts do not run here."));
    const press = button("press", "Run its scripts", () => {
      const runs = press.textContent.startsWith("Run");
      frame.replaceChildren(runs ? alive("HTML output, with scripts", source) : still(source));
      press.textContent = runs ? "Stop its scripts" : "Run its scripts";
      fit();
    });
    return make("div", {}, frame, make("div", { class: "row" }, press, "They see only their own output, but may reach the network."));
  }

  let library = null;

  async function loadLibrary(path) {
    let script = "";
    for (let part = 0, more = " "; more; part++) {
      more = await read("sandpiper://lib" + path + "?part=" + part);
      script += more;
    }
    return script;
  }

  function plotly(part) {
    const box = make("div", { class: "box" });
    if (!mayAsk || !capabilities.serverTools) {
      box.append(make("p", { class: "dim" }, !mayAsk ? "Interactive plots do not run here (--ui static)."
        : "An interactive plot, which this app does not pass on the parts of."));
      return box;
    }
    const press = button("press", "Show the interactive plot", async () => {
      box.replaceChildren(make("p", { class: "dim wait" }, "Loading the plot"));
      spoken.textContent = "Loading the plot";
      focusOn(box);
      fit();
      try {
        library = library || loadLibrary(string(part.lib));
        const script = (await library).replace(/<\/script/gi, "<\\/script");
        const figure = JSON.stringify(part.fig).replace(/</g, "\\u003c");
        box.replaceChildren(alive("Interactive plot", "<div id='p' style='height:360px'></div><script>" + script +
          "</" + "script><script>{const f=" + figure + ";Plotly.newPlot('p',f.data||[],f.layout||{},{responsive:true,displaylogo:false})}</" + "script>"));
        box.className = "frame";
      } catch (error) {
        library = null;
        box.replaceChildren(put(make("p"), "The interactive plot cannot be shown: " + error.message));
      }
      fit();
    });
    box.append(make("div", { class: "row" }, press));
    return box;
  }

  /* ---- a run of code ---- */

  const IMAGE_TYPES = /^image\/(png|jpeg|gif|webp)$/;

  function figure(block, number, count, path) {
    const name = path ? path.split("/").pop() : "";
    const title = "Figure" + (count > 1 ? " " + number + " of " + count : "") + (name ? ": " + name : "");
    return make("figure", {},
      make("img", { src: "data:" + block.mimeType + ";base64," + block.data, alt: title, onload: fit }),
      put(make("figcaption"), title));
  }

  const kinds = { table, html, plotly };

  /* The output, with what code has shown in the places where its texts stand. */
  function flow(text, shown, figures) {
    const parts = [];
    const places = [];
    let from = 0;
    for (const one of shown) {
      const at = one.as ? text.indexOf(one.as.trimEnd(), from) : -1;
      if (at < 0) continue;
      from = at + one.as.trimEnd().length;
      places.push({ at, end: from, one });
    }
    figures.forEach((one) => {
      const line = "[image: " + one.path + "]";
      const at = one.path ? text.indexOf(line) : -1;
      if (at >= 0 && !places.some((place) => at < place.end && at + line.length > place.at)) places.push({ at, end: at + line.length, one });
    });
    let done = 0;
    for (const { at, end, one } of places.sort((a, b) => a.at - b.at)) {
      if (text.slice(done, at).trim()) parts.push(long("", text.slice(done, at).replace(/\n$/, "")));
      parts.push(one.draw());
      one.placed = true;
      done = text[end] === "\n" ? end + 1 : end;
    }
    if (text.slice(done).trim()) parts.push(long("", text.slice(done).replace(/\n$/, "")));
    return parts;
  }

  function traceback(error) {
    const text = string(error.traceback).trimEnd();
    const at = text.lastIndexOf("\n") + 1;
    const title = string(error.type) ? error.type + (string(error.message) ? ": " + error.message : "") : text.slice(at);
    const rest = text.endsWith(title) ? text.slice(0, text.length - title.length).trimEnd() : text;
    return make("div", { class: "trace", role: "group", "aria-label": "Error" },
      put(make("strong"), title), rest ? long("", rest) : null);
  }

  function labelled(label, element) {
    return make("div", { class: "value" }, make("span", { class: "label" }, label), element);
  }

  /* "[ok 3 ms | vars: +x]" → ["ok 3 ms", "vars: +x"] */
  const segments = (status) => string(status).trim().replace(/^\[|\]$/g, "").split(" | ");

  function size(bytes) {
    const units = ["B", "kB", "MB", "GB"];
    let unit = 0;
    for (; bytes >= 999.5 && unit < 3; unit++) bytes /= 1000;
    return (unit && bytes < 9.95 ? bytes.toFixed(1) : Math.round(bytes)) + " " + units[unit];
  }

  function names(label, items) {
    return items.length ? make("div", {}, label, ...items) : null;
  }

  const SIGNS = { created: "+", changed: "~", removed: "−" };

  function foot(data, rest) {
    const variables = list(data.variables).map((text) => {
      const [, name, kind] = /^(\S+) ?([\s\S]*)$/.exec(string(text)) || [null, "", ""];
      const code = put(make("code"), name);
      if (kind) code.append(put(make("span"), " " + kind));
      return code;
    });
    const files = list(data.files).map((file) => {
      const code = put(make("code"), (SIGNS[file.change] || "") + string(file.path));
      if (file.size) code.append(make("span", {}, " " + size(file.size)));
      return code;
    });
    const others = rest.filter((text) => !/^(vars|files):|^(wait|stop): \{|^until it ends, |^for longer work send |^to (take this|have its files) back: /.test(text));
    const element = make("footer", { class: "foot" }, names("variables", variables), names("files", files),
      ...others.map((text) => put(make("p"), text)));
    return element.childNodes.length ? element : null;
  }

  function head(outcome, open) {
    const source = string(input && input.code);
    const [, word, more] = /^(\w[\w ]*?)(?=$|[:,]| \d)([\s\S]*)$/.exec(outcome) || [null, outcome, ""];
    const expand = list(context.availableDisplayModes).includes("fullscreen") && context.displayMode !== "fullscreen"
      ? button("wide", "Full screen", () => ask("ui/request-display-mode", { mode: "fullscreen" })
        .then((got) => take({ displayMode: got.mode }), () => {})) : null;
    const status = make("span", {}, put(make("b"), word), put(document.createDocumentFragment(), more));
    const shown = source ? make("details", { open, ontoggle: fit },
      make("summary", {}, status, make("span", { class: "fold" }, "Code, " + plural(source.trimEnd().split("\n").length, "line"))), highlight(source)) : make("p", {}, status);
    return make("div", { class: "head" }, shown, expand);
  }

  function mood(outcome) {
    const [, done, all] = /^(?:applied|discarded) (\d+) of (\d+)/.exec(outcome) || [];
    if (/^(ok|exit code 0)\b/.test(outcome) || (done && done === all)) return "ok";
    if (done) return "off";
    return /^(cancelled|stopped|running|no longer kept|\d+ change|no change)/.test(outcome) ? "off" : "bad";
  }

  function showRun(data, images) {
    const [outcome, ...rest] = segments(data.summary);
    const paths = list(data.images);
    const figures = images.map((block, at) => ({ path: string(paths[at]), draw: () => figure(block, at + 1, images.length, string(paths[at])) }));
    const shown = list(data.shown).filter((one) => one && Object.hasOwn(kinds, one.t)).map((one) => ({ as: string(one.as), draw: () => attempt(kinds[one.t], one) }));
    const value = string(data.result).replace(/^\n/, "");
    const parts = flow(string(data.stdout), shown, figures);
    if (string(data.stderr)) parts.push(labelled("stderr", long("err", data.stderr.trimEnd())));
    const left = shown.filter((one) => !one.placed);
    const of = value ? left.filter((one) => one.as && one.as.trim() === value.trim()).pop() : null;
    for (const one of left) if (one !== of) parts.push(one.draw());
    if (of) parts.push(of.draw());
    else if (value) parts.push(...valueParts(value, figures));
    for (const one of figures) if (!one.placed) parts.push(one.draw());
    if (data.error) parts.push(traceback(data.error));
    if (data.error && string(data.error.hint)) parts.push(put(make("p", { class: "hint" }), data.error.hint));
    if (string(data.output_file)) parts.push(put(make("p", { class: "dim" }), "The whole output is in " + data.output_file));
    if (!parts.length && mood(outcome) === "ok" && !outcome.endsWith("no output")) parts.push(make("p", { class: "dim" }, "No output"));
    present(outcome, [head(outcome, Boolean(data.error)), ...parts, foot(data, rest)]);
  }

  /* A value that names an image is that image. */
  function valueParts(value, figures) {
    const parts = flow(value, [], figures);
    return parts.length === 1 && !figures.some((one) => one.placed && value.includes(one.path))
      ? [labelled("Out", long("", value))] : parts;
  }

  function attempt(draw, part) {
    try { return draw(part); } catch { return make("p", { class: "dim" }, "A part of this result cannot be shown."); }
  }

  /* ---- changes ---- */

  const QUOTED = '"(?:\\\\.|[^"\\\\])*"';
  const LISTED = new RegExp("^([+~-]) (" + QUOTED + "|.*?)((?: (?:\\+\\d+ -\\d+|[\\d.]+ [kMGT]?B|symlink to .*?|symlink|special file))*)((?: \\([^()]*\\))*)$");

  /* Where the files of a patch begin. Lines of a hunk are counted: what they begin with is the files' own. */
  function parsePatch(text) {
    const files = [];
    let file = null, left = [0, 0];
    for (const line of text.split("\n")) {
      if (left[0] > 0 || left[1] > 0) {
        const sign = line[0];
        if (sign !== "+" && sign !== "\\") left[0]--;
        if (sign !== "-" && sign !== "\\") left[1]--;
        file.lines.push(line);
        continue;
      }
      const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
      const other = /^# (.*): (.*)$/.exec(line);
      if (other || line.startsWith("diff --git ") || !file) {
        const [, quoted, plain] = /^diff --git .* (?:("b\/(?:\\.|[^"\\])*")|b\/(.*))$/.exec(line) || [null, null, other ? other[1] : line];
        files.push(file = { path: quoted ? '"' + quoted.slice(3) : plain, lines: [], sign: "~", note: other ? other[2] : "" });
      } else if (hunk) {
        left = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
        file.lines.push(line);
      } else if (/^(new|deleted) file mode/.test(line)) file.sign = line[0] === "n" ? "+" : "-";
      else if (line.startsWith("\\")) file.lines.push(line);
      else if (line.startsWith("[")) break;
    }
    if (file) file.isCut = left[0] > 0 || left[1] > 0;
    return files;
  }

  function parseLine(line) {
    const [, sign, path, what, marks] = LISTED.exec(line) || [null, "~", line, "", ""];
    return { sign, path, what: what.trim(), marks: [...marks.matchAll(/\(([^()]*)\)/g)].map((mark) => mark[1]) };
  }

  const SIGN_NAMES = { "+": ["new", "new"], "~": ["edit", "changed"], "-": ["gone", "removed"] };

  function mark(text) {
    return put(make("span", { class: /changed by the user|conflict/.test(text) ? "mark bad" : "mark" }), text);
  }

  function diff(lines) {
    const pre = make("pre", { class: "diff" });
    const box = make("div", {}, pre);
    function add(from, to) {
      for (const line of lines.slice(from, to)) {
        const name = { "+": "add", "-": "del", "@": "at", "\\": "at" }[line[0]];
        pre.append(put(make("span", { class: name }), line));
      }
    }
    add(0, DIFF_LINES);
    if (lines.length > DIFF_LINES) box.append(showAll(lines, DIFF_LINES, pre, () => add(DIFF_LINES)));
    return box;
  }

  function changedFile(file) {
    const [name, word] = SIGN_NAMES[file.sign] || ["edit", "changed"];
    const parsed = file.patch ? parsePatch(file.patch) : [file];
    const lines = parsed.flatMap((one) => one.lines || []), notes = lines.length ? [] : parsed.map((one) => one.note);
    if (parsed.some((one) => one.isCut)) notes.push("the rest is in what follows");
    const title = [make("span", { class: name }, word), put(make("span", { class: "path" }), file.path),
      ...[file.what, ...notes].filter(Boolean).map((text) => put(make("span", { class: "dim" }), text)), ...list(file.marks).map(mark)];
    if (!lines.length) return make("div", { class: "file" }, make("p", {}, ...title));
    const box = make("details", { class: "file", open: file.open, ontoggle: () => {
      file.open = box.open;
      if (box.open && !box.children[1]) box.append(diff(lines)); /* of thousands of files only of those that are read */
      fit();
    } }, make("summary", {}, ...title), file.open ? diff(lines) : null);
    return box;
  }

  /* files: of which the list tells. end: its last line. next: where more of them are. */
  function showChanges(files, end, next) {
    const [outcome, ...rest] = segments(end).join(" | ").split("; ");
    const all = parseInt(outcome, 10) || files.length, inParts = Boolean(next);
    const rows = make("div", { class: "files" }), note = make("span", { role: "status" });
    const more = button("more", "More changes", load);

    function fill(from) {
      while (rows.children.length > from) rows.lastChild.remove();
      rows.append(...files.slice(from).map(changedFile));
      more.hidden = !next || !capabilities.serverTools;
      note.textContent = !inParts ? "" : files.length.toLocaleString("en") + " of " + plural(all, "change") +
        (next && more.hidden ? ". This app does not pass on the others: ask for one directory after the other." : "");
      fit();
    }

    async function load() {
      const before = files.length;
      more.disabled = true;
      try {
        for (let i = 0; next && i < PARTS_AT_ONCE; i++) next = addFiles(files, JSON.parse(await read(next)));
        fill(before - 1); /* the last one may have got more lines */
      } catch (error) {
        note.textContent = "The others are not here: " + error.message;
      }
      more.disabled = false;
      const first = rows.children[before];
      if (first) focusOn(first.querySelector("summary") || first);
    }

    if (!next && files.reduce((sum, file) => sum + string(file.patch).split("\n").length, 0) <= DIFF_OPEN) files.forEach((file) => { file.open = true; });
    fill(0);
    present(outcome, [head(outcome, false), ...rest.map((text) => put(make("p", { class: "dim" }), text)), rows, inParts && make("div", { class: "row" }, note, more)]);
  }

  /* Adds those of a part of the data. An empty line goes on with the file before it. Returns where the next part is. */
  function addFiles(files, part) {
    for (const [line, patch] of list(part.changes).map(list)) {
      if (string(line)) files.push({ ...parseLine(line.trimEnd()), patch: "" });
      if (files.length) files[files.length - 1].patch += string(patch);
    }
    return string(part.next);
  }

  /* A list or a patch of which only the text came. */
  function showChangesText(text) {
    const end = /\[[^\n]*\]\s*$/.exec(text)?.[0] ?? "[changes]";
    const count = (lines, sign) => lines.filter((line) => line[0] === sign).length;
    if (!/^(# |diff --git )/.test(text)) return showChanges(text.split("\n").filter((line) => LISTED.test(line)).map(parseLine), end);
    return showChanges(parsePatch(text).map((file) => ({ ...file, what: file.lines.length ? "+" + count(file.lines, "+") + " -" + count(file.lines, "-") : "" })), end);
  }

  function showApplied(text) {
    const [outcome, ...lines] = text.trimEnd().split("\n");
    const end = lines.length && lines[lines.length - 1].startsWith("[") ? segments(lines.pop()) : [];
    const rows = lines.filter(Boolean).map((line) => {
      const [, sign, done] = /^([+~-]) (.*)$/.exec(line) || [];
      if (sign) return changedFile({ sign, path: done, what: "", marks: [] });
      const [, path, why] = new RegExp("^(" + QUOTED + "|[^:]*): ([\\s\\S]*)$").exec(line) || [null, line, ""];
      return make("div", { class: "file" }, make("p", {}, put(make("span", { class: "path" }), path),
        mark(why.startsWith("conflict") ? "conflict" : "not applied"), put(make("span", { class: "dim" }), why)));
    });
    present(outcome, [head(outcome, false), ...rows, ...end.map((line) => put(make("p", { class: "dim" }), line))]);
  }

  /* ---- the whole page ---- */

  function present(outcome, parts) {
    main.className = mood(outcome);
    main.replaceChildren(...parts.filter(Boolean));
    main.setAttribute("aria-busy", "false");
    if (spoken.textContent !== outcome) spoken.textContent = outcome;
    fit();
  }

  /* What was called: "run", "changes", or "" where neither the client nor the arguments say it. Never by the text, which
     code may have written. */
  function called() {
    const tool = string(context.toolInfo && context.toolInfo.tool && context.toolInfo.tool.name);
    if (/run_python$/.test(tool) || (input && ("code" in input || "job" in input))) return "run";
    return /(list|apply)_changes$/.test(tool) || (input && ["paths", "diff", "discard"].some((name) => name in input)) ? "changes" : "";
  }

  /* A result of which only the text came. */
  function showText(text, images, isError) {
    const ofChanges = called() === "changes";
    if (ofChanges && /^(applied|discarded) \d+ of \d+/.test(text)) return showApplied(text);
    if (ofChanges && /\[(\d+|no) changes?[^\n]*\]\s*$/.test(text)) return showChangesText(text);
    const trimmed = text.trimEnd(), at = trimmed.lastIndexOf("\n") + 1;
    const hasStatus = trimmed.startsWith("[", at) && trimmed.endsWith("]");
    const [outcome, ...rest] = hasStatus ? segments(trimmed.slice(at)) : [isError ? "error" : "ok"];
    const before = hasStatus ? trimmed.slice(0, at).trimEnd() : trimmed;
    const gone = trimmed === "{}" || (!trimmed && !images.length);
    const parts = gone ? [make("p", { class: "dim" }, "This app no longer keeps the output.")] : [];
    if (!gone && before) parts.push(long(isError ? "err" : "", before));
    images.forEach((block, number) => parts.push(figure(block, number + 1, images.length, "")));
    if (!parts.length && /^(ok|exit)/.test(outcome) && !outcome.endsWith("no output")) parts.push(make("p", { class: "dim" }, "No output"));
    return present(gone ? "no longer kept" : outcome, [head(gone ? "no longer kept" : outcome, isError), ...parts, foot({}, rest)]);
  }

  function show(data, images, text) {
    if (data.changes && called() !== "run") {
      const files = [];
      const next = addFiles(files, data);
      showChanges(files, string(data.end), next);
    } else if (typeof data.summary === "string" && called() !== "changes") showRun(data, images);
    else throw Error("not understood: " + text.length);
  }

  /* FNV-1a of 64 bits over code, NUL and the text. */
  function keyOf(code, text) {
    let hash = 0xcbf29ce484222325n;
    for (const byte of new TextEncoder().encode(code + "\0" + text.replace(/[ \t\r\n]+$/, ""))) {
      hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn;
    }
    return hash.toString(16).padStart(16, "0");
  }

  async function draw() {
    const code = string(input && input.code);
    if (!result) {
      if (code) {
        main.className = "off";
        main.replaceChildren(head("Running", false));
        main.querySelector("b").className = "wait";
        spoken.textContent = "Running";
        fit();
      }
      return;
    }
    const blocks = list(result.content);
    const texts = blocks.filter((block) => block && block.type === "text").map((block) => string(block.text));
    const images = blocks.filter((block) => block && block.type === "image" && IMAGE_TYPES.test(block.mimeType) && /^[A-Za-z0-9+/=]*$/.test(block.data));
    const first = texts[0] ?? "", now = result;
    const data = result._meta && result._meta["sandpiper/view"];
    if (data) {
      try { show(data, images, first); main.dataset.from = "meta"; return; } catch { /* the text says it too */ }
    }
    showText(texts.join("\n"), images, result.isError === true);
    main.dataset.from = "content";
    if (!capabilities.serverTools || !first) return;
    try {
      const found = JSON.parse(await read("sandpiper://view/" + keyOf(code, first)));
      if (now === result) { show(found, images, first); main.dataset.from = "read"; }
    } catch { /* no longer kept: the text stays */ }
  }

  new ResizeObserver(fit).observe(main);
  ask("ui/initialize", {
    protocolVersion: "2026-01-26",
    appInfo: { name: "sandpiper", version: "1" },
    appCapabilities: { availableDisplayModes: ["inline", "fullscreen"] },
  }).then((answered) => {
    capabilities = answered.hostCapabilities || {};
    ready = true;
    post({ method: "ui/notifications/initialized", params: {} });
    take(answered.hostContext || {});
  }).catch((error) => {
    main.replaceChildren(put(make("p", { class: "dim" }), "This app did not answer: " + error.message));
  });
})();
