// A dialog before what cannot be taken lightly.

import { Dialog, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

/** Ask whether it is meant; the button's label says what happens. Enter on its own is a no. */
export async function confirmed(
  asked: {
    readonly title: string;
    readonly body: Dialog.IOptions<unknown>['body'];
    readonly label: string;
  },
  trans: TranslationBundle
): Promise<boolean> {
  const { title, body, label } = asked;
  const { button } = await showDialog({
    title,
    body,
    buttons: [Dialog.cancelButton({ label: trans.__('Cancel') }), Dialog.warnButton({ label })],
    defaultButton: 0
  });
  return button.accept;
}
