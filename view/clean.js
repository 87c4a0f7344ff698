"use strict";
/* HTML of code, as nodes that are made here, of the names and attributes below and no others. The source is parsed
   once, in a document that loads nothing, and nothing of that document is moved, whatever its parser was tricked into.
   Of CSS stays what names no address, by the browser's own parser.

   No name below makes a parser read on otherwise than before (as title, style and textarea do). So where the nodes must
   be written and parsed again, no tag and no attribute can appear that was not among them. */
const clean = (() => {
  const words = (text) => new Set(text.split(" "));
  const parse = (source) => new DOMParser().parseFromString(source, "text/html");
  const [HTML, SVG] = ["<p>", "<svg>"].map((source) => parse(source).body.firstChild.namespaceURI);
  const NAMES = {
    [HTML]: words("a abbr address article aside b bdi bdo big blockquote br caption center cite code col colgroup dd del details dfn dir div " +
      "dl dt em fieldset figcaption figure font footer h1 h2 h3 h4 h5 h6 header hgroup hr i img input ins kbd label legend li main mark menu " +
      "meter nav ol p pre progress q rp rt ruby s samp section small span strike strong sub summary sup table tbody td tfoot th thead time " +
      "tr tt u ul var wbr"),
    [SVG]: words("svg g a defs symbol use switch path rect circle ellipse line polyline polygon text tspan textpath image marker pattern mask " +
      "clippath lineargradient radialgradient stop filter feblend fecolormatrix fecomponenttransfer fecomposite feconvolvematrix " +
      "fediffuselighting fedisplacementmap fedistantlight fedropshadow feflood fefunca fefuncb fefuncg fefuncr fegaussianblur femerge " +
      "femergenode femorphology feoffset fepointlight fespecularlighting fespotlight fetile feturbulence"),
  };
  /* Their content is no text that a person should see. That of all other elements stays. */
  const WITH_CONTENT = words("script title template noscript noembed noframes iframe object embed applet audio video canvas select datalist " +
    "textarea desc metadata foreignobject annotation annotation-xml");
  const TEXTS = words("id class title alt lang dir role for scope headers type value datetime");
  const OTHERS = words("align valign width height border cellpadding cellspacing colspan rowspan span bgcolor color face size start reversed " +
    "min max low high optimum open checked disabled hidden nowrap viewbox preserveaspectratio version x y x1 y1 x2 y2 z cx cy r rx ry fx fy fr " +
    "dx dy d points pathlength transform rotate textlength lengthadjust startoffset method spacing side offset gradientunits gradienttransform " +
    "spreadmethod patternunits patterncontentunits patterntransform clippathunits maskunits maskcontentunits markerunits markerwidth " +
    "markerheight refx refy orient filterunits primitiveunits in in2 result mode values operator k1 k2 k3 k4 order kernelmatrix divisor bias " +
    "targetx targety edgemode preservealpha surfacescale diffuseconstant specularconstant specularexponent limitingconeangle azimuth elevation " +
    "pointsatx pointsaty pointsatz scale xchannelselector ychannelselector stddeviation radius basefrequency numoctaves seed stitchtiles " +
    "tablevalues slope intercept amplitude exponent fill fill-opacity fill-rule stroke stroke-width stroke-opacity stroke-dasharray " +
    "stroke-dashoffset stroke-linecap stroke-linejoin stroke-miterlimit opacity clip-path clip-rule mask filter marker-start marker-mid " +
    "marker-end stop-color stop-opacity flood-color flood-opacity lighting-color color-interpolation color-interpolation-filters " +
    "color-rendering shape-rendering text-rendering image-rendering vector-effect paint-order display visibility overflow pointer-events " +
    "font-family font-size font-style font-variant font-weight font-stretch letter-spacing word-spacing text-anchor text-decoration " +
    "dominant-baseline alignment-baseline baseline-shift writing-mode direction unicode-bidi");

  /* ---- addresses ---- */

  const PICTURE = "data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*", INSIDE = "#[^\\s\\\\\"'()<>]+";
  const isPicture = new RegExp("^" + PICTURE + "$", "i"), isInside = new RegExp("^" + INSIDE + "$");
  const OWN_URL = new RegExp("url\\((\"|'|)(?:" + PICTURE + "|" + INSIDE + ")\\1\\)", "gi");
  /* Those of CSS that name no address, and those of selectors. */
  const FUNCTIONS = words("rgb rgba hsl hsla hwb lab lch oklab oklch color color-mix light-dark var calc min max clamp linear-gradient " +
    "radial-gradient conic-gradient repeating-linear-gradient repeating-radial-gradient repeating-conic-gradient translate translatex translatey " +
    "translatez translate3d rotate rotatex rotatey rotatez rotate3d scale scalex scaley scalez scale3d skew skewx skewy matrix matrix3d " +
    "perspective cubic-bezier steps minmax repeat fit-content counter counters blur brightness contrast drop-shadow grayscale hue-rotate " +
    "invert opacity saturate sepia inset circle ellipse polygon not is where has nth-child nth-last-child nth-of-type nth-last-of-type lang dir");

  /* Whether CSS names no address elsewhere, however it is parsed: every function and at-rule in it is a known one. */
  function isOwn(css) {
    const rest = css.replace(OWN_URL, " ");
    return !/[\\<]|\/\*|@(?!media|supports|keyframes)/i.test(rest) &&
      [...rest.matchAll(/([\w-]*)\(/g)].every(([, name]) => !name || FUNCTIONS.has(name.toLowerCase()));
  }

  /* Removes what is not its own; returns the text. */
  function ownStyle(style) {
    if (!isOwn(style.cssText)) [...style].forEach((name) => isOwn(style.getPropertyValue(name)) || style.removeProperty(name));
    if (!isOwn(style.cssText)) style.cssText = ""; /* a shorthand of which the parts have no value */
    return style.cssText;
  }

  function ownRules(rules) {
    return [...rules].map((rule) => {
      if (rule.style) ownStyle(rule.style);
      if (rule instanceof CSSMediaRule || rule instanceof CSSSupportsRule) {
        return rule.cssText.slice(0, rule.cssText.indexOf("{") + 1) + ownRules(rule.cssRules) + "}";
      }
      return rule instanceof CSSStyleRule || rule instanceof CSSKeyframesRule ? rule.cssText : "";
    }).filter(isOwn).join("\n");
  }

  function ownSheet(text) {
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(text);
    return ownRules(sheet.cssRules);
  }

  /* ---- elements ---- */

  const inert = document.implementation.createHTMLDocument("");

  function isKept(name, attribute, value) {
    if (attribute === "src" || attribute === "href") {
      return name === "img" || name === "image" ? isPicture.test(value) : name !== "a" && attribute === "href" && isInside.test(value);
    }
    return TEXTS.has(attribute) || /^(aria|data)-[\w-]+$/.test(attribute) || (OTHERS.has(attribute) && isOwn(value));
  }

  /* The element's like, without its content; null: only the content is kept. */
  function like(element, name) {
    const names = Object.hasOwn(NAMES, element.namespaceURI) && NAMES[element.namespaceURI];
    if (!names || !names.has(name)) return null;
    if (name === "input" && !/^(checkbox|radio)$/.test(element.type)) return null;
    const made = inert.createElementNS(element.namespaceURI, element.localName);
    for (const { localName, value } of element.attributes) {
      if (localName === "style") made.style.cssText = ownStyle(element.style);
      else if (isKept(name, localName.toLowerCase(), value)) made.setAttribute(localName, value);
    }
    return made;
  }

  /* Copies what is below the walker's node. Its steps and classes tell the truth also of a form, whose fields may have
     the names of its members. */
  function copy(walker, into, sheets) {
    let node = walker.firstChild();
    if (!node) return;
    for (; node; node = walker.nextSibling()) {
      const isForm = node instanceof HTMLFormElement, name = isForm || node instanceof Text ? "" : node.localName.toLowerCase();
      if (node instanceof Text) into.append(node.data);
      else if (name === "style") sheets.push(ownSheet(node.textContent));
      else if (!WITH_CONTENT.has(name)) {
        const made = isForm ? null : like(node, name);
        if (made) into.append(made);
        copy(walker, made || into, sheets);
      }
    }
    walker.parentNode();
  }

  /* Returns [nodes, CSS]. */
  return (source) => {
    const nodes = inert.createElement("div"), sheets = [];
    copy(document.createTreeWalker(parse(source), NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT), nodes, sheets);
    return [nodes, sheets.join("\n")];
  };
})();
