// A session goes on in another environment: asked for, pressed where it widens, its kernel restarted.

import { Dialog, showDialog, showErrorMessage } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { ApiError } from '../api/tokens';
import { IAnnouncer } from '../parts/tokens';
import { INotebookSession, ISessions } from '../sessions/tokens';
import { chooseEnvironment } from './choose';
import { IEnvironments } from './tokens';

export interface IMoving {
  readonly environments: IEnvironments;
  readonly sessions: ISessions;
  readonly announcer: IAnnouncer | null;
  readonly trans: TranslationBundle;
}

/** Ask where to, and go there. */
export async function changeEnvironment(
  parts: IMoving,
  session: string,
  wanted: string | null
): Promise<void> {
  const { environments, sessions, trans } = parts;
  const open = sessions.all.find(each => each.id === session) ?? null;
  if (open === null) {
    await showDialog({
      title: trans.__('Open its notebook first'),
      body: trans.__(
        'A session goes on in another environment with the files of its running kernel. Nothing was changed.'
      ),
      buttons: [Dialog.okButton()]
    });
    return;
  }
  const now = open.status.environment?.name ?? null;
  const chosen = await chooseEnvironment({
    environments,
    trans,
    title: trans.__('Go on in another environment'),
    accept: trans.__('New session'),
    said: <Said session={open} now={now} trans={trans} />,
    without: now,
    first: wanted
  });
  if (chosen === null) {
    return;
  }
  try {
    await environments.move(session, chosen);
  } catch (error) {
    // Not pressed: nothing was changed, and the person knows.
    if (!(error instanceof ApiError && error.code === 'cancelled')) {
      await showErrorMessage(trans.__('It stays in its environment'), asError(error));
    }
    return;
  }
  try {
    await open.restart();
    parts.announcer?.polite(trans.__('Now in the environment %1, without variables.', chosen));
  } catch (error) {
    await showErrorMessage(
      trans.__('Its kernel was not restarted: it is in %1 when you restart it', chosen),
      asError(error)
    );
  }
}

function Said(props: {
  session: INotebookSession;
  now: string | null;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { session, now, trans } = props;
  const { steps } = session.status;
  return (
    <div className="jp-Reprise-environment-said">
      <p>
        {steps === null || steps === 0
          ? trans.__('New session with its files, without variables.')
          : trans.__("New session with step %1's files, without variables.", steps - 1)}
      </p>
      <p className="jp-Reprise-secondary">
        {now === null
          ? trans.__('The session you leave stays as it is, and listed.')
          : trans.__('The session you leave stays as it is, in %1, and listed.', now)}{' '}
        {trans.__('Hosts that were allowed for it alone stay behind.')}
      </p>
    </div>
  );
}

/**
 * Start a session's kernel anew, as after a crash: its steps are played again, so that nothing is
 * lost, and it has what was chosen meanwhile.
 */
export async function startAgain(session: INotebookSession): Promise<void> {
  const { context, sessionContext } = session.panel;
  const name = sessionContext.session?.kernel?.name;
  if (name === undefined) {
    await sessionContext.startKernel();
    return;
  }
  // A kernel that starts finds its session by what the file says.
  await context.save();
  await sessionContext.changeKernel({ name });
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
