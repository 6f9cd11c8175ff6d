// Hostile HTML as what a frame shows in which nothing runs, loads, or leads anywhere by itself.

/**
 * The sandbox without `allow-scripts` is the first wall. Of the same origin the frame is only so that
 * this page can fill and measure it, and take its links: nothing in it can make use of that.
 */
export const SANDBOX = 'allow-same-origin';

/** The second wall (docs/messages.md): it loads nothing but pictures that are in it. */
export const POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:";

/** Where the address of a link is kept, so that the browser itself knows of no link. */
export const ADDRESS = 'data-reprise-address';

/** What runs, loads, asks, or leads elsewhere without a click; both walls stop it as well. */
const NEVER =
  'script, iframe, frame, frameset, object, embed, portal, link, meta, base, noscript, template, title, video, audio';

/** Elements by whose loss something of the output is off. */
const ACTIVE = 'script, iframe, object, embed, form, video, audio';

/** What is seen without any text. */
const SEEN = 'img[src], svg, table, hr, progress, meter, input, button';

/** Where a link may lead, by a click. */
export const LEADS_OUT = /^(https?:|mailto:)/i;

/** Attributes that load something, or send something somewhere. */
const LOADS = new Set([
  'src',
  'srcset',
  'poster',
  'background',
  'data',
  'action',
  'formaction',
  'ping',
  'srcdoc'
]);

/** What of an output is shown in a frame. */
export interface IFramed {
  /** Styles and elements; null where nothing of it could be seen. */
  readonly content: DocumentFragment | null;
  /** Whether anything was left out that would have run, loaded or asked. */
  readonly active: boolean;
}

/** The document that a frame begins with, a `srcdoc`. @param style - rules of our own */
export function shell(style: string): string {
  return `<!doctype html><html><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><style>${style}</style></head><body></body></html>`;
}

export function framed(html: string): IFramed {
  // Parsed apart: nothing of it runs or loads here.
  const parsed = new DOMParser().parseFromString(html, 'text/html');
  let active = parsed.querySelector(ACTIVE) !== null;
  for (const element of parsed.querySelectorAll(NEVER)) {
    element.remove();
  }
  for (const form of parsed.querySelectorAll('form')) {
    form.replaceWith(...form.childNodes); // what stands in it may be seen
  }
  for (const element of parsed.querySelectorAll('*')) {
    active = disarm(element) || active;
  }
  const content = parsed.createDocumentFragment();
  content.append(...parsed.head.querySelectorAll('style'), ...parsed.body.childNodes);
  return { content: visible(content) ? content : null, active };
}

/** Take from an element what acts; whether there was any. */
function disarm(element: Element): boolean {
  let active = false;
  element.removeAttribute(ADDRESS); // ours alone to set: whatever stands there is opened by a click
  for (const { name, value } of [...element.attributes]) {
    const lower = name.toLowerCase();
    if (lower.startsWith('on')) {
      element.removeAttribute(name);
      active = true;
    } else if (lower === 'href' || lower.endsWith(':href')) {
      active = unlink(element, name, value) || active;
    } else if (LOADS.has(lower) && !(lower === 'src' && /^data:image\//i.test(value))) {
      element.removeAttribute(name);
      active = true;
    } else if (lower === 'autofocus' || lower === 'tabindex' || lower === 'accesskey') {
      element.removeAttribute(name);
    }
  }
  return active;
}

function unlink(element: Element, name: string, value: string): boolean {
  if (/^#[\w-]+$/.test(value) && element.namespaceURI === SVG) {
    return false; // of drawings: <use href="#mark">
  }
  element.removeAttribute(name);
  if (element.matches('a, area') && LEADS_OUT.test(value)) {
    element.setAttribute(ADDRESS, value);
    element.setAttribute('role', 'link');
    element.setAttribute('tabindex', '0');
    return false;
  }
  return /^\s*[a-z]*script:/i.test(value);
}

const SVG = 'http://www.w3.org/2000/svg';

function visible(content: DocumentFragment): boolean {
  if (content.querySelector(SEEN) !== null) {
    return true;
  }
  const copy = content.cloneNode(true) as DocumentFragment;
  copy.querySelectorAll('style').forEach(each => each.remove());
  return copy.textContent.trim() !== '';
}
