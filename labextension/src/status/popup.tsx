// The popup of the status button: how the session stands, in words, and what can be done about it.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { Message } from '@lumino/messaging';

import { ReactWidget } from '@jupyterlab/ui-components';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

import type { INotebookSession } from '../sessions/tokens';
import type { Questions } from './button';

import { ErrorNotice, Notice } from '../parts/notices';
import { count } from '../parts/words';
import { useNow } from './clock';
import { about, deathLine, memory, percent, snapshotLine, stateLines, steps } from './words';

/** What the popup leads to. `null`: that part is not there. */
export interface IActs {
  readonly chooseEnvironment: ((session: INotebookSession) => void) | null;
  readonly showNetwork: ((session: INotebookSession) => void) | null;
  readonly showTimeline: ((session: INotebookSession) => void) | null;
  readonly showQuestion: ((session: INotebookSession) => void) | null;
  readonly fork: ((session: INotebookSession) => void) | null;
  readonly startKernel: (session: INotebookSession) => void;
}

/** Milliseconds between two questions for memory and steps while the popup is open. */
const LOOK_AGAIN = 2_000;

/** Pixels: how wide it is, and how near it comes to the window's edge. */
const WIDTH = 400;
const EDGE = 8;

export class StatusPopup extends ReactWidget {
  constructor(
    private readonly session: INotebookSession,
    private readonly anchor: HTMLElement,
    private readonly acts: IActs,
    private readonly questions: Questions,
    private readonly trans: TranslationBundle
  ) {
    super();
    this.addClass('jp-Reprise');
    this.addClass('jp-Reprise-status-popup');
    this.addClass('jp-ThemedContainer');
    this.node.setAttribute('role', 'dialog');
    this.node.setAttribute('aria-label', trans.__('Session status'));
    this.node.tabIndex = -1;
    session.statusChanged.connect(this.update, this);
    session.disposed.connect(this.dispose, this);
  }

  /** Show it below its button, and put the focus into it. */
  launch(): void {
    this.anchor.setAttribute('aria-expanded', 'true');
    Widget.attach(this, document.body);
    this.place();
    this.node.focus({ preventScroll: true });
  }

  override dispose(): void {
    if (this.isDisposed) {
      return;
    }
    const held = this.node.contains(document.activeElement);
    this.session.statusChanged.disconnect(this.update, this);
    this.session.disposed.disconnect(this.dispose, this);
    this.anchor.removeAttribute('aria-expanded');
    super.dispose();
    if (held && this.anchor.isConnected) {
      this.anchor.focus();
    }
  }

  handleEvent(event: Event): void {
    const target = event.target as Node;
    if (event.type === 'keydown') {
      if ((event as KeyboardEvent).key === 'Escape') {
        event.preventDefault();
        event.stopPropagation();
        this.dispose();
      }
    } else if (event.type === 'resize') {
      this.place();
    } else if (event.type === 'focusout') {
      // Tabbed out of it: it is done. A click elsewhere in it leaves no focus anywhere.
      const next = (event as FocusEvent).relatedTarget;
      if (next instanceof Node && !this.node.contains(next) && !this.anchor.contains(next)) {
        this.dispose();
      }
    } else if (!this.node.contains(target) && !this.anchor.contains(target)) {
      this.dispose();
    }
  }

  protected override render(): React.ReactElement {
    const { session, acts, trans } = this;
    const waiting = session.id === null ? 0 : this.questions(session.id);
    return (
      <StatusBody
        session={session}
        acts={acts}
        waiting={waiting}
        close={() => this.dispose()}
        trans={trans}
      />
    );
  }

  protected override onUpdateRequest(message: Message): void {
    super.onUpdateRequest(message);
    void this.renderPromise?.then(() => {
      // A button that had the focus may be gone with its state: else Escape would reach nothing.
      if (this.isAttached && document.activeElement === document.body) {
        this.node.focus({ preventScroll: true });
      }
    });
  }

  protected override onAfterAttach(message: Message): void {
    super.onAfterAttach(message);
    this.node.addEventListener('keydown', this);
    this.node.addEventListener('focusout', this);
    document.addEventListener('pointerdown', this, true);
    window.addEventListener('resize', this);
    void this.session.refresh();
    this.timer = setInterval(() => void this.session.refresh(), LOOK_AGAIN);
  }

  protected override onBeforeDetach(message: Message): void {
    clearInterval(this.timer);
    this.node.removeEventListener('keydown', this);
    this.node.removeEventListener('focusout', this);
    document.removeEventListener('pointerdown', this, true);
    window.removeEventListener('resize', this);
    super.onBeforeDetach(message);
  }

  /** Below the button, right edges together as far as the window has room. */
  private place(): void {
    const anchor = this.anchor.getBoundingClientRect();
    const { style } = this.node;
    const top = anchor.bottom + 4;
    const right = Math.min(innerWidth - anchor.right, innerWidth - WIDTH - EDGE);
    style.top = `${top}px`;
    style.right = `${Math.max(EDGE, right)}px`;
    style.maxHeight = `${Math.max(120, innerHeight - top - EDGE)}px`;
  }

  private timer: ReturnType<typeof setInterval> | undefined;
}

function StatusBody(props: {
  session: INotebookSession;
  acts: IActs;
  waiting: number;
  close: () => void;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { session, acts, waiting, close, trans } = props;
  const { status } = session;
  const [failure, setFailure] = React.useState<unknown>(null);
  const now = useNow(status.state === 'resuming');
  /** What leads elsewhere closes the popup; what is done here may fail here. */
  const lead = (act: ((session: INotebookSession) => void) | null): (() => void) | null =>
    act === null
      ? null
      : () => {
          close();
          act(session);
        };
  const ask = (act: () => Promise<void>): void => {
    setFailure(null);
    act().catch(setFailure);
  };
  const death = deathLine(status, trans);
  const open = status.backend !== null && !status.backend.isolated;
  return (
    <>
      {status.backend !== null && open && (
        <Notice kind="warning">
          <strong>{trans.__('Not isolated')}</strong>. {status.backend.isolation}
        </Notice>
      )}
      {death !== null && <p className="jp-Reprise-status-line">{death}</p>}
      {stateLines(status, now, trans).map(line => (
        <p key={line} className="jp-Reprise-status-line">
          {line}
        </p>
      ))}
      <Resume session={session} ask={ask} fork={lead(acts.fork)} acts={acts} trans={trans} />
      {failure !== null && <ErrorNotice error={failure} trans={trans} />}
      {waiting > 0 && acts.showQuestion !== null && (
        <Fact label={trans.__('Waiting for you')}>
          {trans._n('%1 question', '%1 questions', waiting)}
          <Lead act={lead(acts.showQuestion)}>{trans.__('Show')}</Lead>
        </Fact>
      )}
      <Facts session={session} acts={acts} lead={lead} trans={trans} />
      <Notices session={session} trans={trans} />
    </>
  );
}

function Resume(props: {
  session: INotebookSession;
  ask: (act: () => Promise<void>) => void;
  fork: (() => void) | null;
  acts: IActs;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { session, ask, fork, acts, trans } = props;
  const { state, resume } = session.status;
  const button = (label: string, act: () => void, accept = true): React.JSX.Element => (
    <button
      type="button"
      className={accept ? 'jp-mod-styled jp-mod-accept' : 'jp-mod-styled'}
      onClick={act}
    >
      {label}
    </button>
  );
  switch (state) {
    case 'resuming':
      return (
        <div className="jp-Reprise-status-resume">
          {resume !== null && (
            <>
              <div
                className="jp-Reprise-status-progress"
                role="progressbar"
                aria-label={trans.__('Coming back')}
                aria-valuemin={0}
                aria-valuemax={resume.total}
                aria-valuenow={resume.done}
                aria-valuetext={trans.__('%1 of %2', resume.done, resume.total)}
              >
                <div
                  className="jp-Reprise-status-progress-bar"
                  style={{ width: `${percent(resume.done, resume.total)}%` }}
                />
              </div>
              <span className="jp-Reprise-status-resume-count">
                {trans.__('%1 of %2', resume.done, resume.total)}
              </span>
            </>
          )}
          {button(trans.__('Cancel'), () => ask(() => session.cancelResume()), false)}
        </div>
      );
    case 'waiting':
      return (
        <div className="jp-Reprise-actions">
          {button(trans.__('Start now'), () => ask(() => session.startNow()))}
        </div>
      );
    case 'stopped':
      return (
        <div className="jp-Reprise-actions">
          {button(trans.__('Go on'), () => ask(() => session.startNow()))}
        </div>
      );
    case 'failed':
      return (
        <div className="jp-Reprise-actions">
          {button(trans.__('Try again'), () => ask(() => session.startNow()))}
        </div>
      );
    case 'held':
      return fork === null ? null : (
        <div className="jp-Reprise-actions">{button(trans.__('Fork'), fork)}</div>
      );
    case 'ended':
      return (
        <div className="jp-Reprise-actions">
          {button(trans.__('Start kernel'), () => acts.startKernel(session))}
        </div>
      );
    default:
      return null;
  }
}

function Facts(props: {
  session: INotebookSession;
  acts: IActs;
  lead: (act: ((session: INotebookSession) => void) | null) => (() => void) | null;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { session, acts, trans } = props;
  const { status } = session;
  // They lead to what is known of a session: there is nothing to lead to before it is known itself.
  const lead: typeof props.lead = session.id === null ? () => null : props.lead;
  const { backend, environment, memory: used, back } = status;
  const closed = trans.__('No network');
  const network =
    status.shut ?? (status.network === null ? closed : (status.network.text ?? closed));
  return (
    <dl className="jp-Reprise-status-facts">
      {backend?.isolated === true && <Fact label={trans.__('Isolation')}>{backend.isolation}</Fact>}
      {environment !== null && (
        <Fact label={trans.__('Environment')}>
          {environment.name}
          <Lead act={lead(acts.chooseEnvironment)} label={trans.__('Change the environment')}>
            {trans.__('Change…')}
          </Lead>
        </Fact>
      )}
      {used.used !== null && (
        <Fact label={trans.__('Memory')}>
          {used.limit === null
            ? memory(used.used)
            : trans.__('%1 of %2', memory(used.used), memory(used.limit))}
        </Fact>
      )}
      {status.steps !== null && (
        <Fact label={trans.__('Steps')}>
          {count(status.steps)}
          <Lead act={lead(acts.showTimeline)} label={trans.__('Show the steps in the timeline')}>
            {trans.__('Timeline')}
          </Lead>
        </Fact>
      )}
      <Fact label={trans.__('Last snapshot')}>{snapshotLine(status, trans)}</Fact>
      {back !== null && (
        <Fact label={trans.__('Last came back')}>
          {trans.__('%1 in %2', steps(back.steps, trans), about(back.seconds, trans))}
        </Fact>
      )}
      <Fact label={trans.__('Network')}>
        {network}
        <Lead act={lead(acts.showNetwork)} label={trans.__('Show what asked for the network')}>
          {trans.__('Requests')}
        </Lead>
      </Fact>
      {status.static !== null && (
        <Fact label={trans.__('Outputs')}>
          {status.static.why ?? trans.__('Shown without scripts.')}
        </Fact>
      )}
    </dl>
  );
}

function Fact(props: { label: string; children: React.ReactNode }): React.JSX.Element {
  return (
    <div className="jp-Reprise-status-fact">
      <dt>{props.label}</dt>
      <dd>{props.children}</dd>
    </div>
  );
}

function Lead(props: {
  act: (() => void) | null;
  label?: string;
  children: React.ReactNode;
}): React.JSX.Element | null {
  return props.act === null ? null : (
    <button
      type="button"
      className="jp-Reprise-status-lead"
      aria-label={props.label}
      onClick={props.act}
    >
      {props.children}
    </button>
  );
}

/** Codes that the popup says elsewhere. */
const SAID = new Set(['not-isolated', 'resumed']);

function Notices(props: {
  session: INotebookSession;
  trans: TranslationBundle;
}): React.JSX.Element | null {
  const { session, trans } = props;
  const told = session.notices
    .filter(each => !SAID.has(each.code))
    .slice(-20)
    .reverse();
  if (told.length === 0) {
    return null;
  }
  return (
    <details className="jp-Reprise-status-notices">
      <summary>{trans._n('%1 notice', '%1 notices', told.length)}</summary>
      <ul>
        {told.map((each, index) => (
          <li key={`${each.at} ${index}`}>{each.text}</li>
        ))}
      </ul>
    </details>
  );
}
