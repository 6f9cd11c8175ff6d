// What of a session's course is said to screen readers: gone, quarters of the way, back.

import type { TranslationBundle } from '@jupyterlab/translation';
import type { IDisposable } from '@lumino/disposable';

import { DisposableDelegate } from '@lumino/disposable';

import type { IAnnouncer } from '../parts/tokens';
import type { INotebookSession, INotice } from '../sessions/tokens';

import { announcement, backLine, quarter } from './words';

/** Announce a session until what is returned is disposed. */
export function announceSession(
  session: INotebookSession,
  announcer: IAnnouncer,
  trans: TranslationBundle
): IDisposable {
  let before = session.status;
  const changed = (): void => {
    const now = session.status;
    const said = announcement(before, now, trans);
    if (said !== null) {
      announcer[said.assertive ? 'assertive' : 'polite'](said.text);
    }
    const mark = quarter(before, now);
    if (mark !== null) {
      announcer.polite(trans.__('Coming back: %1 %', mark));
    }
    before = now;
  };
  const noticed = (_: unknown, notice: INotice): void => {
    const words = backLine(notice, trans);
    if (words !== null) {
      announcer.polite(words);
    }
  };
  session.statusChanged.connect(changed);
  session.noticed.connect(noticed);
  return new DisposableDelegate(() => {
    session.statusChanged.disconnect(changed);
    session.noticed.disconnect(noticed);
  });
}
