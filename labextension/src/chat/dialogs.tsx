/** Dialogs before what cannot be taken lightly: undo, retry, resend, delete; each names what happens. */

import { InputDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { CONTINUABLE, standing } from '../agent/fold';
import type { Turn } from '../agent/model';
import type { ConversationInfo, IAgent, IConversation, UndoPlan } from '../agent/tokens';
import { confirmed } from '../parts/confirm';
import { useSurroundings } from './context';

/** Cells, steps and the like that are named one by one. */
const NAMED = 5;

export interface Dialogs {
  /** Ask, then undo the newest turn. */
  undo(): Promise<void>;
  /** Continue a turn that was cut; else ask, undo it and say its words again. */
  retry(turn: Turn): Promise<void>;
  /** Ask, go back to before a turn, and say other words. Whether it was done. */
  resend(turn: Turn, text: string): Promise<boolean>;
}

export function useDialogs(conversation: IConversation): Dialogs {
  const { trans } = useSurroundings();
  return React.useMemo(() => dialogsOf(conversation, trans), [conversation, trans]);
}

export function dialogsOf(conversation: IConversation, trans: TranslationBundle): Dialogs {
  const resend = async (turn: Turn, text: string): Promise<boolean> => {
    const [first, ...more] = standing(conversation.model).filter(each => each.turn >= turn.turn);
    if (first === undefined) {
      // All of it is undone already: there is no plan of an undo.
      await conversation.resend(turn.turn, text);
      return true;
    }
    const plan = await conversation.undoPlan();
    const title =
      more.length === 0
        ? trans.__('Undo turn %1 and say it anew?', first.turn)
        : trans.__('Undo turns %1 to %2 and say it anew?', first.turn, plan.turn);
    if (!(await planned(title, plan, more.length > 0, trans.__('Undo and send'), trans))) {
      return false;
    }
    await conversation.resend(turn.turn, text, plan.others.length > 0);
    return true;
  };
  return {
    async undo() {
      const plan = await conversation.undoPlan();
      const title = trans.__('Undo turn %1?', plan.turn);
      if (await planned(title, plan, false, trans.__('Undo turn'), trans)) {
        await conversation.undo(plan.others.length > 0);
      }
    },
    async retry(turn) {
      if (turn.undone === null && turn.ended !== null && CONTINUABLE.has(turn.ended)) {
        await conversation.goOn();
      } else {
        await resend(turn, turn.said);
      }
    },
    resend
  };
}

async function planned(
  title: string,
  plan: UndoPlan,
  several: boolean,
  label: string,
  trans: TranslationBundle
): Promise<boolean> {
  const fork = plan.others.length > 0;
  const body = <Plan plan={plan} several={several} trans={trans} />;
  return confirmed({ title, body, label: fork ? trans.__('%1 in a fork', label) : label }, trans);
}

/** What comes back, what stays, what is not undone. */
export function Plan(props: {
  plan: UndoPlan;
  several: boolean;
  trans: TranslationBundle;
}): React.JSX.Element {
  const { plan, several, trans } = props;
  const kept = plan.kept.length;
  const others = plan.others.length;
  return (
    <div className="jp-Reprise jp-Reprise-plan">
      <p>
        {several
          ? trans.__('Goes back one turn after the other: cells, files, variables.')
          : plan.at < 0
            ? trans.__('Goes back to before the first step: cells, files, variables.')
            : trans.__('Goes back to step %1: cells, files, variables.', plan.at)}
      </p>
      {plan.cells.length > 0 && (
        <p>{trans._n('1 cell is put back.', '%1 cells are put back.', plan.cells.length)}</p>
      )}
      {kept > 0 && (
        <p>
          {trans._n(
            '1 cell you edited since stays as it is.',
            '%1 cells you edited since stay as they are.',
            kept
          )}
        </p>
      )}
      {plan.notebook !== null && <p>{plan.notebook}</p>}
      {others > 0 && (
        <p>
          {trans.__(
            'Steps of others followed: %1. The notebook goes on in a fork without them; they stay in the session that is left.',
            named(plan.others.map(String))
          )}
        </p>
      )}
      {plan.outside.length > 0 && (
        <>
          <p>{trans.__('Requests already sent are not undone:')}</p>
          <ul>
            {plan.outside.slice(0, NAMED).map((each, place) => (
              <li key={place}>{each}</li>
            ))}
            {plan.outside.length > NAMED && (
              <li>{trans.__('and %1 more', plan.outside.length - NAMED)}</li>
            )}
          </ul>
        </>
      )}
      <p>{trans.__('The session that is left stays listed.')}</p>
    </div>
  );
}

function named(names: readonly string[]): string {
  const rest = names.length - NAMED;
  return rest > 0 ? `${names.slice(0, NAMED).join(', ')} +${rest}` : names.join(', ');
}

/** Ask for a name and give it. */
export async function askTitle(
  agent: IAgent,
  info: ConversationInfo,
  shown: string,
  trans: TranslationBundle
): Promise<void> {
  const { value, button } = await InputDialog.getText({
    title: trans.__('Rename the conversation'),
    label: trans.__('Name'),
    text: info.title === '' ? shown : info.title,
    okLabel: trans.__('Rename')
  });
  const title = value?.trim() ?? '';
  if (button.accept && title !== '' && title !== info.title) {
    await agent.rename(info.id, title.slice(0, 200));
  }
}

/** Ask, then delete for good. Whether it was done. */
export async function askDelete(
  agent: IAgent,
  info: ConversationInfo,
  shown: string,
  trans: TranslationBundle
): Promise<boolean> {
  const asked = {
    title: trans.__('Delete “%1”?', shown),
    body: trans.__(
      'What was said is deleted for good. Its steps stay in their session, and in the timeline.'
    ),
    label: trans.__('Delete')
  };
  const meant = await confirmed(asked, trans);
  if (meant) {
    await agent.delete(info.id);
  }
  return meant;
}
