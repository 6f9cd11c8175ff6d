// The tab in which a skill is written: its files, an editor, findings and token cost as one types.

import { Dialog, InputDialog, showDialog } from '@jupyterlab/apputils';
import { Message } from '@lumino/messaging';
import * as React from 'react';

import { ConnectionNotice, ErrorNotice, Loading, Notice } from '../parts/notices';
import { TextBox } from '../parts/textbox';
import { exact, moment } from '../parts/words';
import { useAsked } from '../parts/asked';
import { useCheck } from './checking';
import { contentOf, mimeOf } from './content';
import { IContext, useSkills } from './context';
import { Draft, SKILL_FILE } from './draft';
import { EditorFiles } from './editorfiles';
import { FindingList } from './findings';
import { placed } from './lint';
import { reference } from './names';
import { saved } from './saving';
import { CostTable } from './usage';
import { WideTab } from './wide';
import { scope as scopeWord } from './words';

export class EditorTab extends WideTab {
  constructor(
    context: IContext,
    readonly draft: Draft,
    id: string
  ) {
    super(context, id, draft.folder);
    this._label();
    draft.changed.connect(this._label, this);
    // Before JupyterLab's own: its save is of documents.
    this.node.addEventListener('keydown', this._pressed, true);
  }

  /** Shows a file at a line. */
  go(path: string, line: number | null): void {
    this._at = { path, line };
    this.update();
  }

  /** What is in the tab becomes a new version. */
  async save(): Promise<boolean> {
    if (this._saving) {
      return false;
    }
    this._saving = true;
    this._told = null;
    this.update();
    try {
      const version = await saved(this.context.skills, this.draft, this._note);
      this._note = '';
      this._told = { reference: version.reference, error: undefined };
      this.context.announcer.polite(this.context.trans.__('Saved as %1.', version.reference));
      return true;
    } catch (error) {
      this._told = { reference: null, error };
      return false;
    } finally {
      this._saving = false;
      this.update();
    }
  }

  override dispose(): void {
    if (!this.isDisposed) {
      this.node.removeEventListener('keydown', this._pressed, true);
      this.draft.dispose();
      super.dispose();
    }
  }

  protected override onCloseRequest(msg: Message): void {
    if (!this.draft.dirty) {
      super.onCloseRequest(msg);
      this.dispose();
      return;
    }
    void this._ask();
  }

  protected override body(): React.JSX.Element {
    return (
      <Editor
        draft={this.draft}
        at={this._at}
        saving={this._saving}
        told={this._told}
        note={note => {
          this._note = note;
        }}
        save={() => void this.save()}
      />
    );
  }

  private async _ask(): Promise<void> {
    const { trans } = this.context;
    const { button } = await showDialog({
      title: trans.__('Close without saving?'),
      body: trans.__(
        'Your changes of %1 are not a version yet. They can be kept in this browser until you open it again.',
        this.draft.folder
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Throw away'), actions: ['away'] }),
        ...(this.draft.notKept === null
          ? [Dialog.okButton({ label: trans.__('Keep them'), actions: ['keep'] })]
          : [])
      ]
    });
    if (!button.accept) {
      return;
    }
    if (button.actions.includes('away')) {
      this.draft.throwAway();
    }
    this.dispose();
  }

  private _label(): void {
    const { trans } = this.context;
    const { folder, dirty } = this.draft;
    this.title.label = trans.__('Edit %1', folder);
    this.title.className = dirty ? 'jp-mod-dirty' : '';
    this.title.caption = dirty ? trans.__('Not saved yet') : '';
  }

  private readonly _pressed = (event: KeyboardEvent): void => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === 's') {
      event.preventDefault();
      event.stopPropagation();
      void this.save();
    }
  };

  private _at: { path: string; line: number | null } | null = null;
  private _note = '';
  private _saving = false;
  private _told: { reference: string | null; error: unknown } | null = null;
}

function Editor(props: {
  draft: Draft;
  at: { path: string; line: number | null } | null;
  saving: boolean;
  told: { reference: string | null; error: unknown } | null;
  note: (text: string) => void;
  save: () => void;
}): React.JSX.Element {
  const { draft, at, saving, told, note, save } = props;
  const { skills, api, trans, open } = useSkills();
  const [news, setNews] = React.useState('');
  const [path, setPath] = React.useState(at?.path ?? SKILL_FILE);
  const [goTo, setGoTo] = React.useState<{ line: number } | null>(null);
  const [version, begin] = React.useReducer((count: number) => count + 1, 0);
  const [, changed] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    draft.changed.connect(changed);
    return () => {
      draft.changed.disconnect(changed);
    };
  }, [draft]);
  const go = React.useCallback((to: string, line: number | null): void => {
    setPath(to);
    setGoTo(line === null ? null : { line });
  }, []);
  React.useEffect(() => {
    if (at !== null) {
      go(at.path, at.line);
    }
  }, [at, go]);
  React.useEffect(() => {
    if (told?.reference) {
      setNews(''); // it was of the version that was saved
    }
  }, [told]);
  const check = useCheck(skills, draft);
  const { base } = draft;
  const current = draft.files.some(each => each.path === path && each.change !== 'removed')
    ? path
    : SKILL_FILE;
  const errors = check.checked?.findings.filter(each => each.severity === 'error').length ?? 0;

  return (
    <div
      className="jp-Reprise-skill-editor"
      role="region"
      aria-label={trans.__('Editor of %1', draft.folder)}
    >
      <ConnectionNotice connection={api.connection} trans={trans} />
      <div className="jp-Reprise-skill-bar">
        <h2>{exact(draft.folder)}</h2>
        <span className="jp-Reprise-secondary" role="status">
          {saving
            ? trans.__('Saving…')
            : draft.dirty
              ? trans.__('Not saved yet')
              : base === null
                ? trans.__('New')
                : trans.__('No changes since %1', reference(base.named))}
        </span>
        <label className="jp-Reprise-skill-note">
          <span className="jp-sr-only">{trans.__('What is new')}</span>
          <input
            type="text"
            className="jp-mod-styled"
            maxLength={4_000}
            placeholder={trans.__('What is new')}
            value={news}
            onChange={event => {
              setNews(event.target.value);
              note(event.target.value);
            }}
          />
        </label>
        <button
          type="button"
          className="jp-mod-styled jp-mod-accept"
          disabled={saving || (!draft.dirty && base !== null)}
          title={trans.__('Save as a new version (Ctrl S)')}
          onClick={save}
        >
          {trans.__('Save version')}
        </button>
        <button
          type="button"
          className="jp-mod-styled"
          disabled={saving || !draft.dirty}
          onClick={() => {
            void throwAway(draft, trans).then(gone => {
              if (gone) {
                begin();
              }
            });
          }}
        >
          {trans.__('Throw away changes…')}
        </button>
      </div>
      {told?.error !== undefined && <ErrorNotice error={told.error} trans={trans} again={save} />}
      {told?.reference && !draft.dirty && base !== null && (
        <Notice
          kind="info"
          actions={
            <button type="button" className="jp-mod-styled" onClick={() => open.skill(base.named)}>
              {trans.__('Show it')}
            </button>
          }
        >
          {trans.__('Saved as %1. It is a draft of yours that nobody trusts yet.', told.reference)}
        </Notice>
      )}
      {draft.keptSince !== null && draft.dirty && (
        <Notice kind="info">
          {trans.__('You go on with changes that were not saved on %1.', moment(draft.keptSince))}
        </Notice>
      )}
      {draft.notKept !== null && (
        <Notice kind="warning">
          {draft.notKept === 'large'
            ? trans.__('These changes are too large to be kept if the page is closed. Save them.')
            : trans.__(
                'This browser keeps nothing more. Save these changes before you close the page.'
              )}
        </Notice>
      )}
      {base?.named.scope !== undefined && base.named.scope !== 'personal' && (
        <Notice kind="info">
          {trans.__(
            'You edit a copy: it is saved as yours, and goes to %1 by a promotion.',
            scopeWord(base.named.scope, trans)
          )}
        </Notice>
      )}
      <div className="jp-Reprise-skill-columns">
        <EditorFiles draft={draft} path={current} choose={each => go(each, null)} begin={begin} />
        <div className="jp-Reprise-skill-writing">
          <OneFile
            key={`${current} ${version}`}
            draft={draft}
            path={current}
            version={version}
            findings={check.checked?.findings ?? []}
            goTo={goTo}
          />
        </div>
        <aside
          className="jp-Reprise-skill-checks"
          aria-label={trans.__('Check')}
          aria-busy={check.busy}
        >
          <h3>{trans.__('Check')}</h3>
          {check.error !== undefined && <ErrorNotice error={check.error} trans={trans} />}
          {check.checked === null ? (
            check.error === undefined && <Loading trans={trans} />
          ) : (
            <>
              {check.checked.why_not !== null && errors === 0 && (
                <Notice kind="error">{exact(check.checked.why_not)}</Notice>
              )}
              {(check.checked.why_not === null || errors > 0) && (
                <FindingList findings={check.checked.findings} go={go} />
              )}
              {check.checked.cost !== null && (
                <>
                  <h3>{trans.__('Token cost')}</h3>
                  <CostTable cost={check.checked.cost} counted={false} />
                </>
              )}
            </>
          )}
        </aside>
      </div>
    </div>
  );
}

function OneFile(props: {
  draft: Draft;
  path: string;
  version: number;
  findings: Parameters<typeof placed>[0];
  goTo: { line: number } | null;
}): React.JSX.Element {
  const { draft, path, version, findings, goTo } = props;
  const { editors, trans } = useSkills();
  const begun = useAsked(`${path} ${version}`, () => draft.text(path));
  const [text, setText] = React.useState<string | null>(null);
  const now = text ?? begun.value ?? '';
  const lint = React.useMemo(() => placed(findings, path, now), [findings, path, now]);
  if (begun.value === undefined) {
    return begun.error === undefined ? (
      <Loading trans={trans} rows={6} />
    ) : (
      <ErrorNotice error={begun.error} trans={trans} again={begun.again} />
    );
  }
  if (begun.value === null) {
    return <NoText draft={draft} path={path} />;
  }
  return (
    <TextBox
      editors={editors}
      className="jp-Reprise-skill-textbox"
      mimeType={mimeOf(path)}
      text={begun.value}
      begun={`${path} ${version}`}
      label={trans.__('Text of %1', exact(path))}
      placed={lint}
      goTo={goTo}
      typed={typed => {
        setText(typed);
        draft.setText(path, typed);
      }}
    />
  );
}

function NoText(props: { draft: Draft; path: string }): React.JSX.Element {
  const { draft, path } = props;
  const { trans } = useSkills();
  const bytes = useAsked(path, () => draft.bytes(path));
  const content = bytes.value && contentOf(bytes.value);
  return (
    <div className="jp-Reprise-skill-preview">
      <p>{trans.__('%1 is no text. It can be replaced.', exact(path))}</p>
      {content?.kind === 'picture' && (
        <img src={content.address} alt={trans.__('The picture %1', exact(path))} />
      )}
    </div>
  );
}

async function throwAway(draft: Draft, trans: IContext['trans']): Promise<boolean> {
  const { button } = await showDialog({
    title: trans.__('Throw away what is not saved?'),
    body: trans.__('All files of %1 are as they were before.', draft.folder),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Throw away') })
    ]
  });
  if (button.accept) {
    draft.throwAway();
  }
  return button.accept;
}

/** Asks for a new skill's name; null when the person changed their mind. */
export async function newName(trans: IContext['trans']): Promise<string | null> {
  const { value, button } = await InputDialog.getText({
    title: trans.__('New skill'),
    label: trans.__('Name: lowercase letters, digits, and single hyphens between them'),
    placeholder: 'count-rows',
    pattern: '[a-z0-9]+(-[a-z0-9]+)*',
    required: true,
    okLabel: trans.__('Write it')
  });
  return button.accept ? value : null;
}
