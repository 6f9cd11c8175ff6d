// Notes at cells: in the order of their ranks, gone with their cell, whoever made the header.

import type { Cell } from '@jupyterlab/cells';
import { PromiseDelegate } from '@lumino/coreutils';
import { PanelLayout, Widget } from '@lumino/widgets';
import { describe, expect, it } from 'vitest';

import { CellPlaces } from '../../src/cellplaces/places';

class Bare extends Widget {
  readonly rendered = new PromiseDelegate<void>();
  readonly ready = this.rendered.promise;

  constructor() {
    super();
    this.layout = new PanelLayout();
  }

  render(header = new Widget()): void {
    header.addClass('jp-Cell-header');
    const footer = new Widget();
    footer.addClass('jp-Cell-footer');
    (this.layout as PanelLayout).addWidget(header);
    (this.layout as PanelLayout).addWidget(footer);
    this.rendered.resolve();
  }
}

function cellOf(bare: Bare): Cell {
  return bare as unknown as Cell;
}

function named(text: string): Widget {
  const widget = new Widget();
  widget.node.textContent = text;
  return widget;
}

function shown(bare: Bare, where: string): string[] {
  const places = bare.node.querySelectorAll(`.jp-Reprise-cellplace.jp-mod-${where}`);
  expect(places.length).toBeLessThan(2);
  return Array.from(places[0]?.children ?? [], each => each.textContent ?? '');
}

describe('places at cells', () => {
  it('are ordered by rank, whoever adds first', () => {
    const bare = new Bare();
    bare.render();
    const places = new CellPlaces();
    places.header(cellOf(bare), named('second'), 20);
    places.header(cellOf(bare), named('first'), 10);
    places.header(cellOf(bare), named('third'), 20);
    places.footer(cellOf(bare), named('below'));
    expect(shown(bare, 'header')).toEqual(['first', 'second', 'third']);
    expect(shown(bare, 'footer')).toEqual(['below']);
  });

  it('wait for a cell that is not rendered yet', async () => {
    const bare = new Bare();
    const places = new CellPlaces();
    places.header(cellOf(bare), named('note'));
    const gone = places.header(cellOf(bare), named('taken back'));
    gone.dispose();
    expect(shown(bare, 'header')).toEqual([]);
    bare.render();
    await bare.ready;
    expect(shown(bare, 'header')).toEqual(['note']);
  });

  it('are hidden while empty and dispose what was added', () => {
    const bare = new Bare();
    bare.render();
    const places = new CellPlaces();
    const widget = named('note');
    const added = places.footer(cellOf(bare), widget);
    const place = bare.node.querySelector('.jp-Reprise-cellplace');
    added.dispose();
    expect(widget.isDisposed).toBe(true);
    expect(place?.classList).toContain('lm-mod-hidden');
    places.footer(cellOf(bare), named('again'));
    expect(place?.classList).not.toContain('lm-mod-hidden');
  });

  it('go with their cell', () => {
    const bare = new Bare();
    bare.render();
    const widget = named('note');
    const added = new CellPlaces().header(cellOf(bare), widget);
    bare.dispose();
    expect(widget.isDisposed).toBe(true);
    expect(added.isDisposed).toBe(true);
  });

  it('stand beside a header that another extension lays out itself', () => {
    const bare = new Bare();
    const theirs = new Widget({ node: document.createElement('section') });
    theirs.layout = new (class extends PanelLayout {})();
    bare.render(theirs);
    new CellPlaces().header(cellOf(bare), named('note'));
    expect(shown(bare, 'header')).toEqual(['note']);
    expect(theirs.isDisposed).toBe(false);
  });

  it('keep their keys and presses from the notebook', () => {
    const bare = new Bare();
    bare.render();
    Widget.attach(bare, document.body);
    let heard = 0;
    bare.node.addEventListener('mousedown', () => (heard += 1));
    const widget = named('note');
    new CellPlaces().header(cellOf(bare), widget);
    widget.node.dispatchEvent(new MouseEvent('mousedown', { bubbles: true }));
    expect(heard).toBe(0);
    const place = bare.node.querySelector<HTMLElement>('.jp-Reprise-cellplace');
    expect(place?.dataset['lmSuppressShortcuts']).toBe('true');
    bare.dispose();
  });
});
