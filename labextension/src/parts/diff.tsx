// Two texts side by side where there is room, else one below the other; two images beside each other.

import { MergeView, unifiedMergeView } from '@codemirror/merge';
import { Compartment, EditorState, Extension } from '@codemirror/state';
import { EditorView, lineNumbers } from '@codemirror/view';
import { IEditorLanguageRegistry, jupyterTheme } from '@jupyterlab/codemirror';
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { counted, LARGE_LINES } from './texts';

/** CSS pixels from which two texts stand beside each other (ui.md, "Cell-edit diff"). */
const SPLIT_FROM = 700;

export type DiffView = 'auto' | 'split' | 'unified';

/**
 * The differences of two texts, read only. n and p go to the next and the previous one.
 * language: a MIME type, or null for none. large: what to do for a text that is too large here;
 * without it, it is shown whole.
 */
export function TextDiff(props: {
  before: string;
  after: string;
  /** For screen readers: "Proposed edit, cell 8". */
  label: string;
  trans: TranslationBundle;
  languages?: IEditorLanguageRegistry | null;
  language?: string | null;
  view?: DiffView;
  large?: { label: string; open: () => void };
}): React.JSX.Element {
  const { before, after, label, trans, languages, language, view = 'auto', large } = props;
  const holder = React.useRef<HTMLDivElement>(null);
  const [wide, setWide] = React.useState<boolean | null>(view === 'auto' ? null : view === 'split');
  const total = React.useMemo(
    () => Math.max(before.split('\n').length, after.split('\n').length),
    [before, after]
  );
  const counts = React.useMemo(() => counted(before, after), [before, after]);
  const tooLarge = large !== undefined && total > LARGE_LINES;
  const one = before === after ? null : before === '' ? 'added' : after === '' ? 'removed' : null;

  React.useEffect(() => {
    const node = holder.current;
    if (view !== 'auto' || node === null) {
      setWide(view === 'split');
      return undefined;
    }
    const observer = new ResizeObserver(() => setWide(node.clientWidth >= SPLIT_FROM));
    observer.observe(node);
    setWide(node.clientWidth >= SPLIT_FROM);
    return () => observer.disconnect();
  }, [view]);

  React.useEffect(() => {
    const node = holder.current;
    if (node === null || wide === null || tooLarge) {
      return undefined;
    }
    const highlighting = new Compartment();
    const shared: Extension = [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.contentAttributes.of({ tabindex: '0', 'aria-label': label }),
      EditorView.lineWrapping,
      lineNumbers(),
      jupyterTheme,
      highlighting.of([])
    ];
    const options = {
      collapseUnchanged: { margin: 3, minSize: 6 },
      diffConfig: { scanLimit: 10_000, timeout: 500 }
    };
    let editors: EditorView[];
    let destroy: () => void;
    if (one !== null) {
      // All of it came, or went: there is nothing to stand beside it.
      const editor = new EditorView({ doc: before + after, parent: node, extensions: shared });
      editors = [editor];
      destroy = () => editor.destroy();
    } else if (wide) {
      const merged = new MergeView({
        a: { doc: before, extensions: shared },
        b: { doc: after, extensions: shared },
        parent: node,
        highlightChanges: true,
        gutter: true,
        ...options
      });
      editors = [merged.a, merged.b];
      destroy = () => merged.destroy();
    } else {
      const editor = new EditorView({
        doc: after,
        parent: node,
        extensions: [
          shared,
          unifiedMergeView({
            original: before,
            highlightChanges: true,
            gutter: true,
            mergeControls: false,
            ...options
          })
        ]
      });
      editors = [editor];
      destroy = () => editor.destroy();
    }
    let current = true;
    const spec = language ? languages?.findByMIME(language) : null;
    if (spec && languages) {
      void languages.getLanguage(spec).then(found => {
        if (current && found?.support) {
          for (const editor of editors) {
            editor.dispatch({ effects: highlighting.reconfigure(found.support) });
          }
        }
      });
    }
    return () => {
      current = false;
      destroy();
    };
  }, [before, after, label, languages, language, wide, tooLarge, one]);

  const moved = (event: React.KeyboardEvent): void => {
    if (
      (event.key === 'n' || event.key === 'p') &&
      !event.ctrlKey &&
      !event.metaKey &&
      !event.altKey
    ) {
      const step = event.key === 'n' ? 1 : -1;
      const changes = [
        ...(holder.current?.querySelectorAll<HTMLElement>(
          '.cm-changedLine, .cm-insertedLine, .cm-deletedChunk'
        ) ?? [])
      ];
      if (changes.length > 0) {
        at.current = (at.current + step + changes.length) % changes.length;
        changes[at.current]?.scrollIntoView({ block: 'center' });
        event.preventDefault();
        event.stopPropagation();
      }
    }
  };
  const at = React.useRef(-1);

  return (
    <div
      className="jp-Reprise-diff"
      role="group"
      aria-label={label}
      onKeyDown={moved}
      data-lm-suppress-shortcuts="true"
    >
      <div className="jp-Reprise-diff-counts">
        {before === after
          ? trans.__('No differences.')
          : trans.__('%1 added, %2 removed', counts.added, counts.removed)}
        {tooLarge && (
          <>
            {' '}
            {trans.__('%1 lines.', total.toLocaleString())}{' '}
            <button className="jp-mod-styled jp-mod-minimal" onClick={large.open}>
              {large.label}
            </button>
          </>
        )}
      </div>
      <div
        ref={holder}
        className={`jp-Reprise-diff-texts ${one !== null ? `jp-mod-${one}` : wide ? 'jp-mod-split' : 'jp-mod-unified'}`}
      />
    </div>
  );
}

/**
 * Two pictures of one thing. src: `data:` or addresses of this server alone (the page's policy).
 * Beside each other, or one over the other with a slider that the arrow keys move.
 */
export function ImageDiff(props: {
  before: { src: string; label: string };
  after: { src: string; label: string };
  trans: TranslationBundle;
}): React.JSX.Element {
  const { before, after, trans } = props;
  const [over, setOver] = React.useState(false);
  const [cut, setCut] = React.useState(50);
  return (
    <div className="jp-Reprise-images">
      <div
        className="jp-Reprise-actions"
        role="group"
        aria-label={trans.__('How the images are shown')}
      >
        <button
          className="jp-mod-styled jp-mod-minimal"
          aria-pressed={!over}
          onClick={() => setOver(false)}
        >
          {trans.__('Side by side')}
        </button>
        <button
          className="jp-mod-styled jp-mod-minimal"
          aria-pressed={over}
          onClick={() => setOver(true)}
        >
          {trans.__('Slider')}
        </button>
      </div>
      {over ? (
        <>
          <div className="jp-Reprise-images-over">
            <img src={before.src} alt={before.label} />
            <img src={after.src} alt={after.label} style={{ clipPath: `inset(0 0 0 ${cut}%)` }} />
          </div>
          <label className="jp-Reprise-images-slider">
            {before.label}
            <input
              type="range"
              min={0}
              max={100}
              value={cut}
              aria-label={trans.__('How much of each image is shown')}
              onChange={event => setCut(Number(event.target.value))}
            />
            {after.label}
          </label>
        </>
      ) : (
        <div className="jp-Reprise-images-beside">
          {[before, after].map(each => (
            <figure key={each.label}>
              <img src={each.src} alt={each.label} />
              <figcaption>{each.label}</figcaption>
            </figure>
          ))}
        </div>
      )}
    </div>
  );
}
