// What becomes of a file that comes where another one lies: asked of the person, "Keep both" first.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';

export type Clash = 'keep' | 'replace' | 'cancel';

/** @param where - the folder, in words */
export type AskClash = (name: string, where: string) => Promise<Clash>;

/** A dialog; Enter keeps both. */
export function clashDialog(trans: TranslationBundle): AskClash {
  return async (name, where) => {
    const buttons = [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Replace'), actions: ['replace'] }),
      Dialog.okButton({ label: trans.__('Keep both'), actions: ['keep'] })
    ];
    const { button } = await showDialog({
      title: trans.__('There is a “%1” already', name),
      body: trans.__('In %1. Keep both puts the new one beside it, under another name.', where),
      buttons,
      defaultButton: 2
    });
    const action = button.actions[0];
    return action === 'replace' ? 'replace' : action === 'keep' ? 'keep' : 'cancel';
  };
}

/** One answer for the rest of a batch: whoever cancels once cancels all that follows. */
export function forBatch(ask: AskClash): AskClash {
  let cancelled = false;
  return async (name, where) => {
    if (cancelled) {
      return 'cancel';
    }
    const answer = await ask(name, where);
    cancelled = answer === 'cancel';
    return answer;
  };
}
