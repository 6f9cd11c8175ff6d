// The status button in a notebook's toolbar: one for each panel, hidden where the kernel is not ours.

import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { ReactWidget, caretDownEmptyIcon } from '@jupyterlab/ui-components';
import { DisposableSet } from '@lumino/disposable';
import * as React from 'react';

import type { INotebookSession, INotice, ISessions } from '../sessions/tokens';

import { useNow } from './clock';
import { backLine, face } from './words';

/** Milliseconds for which the button says that the session is back, and in what time. */
const BACK_SHOWN = 12_000;

/** How many questions wait in a session. */
export type Questions = (session: string) => number;

export class StatusButton extends ReactWidget {
  /**
   * @param open - opens the popup below the given element
   * @param questions - counts what waits for the person
   */
  constructor(
    private readonly panel: NotebookPanel,
    private readonly sessions: ISessions,
    private readonly open: (session: INotebookSession, anchor: HTMLElement) => void,
    private readonly questions: Questions,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-status');
    sessions.changed.connect(this.look, this);
    this.look();
  }

  /** Open the popup, as a press does. */
  press(): void {
    const button = this.node.querySelector('button');
    if (this.session !== null && button !== null) {
      this.open(this.session, button);
    }
  }

  override dispose(): void {
    this.sessions.changed.disconnect(this.look, this);
    this.bound?.dispose();
    super.dispose();
  }

  /** Draw anew because questions came or went. */
  redraw(): void {
    this.update();
  }

  protected override render(): React.ReactElement | null {
    const { session, trans } = this;
    if (session === null) {
      return null;
    }
    const waiting = session.id === null ? 0 : this.questions(session.id);
    return (
      <StatusFace
        session={session}
        back={this.back}
        waiting={waiting}
        press={() => this.press()}
        trans={trans}
      />
    );
  }

  private look(): void {
    const session = this.sessions.get(this.panel);
    if (session !== this.session) {
      this.bound?.dispose();
      this.session = session;
      this.back = null;
      this.bound = session === null ? null : this.follow(session);
    }
    this.setHidden(session === null);
    this.update();
  }

  private follow(session: INotebookSession): IDisposable {
    const disposables = new DisposableSet();
    const changed = (): void => this.update();
    const noticed = (_: unknown, notice: INotice): void => {
      const words = backLine(notice, this.trans);
      if (words !== null) {
        this.showBack(words);
      }
    };
    session.statusChanged.connect(changed);
    session.noticed.connect(noticed);
    disposables.add({
      isDisposed: false,
      dispose: () => {
        session.statusChanged.disconnect(changed);
        session.noticed.disconnect(noticed);
        clearTimeout(this.timer);
      }
    });
    return disposables;
  }

  private showBack(words: string): void {
    this.back = words;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => {
      this.back = null;
      this.update();
    }, BACK_SHOWN);
    this.update();
  }

  private session: INotebookSession | null = null;
  private bound: IDisposable | null = null;
  private back: string | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
}

function StatusFace(props: {
  session: INotebookSession;
  back: string | null;
  waiting: number;
  press: () => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { session, back, waiting, press, trans } = props;
  const { status } = session;
  const now = useNow(status.state === 'resuming');
  const { label, tone, name } = face(status, back, now, trans);
  const questions =
    waiting === 0 ? '' : trans._n('%1 question waits', '%1 questions wait', waiting);
  return (
    <button
      type="button"
      className="jp-Reprise-status-button"
      aria-haspopup="dialog"
      aria-label={questions === '' ? name : `${name}. ${questions}`}
      title={questions === '' ? trans.__('How this session stands') : questions}
      data-state={status.state}
      onClick={press}
    >
      <span className={`jp-Reprise-status-mark jp-mod-${tone}`} aria-hidden="true" />
      <span className="jp-Reprise-status-label">{label}</span>
      {waiting > 0 && (
        <span className="jp-Reprise-status-count" aria-hidden="true">
          {waiting}
        </span>
      )}
      <caretDownEmptyIcon.react tag="span" className="jp-Reprise-status-caret" aria-hidden="true" />
    </button>
  );
}
