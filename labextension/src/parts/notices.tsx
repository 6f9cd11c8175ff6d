// What every surface says in the same way: empty, loading, offline, signed out, failed, no permission.

import { PageConfig, URLExt } from '@jupyterlab/coreutils';
import { TranslationBundle } from '@jupyterlab/translation';
import { LabIcon, UseSignal } from '@jupyterlab/ui-components';
import * as React from 'react';

import { ApiError, IConnection, Line } from '../api/tokens';
import { copyText } from './clipboard';
import { errorIcon, infoIcon, warningIcon } from './icons';
import { moment } from './words';

/** At most three lines, and one action. */
export function Empty(props: {
  lines: readonly string[];
  action?: { label: string; run: () => void };
}): React.JSX.Element {
  return (
    <div className="jp-Reprise-empty">
      {props.lines.map(line => (
        <p key={line}>{line}</p>
      ))}
      {props.action && (
        <button className="jp-mod-styled jp-mod-accept" onClick={props.action.run}>
          {props.action.label}
        </button>
      )}
    </div>
  );
}

/** Grey bars after 300 ms, words after 2 s: what comes at once flickers otherwise. */
export function Loading(props: {
  trans: TranslationBundle;
  rows?: number;
}): React.JSX.Element | null {
  const [stage, setStage] = React.useState(0);
  React.useEffect(() => {
    const timers = [setTimeout(setStage, 300, 1), setTimeout(setStage, 2_000, 2)];
    return () => timers.forEach(clearTimeout);
  }, []);
  if (stage === 0) {
    return null;
  }
  return (
    <div className="jp-Reprise-loading" aria-busy="true">
      {Array.from({ length: props.rows ?? 3 }, (_, index) => (
        <div key={index} className="jp-Reprise-skeleton" />
      ))}
      {stage === 2 && <p role="status">{props.trans.__('Still loading…')}</p>}
    </div>
  );
}

/** A sentence with its icon; `children` are its actions. */
export function Notice(props: {
  kind: 'info' | 'warning' | 'error';
  children: React.ReactNode;
  actions?: React.ReactNode;
}): React.JSX.Element {
  const icon: LabIcon = { info: infoIcon, warning: warningIcon, error: errorIcon }[props.kind];
  return (
    <div
      className={`jp-Reprise-notice jp-mod-${props.kind}`}
      role={props.kind === 'error' ? 'alert' : 'note'}
    >
      <icon.react className="jp-Reprise-notice-icon" tag="span" aria-hidden="true" />
      <div className="jp-Reprise-notice-text">{props.children}</div>
      {props.actions && <div className="jp-Reprise-actions">{props.actions}</div>}
    </div>
  );
}

/** What went wrong, as the server told it, with what to copy for those who help. */
export function ErrorNotice(props: {
  error: unknown;
  trans: TranslationBundle;
  again?: () => void;
}): React.JSX.Element {
  const { error, trans } = props;
  const message = error instanceof Error ? error.message : String(error);
  const details =
    error instanceof ApiError
      ? `${error.status} ${error.code}: ${message} ${JSON.stringify(error.detail)}`
      : error instanceof Error && error.stack
        ? error.stack
        : message;
  return (
    <Notice
      kind="error"
      actions={
        <>
          {props.again && (
            <button className="jp-mod-styled" onClick={props.again}>
              {trans.__('Try again')}
            </button>
          )}
          <button className="jp-mod-styled" onClick={() => void copyText(details)}>
            {trans.__('Copy details')}
          </button>
        </>
      }
    >
      {message}
    </Notice>
  );
}

/** Says that the line is gone, or that one is signed out; nothing while it stands. */
export function ConnectionNotice(props: {
  connection: IConnection;
  trans: TranslationBundle;
}): React.JSX.Element {
  return (
    <UseSignal signal={props.connection.changed} initialArgs={props.connection.line}>
      {() => <OffLine {...props} line={props.connection.line} />}
    </UseSignal>
  );
}

function OffLine(props: {
  connection: IConnection;
  trans: TranslationBundle;
  line: Line;
}): React.JSX.Element | null {
  const { connection, trans, line } = props;
  const [, tick] = React.useReducer((count: number) => count + 1, 0);
  const waits = line.state === 'offline';
  React.useEffect(() => {
    if (!waits) {
      return undefined;
    }
    const timer = setInterval(tick, 1_000);
    return () => clearInterval(timer);
  }, [waits]);
  if (line.state === 'online') {
    return null;
  }
  if (line.state === 'expired') {
    const next = encodeURIComponent(window.location.pathname + window.location.search);
    return (
      <Notice
        kind="warning"
        actions={
          <a
            className="jp-Reprise-link"
            href={`${URLExt.join(PageConfig.getBaseUrl(), 'login')}?next=${next}`}
          >
            {trans.__('Sign in')}
          </a>
        }
      >
        {trans.__('You are signed out. Nothing is lost; running steps go on.')}
      </Notice>
    );
  }
  const seconds = Math.max(1, Math.ceil((line.next.getTime() - Date.now()) / 1_000));
  return (
    <Notice
      kind="warning"
      actions={
        <button className="jp-mod-styled" onClick={() => void connection.tryNow()}>
          {trans.__('Try now')}
        </button>
      }
    >
      {trans.__('Connection lost. What you see is as of %1.', moment(line.since))}{' '}
      <span aria-hidden="true">{trans.__('Next try in %1 s.', seconds)}</span>
    </Notice>
  );
}
