// The original of a static output in a frame without scripts, or what the router shows in its place.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { IRenderMime, IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { TranslationBundle } from '@jupyterlab/translation';
import { Panel, Widget } from '@lumino/widgets';

import { Frame } from './frame';
import { framed } from './framed';

/** The private MIME type of docs/messages.md. */
export const ORIGINAL = 'application/vnd.reprise.original+json';

/** Ahead of HTML (50), Markdown (60) and all else that a bundle with an original holds. */
export const RANK = 5;

/** MIME types that run code of the output's, and are therefore off. */
const SCRIPTS = /javascript|ecmascript|vnd\.(plotly|bokeh|vega|holoviews|vdom|jupyter\.widget)/i;

type Bundle = IRenderMime.IMimeModel['data'];

/** What an original holds that can be shown, and whether something in it is off. */
export interface IRead {
  /** HTML to be framed; null where the rest of the bundle is shown instead. */
  readonly html: string | null;
  readonly off: boolean;
}

/** Read an original. Whatever it is: it comes out of a sandbox, or a stranger's notebook. */
export function readOriginal(value: unknown): IRead {
  const original = object(value);
  if (original === null || original.version !== 1) {
    return { html: null, off: false };
  }
  const omitted = object(original.omitted);
  const data = object(original.data) ?? {};
  const types = Object.keys(omitted ?? data);
  const off = types.some(each => SCRIPTS.test(each));
  const html = text(data['text/html']) ?? drawing(text(data['image/svg+xml']));
  return { html, off };
}

/** A drawing as a picture: what is in it runs and loads nothing there. */
function drawing(svg: string | null): string | null {
  if (svg === null) {
    return null;
  }
  const bytes = new TextEncoder().encode(svg);
  let binary = '';
  for (const byte of bytes) {
    binary += String.fromCharCode(byte);
  }
  return `<img alt="" src="data:image/svg+xml;base64,${btoa(binary)}">`;
}

export class OriginalRenderer extends Panel implements IRenderMime.IRenderer {
  /**
   * @param _registry - renders the rest of the bundle where the original cannot be shown
   * @param _why - why outputs are static, in words, with what allows live ones
   */
  constructor(
    private readonly _registry: IRenderMimeRegistry,
    private readonly _why: (node: HTMLElement) => string,
    private readonly _trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-original');
  }

  async renderModel(model: IRenderMime.IMimeModel): Promise<void> {
    while (this.widgets.length > 0) {
      this.widgets[0]?.dispose();
    }
    const read = readOriginal(model.data[ORIGINAL]);
    const shown = read.html === null ? null : framed(read.html);
    if (read.off || shown?.active === true) {
      this.addWidget(this._label());
    }
    if (shown?.content != null) {
      this.addWidget(new Frame(shown.content, this._trans));
      return;
    }
    await this._rest(model);
  }

  /** What the router published beside the original: sanitised, with a line of what is held back. */
  private async _rest(model: IRenderMime.IMimeModel): Promise<void> {
    const data: Record<string, Bundle[string]> = {};
    for (const [type, value] of Object.entries(model.data)) {
      if (type !== ORIGINAL && value !== undefined) {
        data[type] = value;
      }
    }
    const type = this._registry.preferredMimeType(data, 'ensure');
    if (type === undefined) {
      return;
    }
    const renderer = this._registry.createRenderer(type);
    this.addWidget(renderer);
    await renderer.renderModel(new MimeModel({ data, metadata: model.metadata, trusted: false }));
  }

  private _label(): Widget {
    const node = document.createElement('div');
    node.className = 'jp-Reprise-static';
    node.setAttribute('role', 'note');
    node.setAttribute('data-lm-suppress-shortcuts', 'true');
    const words = document.createElement('span');
    words.textContent = this._trans.__('Scripts in this output are off: an agent made it.');
    const why = document.createElement('button');
    why.type = 'button';
    why.className = 'jp-Reprise-status-lead';
    why.textContent = this._trans.__('Why');
    why.addEventListener('click', () => {
      void showDialog({
        title: this._trans.__('Scripts in this output are off'),
        body: this._why(this.node),
        buttons: [Dialog.okButton({ label: this._trans.__('Close') })]
      });
    });
    node.append(words, why);
    return new Widget({ node });
  }
}

function object(value: unknown): Readonly<Record<string, unknown>> | null {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Record<string, unknown>)
    : null;
}

function text(value: unknown): string | null {
  if (Array.isArray(value) && value.every(each => typeof each === 'string')) {
    return value.join(''); // as notebooks store it
  }
  return typeof value === 'string' ? value : null;
}
