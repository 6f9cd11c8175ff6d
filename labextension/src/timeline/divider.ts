/** The line between the list and the step below it: dragged, or moved with the arrow keys. */

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';

/** Per cent of the height that the upper part may have, and that one key moves. */
const LEAST = 15;
const MOST = 85;
const KEY = 5;

export class Divider extends Widget {
  /** over: the element above the line, whose share of the height is set. */
  constructor(
    private readonly _over: HTMLElement,
    trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise-Divider');
    this.node.tabIndex = 0;
    this.node.setAttribute('role', 'separator');
    this.node.setAttribute('aria-orientation', 'horizontal');
    this.node.setAttribute('aria-label', trans.__('Height of the list'));
    this.node.setAttribute('aria-valuemin', String(LEAST));
    this.node.setAttribute('aria-valuemax', String(MOST));
    this._set(55);
  }

  handleEvent(event: Event): void {
    if (event.type === 'keydown') {
      this._onKey(event as KeyboardEvent);
    } else {
      this._onPointer(event as PointerEvent);
    }
  }

  protected override onAfterAttach(msg: Message): void {
    super.onAfterAttach(msg);
    for (const type of EVENTS) {
      this.node.addEventListener(type, this);
    }
  }

  protected override onBeforeDetach(msg: Message): void {
    for (const type of EVENTS) {
      this.node.removeEventListener(type, this);
    }
    super.onBeforeDetach(msg);
  }

  private _onKey(event: KeyboardEvent): void {
    const by = { ArrowUp: -KEY, ArrowDown: KEY, Home: -100, End: 100 }[event.key];
    if (by !== undefined) {
      event.preventDefault();
      event.stopPropagation();
      this._set(this._share + by);
    }
  }

  private _onPointer(event: PointerEvent): void {
    switch (event.type) {
      case 'pointerdown':
        this.node.setPointerCapture(event.pointerId);
        break;
      case 'pointermove': {
        const whole = this.node.parentElement;
        if (whole !== null && this.node.hasPointerCapture(event.pointerId)) {
          const top = this._over.getBoundingClientRect().top;
          const room = whole.getBoundingClientRect().bottom - top;
          this._set(((event.clientY - top) / room) * 100);
        }
        break;
      }
      case 'pointerup':
        this.node.releasePointerCapture(event.pointerId);
        break;
    }
  }

  private _set(share: number): void {
    this._share = Math.round(Math.min(MOST, Math.max(LEAST, share)));
    this._over.style.setProperty('--jp-reprise-share', String(this._share));
    this.node.setAttribute('aria-valuenow', String(this._share));
  }

  private _share = 0;
}

const EVENTS = ['keydown', 'pointerdown', 'pointermove', 'pointerup'] as const;
