// A rendermime of its own for what strangers wrote: sanitised, untrusted, links that lead out only.

import { Sanitizer } from '@jupyterlab/apputils';
import { IRenderMime, IRenderMimeRegistry } from '@jupyterlab/rendermime';

import { ISafeRendering } from './tokens';

/** Only these leave the page, and only by a person's click. */
const LEADS_OUT = /^(https?:|mailto:)/i;

/** What can be shown without running anything; Vega, widgets, PDF and scripts stay out. */
const SHOWN = new Set([
  'text/plain',
  'text/html',
  'text/markdown',
  'text/latex',
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/bmp',
  'image/webp',
  'application/json',
  'application/vnd.jupyter.stdout',
  'application/vnd.jupyter.stderr',
  'application/vnd.jupyter.error'
]);

/** Elements that load, ask, or lie over others; what stands in them goes as well. */
const NEVER =
  'iframe, object, embed, form, input, button, select, textarea, style, link, meta, base, dialog';

/** Attributes that load something, name something of the page's, or move an element. */
const NOT_KEPT =
  /^(on|data-|style$|id$|name$|srcset$|background$|poster$|ping$|formaction$|class$)/i;

/** Marks of Markdown's own that a stranger's classes would have to be kept for: code's language. */
const KEPT_CLASS = /^(language-[\w+#.-]{1,40}|jp-RenderedHTMLCommon)$/;

/** A clone that trusts nothing (ui.md: commands behind links are allowed by default). */
export class SafeRendering implements ISafeRendering {
  constructor(from: IRenderMimeRegistry) {
    this.rendermime = from.clone({
      linkHandler: new OutwardLinks(),
      resolver: new NoResolver(),
      sanitizer: new ClosedSanitizer()
    });
    for (const type of this.rendermime.mimeTypes) {
      if (!SHOWN.has(type)) {
        this.rendermime.removeMimeType(type);
      }
    }
  }

  readonly rendermime: IRenderMimeRegistry;
}

/** A link that would lead into this Jupyter leads nowhere. */
class OutwardLinks implements IRenderMime.ILinkHandler {
  handleLink(node: HTMLElement): void {
    node.removeAttribute('href');
  }

  handlePath(node: HTMLElement): void {
    node.removeAttribute('href');
  }
}

/** Resolves nothing: a text of a stranger names no file and no address that the page would load. */
class NoResolver implements IRenderMime.IResolver {
  resolveUrl(url: string): Promise<string> {
    return Promise.resolve(LEADS_OUT.test(url) || /^data:image\//i.test(url) ? url : '');
  }

  getDownloadUrl(url: string): Promise<string> {
    return Promise.resolve(/^data:image\//i.test(url) ? url : '');
  }

  isLocal(url: string): boolean {
    return !LEADS_OUT.test(url) && !/^data:/i.test(url);
  }
}

/**
 * JupyterLab's sanitiser without commands behind links; then nothing that the page loads from
 * elsewhere, nothing that takes a place or a name in the page, and links that open a page of their
 * own which knows nothing of this one.
 */
export class ClosedSanitizer implements IRenderMime.ISanitizer {
  constructor() {
    this._first.setAllowCommandLinker(false);
  }

  readonly allowNamedProperties = false;

  sanitize(dirty: string, options?: IRenderMime.ISanitizerOptions): string {
    // Parsed apart from the page: nothing of it runs or loads.
    const { body } = new DOMParser().parseFromString(
      this._first.sanitize(dirty, options),
      'text/html'
    );
    for (const element of body.querySelectorAll(NEVER)) {
      element.remove();
    }
    for (const element of body.querySelectorAll('*')) {
      for (const { name, value } of [...element.attributes]) {
        if (name === 'class') {
          const kept = value.split(/\s+/).filter(each => KEPT_CLASS.test(each));
          element.setAttribute('class', kept.join(' '));
        } else if (NOT_KEPT.test(name)) {
          element.removeAttribute(name);
        }
      }
      for (const name of ['src', 'xlink:href']) {
        if (!/^data:(image|audio|video)\//i.test(element.getAttribute(name) ?? 'data:image/')) {
          element.removeAttribute(name);
        }
      }
      if (element.hasAttribute('href')) {
        if (!LEADS_OUT.test(element.getAttribute('href') ?? '')) {
          element.removeAttribute('href');
        }
        element.setAttribute('target', '_blank');
        element.setAttribute('rel', 'noopener noreferrer');
      }
    }
    return body.innerHTML;
  }

  private readonly _first = new Sanitizer();
}
