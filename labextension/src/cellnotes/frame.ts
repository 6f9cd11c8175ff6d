// A frame without scripts that is as high as what it shows, in the page's colours; its links by click.

import { TranslationBundle } from '@jupyterlab/translation';
import { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

import { ADDRESS, LEADS_OUT, SANDBOX, shell } from './framed';

/** Pixels beyond which it scrolls. */
const HIGHEST = 800;

/** JupyterLab's variables that outputs of well-behaved libraries look for, and our rules use. */
const VARIABLES = [
  'content-font-color0',
  'content-font-color1',
  'content-font-color2',
  'content-font-color3',
  'content-font-family',
  'content-font-size1',
  'content-link-color',
  'code-font-family',
  'code-font-size',
  'ui-font-size1',
  'layout-color0',
  'layout-color1',
  'layout-color2',
  'layout-color3',
  'border-color0',
  'border-color1',
  'border-color2',
  'brand-color1',
  'rendermime-table-row-background',
  'rendermime-table-row-hover-background'
];

/** As JupyterLab shows HTML of outputs, as far as it matters: text, tables, code, pictures. */
const RULES = `
body { margin: 0; padding: 1px; color: var(--jp-content-font-color1); background: transparent;
  font-family: var(--jp-content-font-family); font-size: var(--jp-content-font-size1);
  line-height: 1.6; overflow-wrap: break-word; }
pre, code { font-family: var(--jp-code-font-family); font-size: var(--jp-code-font-size); }
table { border-collapse: collapse; border-spacing: 0; border: none; table-layout: fixed;
  color: var(--jp-ui-font-color1); font-size: var(--jp-ui-font-size1); margin-bottom: 1em; }
thead { border-bottom: 1px solid var(--jp-border-color1); vertical-align: bottom; }
td, th, tr { vertical-align: middle; padding: 0.5em; line-height: normal; white-space: normal;
  max-width: none; border: none; text-align: right; }
th { font-weight: bold; }
tbody tr:nth-child(odd) { background: var(--jp-rendermime-table-row-background); }
tbody tr:hover { background: var(--jp-rendermime-table-row-hover-background); }
img { max-width: 100%; }
[${ADDRESS}] { color: var(--jp-content-link-color); cursor: pointer; text-decoration: underline; }
`;

export class Frame extends Widget {
  /** @param _content - disarmed (`framed`) */
  constructor(
    private readonly _content: DocumentFragment,
    trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-frame');
    this._frame.setAttribute('sandbox', SANDBOX);
    this._frame.setAttribute('referrerpolicy', 'no-referrer');
    this._frame.title = trans.__('Output without scripts');
    this._frame.srcdoc = shell(RULES);
    // Also when the notebook takes the cell out of view and back: a frame that is moved begins anew.
    this._frame.addEventListener('load', this._fill);
    this.node.append(this._frame);
    this._observer = new ResizeObserver(() => this._measure());
  }

  override dispose(): void {
    this._observer.disconnect();
    this._themes.disconnect();
    this._frame.removeEventListener('load', this._fill);
    super.dispose();
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this._themes.observe(document.body, { attributeFilter: ['data-jp-theme-name'] });
  }

  protected override onBeforeDetach(message: Message): void {
    this._themes.disconnect();
    super.onBeforeDetach(message);
  }

  private readonly _fill = (): void => {
    const shown = this._frame.contentDocument;
    if (shown?.URL !== 'about:srcdoc') {
      return; // none of ours
    }
    shown.body.replaceChildren(shown.importNode(this._content, true));
    shown.addEventListener('click', this._follow, true);
    shown.addEventListener('auxclick', this._follow, true);
    shown.addEventListener('keydown', this._follow, true);
    shown.addEventListener('submit', event => event.preventDefault(), true);
    this._colour();
    this._observer.disconnect();
    this._observer.observe(shown.documentElement);
    this._measure();
  };

  /** A press on a link opens a page of its own, which knows nothing of this one. */
  private readonly _follow = (event: Event): void => {
    const at = event.target;
    const node = at !== null && 'closest' in at ? (at as Element).closest('a, area') : null;
    if (node === null) {
      return;
    }
    if (event.type === 'keydown' && (event as KeyboardEvent).key !== 'Enter') {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const address = node.getAttribute(ADDRESS);
    if (address !== null && LEADS_OUT.test(address) && event.isTrusted) {
      window.open(address, '_blank', 'noopener,noreferrer');
    }
  };

  /** The theme's variables, and whether it is a dark one. */
  private _colour(): void {
    const root = this._frame.contentDocument?.documentElement;
    if (root === undefined) {
      return;
    }
    const page = getComputedStyle(document.body);
    for (const name of [...VARIABLES, 'ui-font-color1']) {
      root.style.setProperty(`--jp-${name}`, page.getPropertyValue(`--jp-${name}`));
    }
    const light = document.body.dataset.jpThemeLight !== 'false';
    // The same as around it, or browsers paint a ground of their own behind it.
    root.style.colorScheme = getComputedStyle(this._frame).colorScheme;
    root.setAttribute('theme', light ? 'light' : 'dark');
  }

  private _measure(): void {
    const body = this._frame.contentDocument?.body;
    if (body != null) {
      this._frame.style.height = `${Math.min(HIGHEST, body.scrollHeight + 2)}px`;
    }
  }

  private readonly _frame = document.createElement('iframe');
  private readonly _observer: ResizeObserver;
  private readonly _themes = new MutationObserver(() => this._colour());
}
