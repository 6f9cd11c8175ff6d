/** Commands of the chat. None of them approves anything; they lead to where it is pressed. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import { showErrorMessage } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import { CONTINUABLE } from '../agent/fold';
import type { IConversation } from '../agent/tokens';
import type { Chat } from './chat';
import { askDelete, askTitle, dialogsOf } from './dialogs';
import { titleOf } from './list';
import { ChatCommands } from './tokens';

export function addChatCommands(app: JupyterFrontEnd, chat: Chat, trans: TranslationBundle): void {
  const { commands } = app;
  const { desk, panel, agent } = chat;
  const shown = (): IConversation | null => desk.conversation;
  const yours = (holds: (conversation: IConversation) => boolean): boolean => {
    const conversation = shown();
    return conversation?.yours === true && holds(conversation);
  };
  const titled = (conversation: IConversation): string =>
    titleOf(conversation.info?.title ?? '', trans.__('Untitled conversation'));

  /** What a menu or a key began and what was refused is told to whoever pressed it. */
  const told =
    (work: (conversation: IConversation) => Promise<unknown>): (() => Promise<void>) =>
    async () => {
      const conversation = shown();
      try {
        if (conversation !== null) {
          await work(conversation);
        }
      } catch (failed) {
        const why = failed instanceof Error ? failed.message : String(failed);
        await showErrorMessage(trans.__('Chat'), why);
      }
    };

  commands.addCommand(ChatCommands.open, {
    label: trans.__('Open Chat'),
    caption: trans.__('Ask the agent about this notebook'),
    execute: () => {
      chat.reveal();
      panel.focusInput();
    }
  });
  commands.addCommand(ChatCommands.nextQuestion, {
    label: trans.__('Next Question of the Agent'),
    caption: trans.__('Show what waits for you. It presses nothing.'),
    isEnabled: () => (shown()?.model.questions.length ?? 0) > 0 || waitingElsewhere() !== null,
    execute: () => {
      const elsewhere = waitingElsewhere();
      if ((shown()?.model.questions.length ?? 0) === 0 && elsewhere !== null) {
        chat.show(elsewhere);
      } else {
        chat.reveal();
        desk.listing = false;
      }
      // The panel may be drawn in the frame that follows.
      requestAnimationFrame(() => panel.focusQuestion());
    }
  });
  commands.addCommand(ChatCommands.stop, {
    label: trans.__('Stop the Agent’s Turn'),
    isEnabled: () => yours(each => each.running),
    execute: told(each => each.cancel())
  });
  commands.addCommand(ChatCommands.continue, {
    label: trans.__('Continue the Agent’s Turn'),
    isEnabled: () =>
      yours(each => !each.running && each.ended !== null && CONTINUABLE.has(each.ended)),
    execute: told(each => each.goOn())
  });
  commands.addCommand(ChatCommands.undo, {
    label: trans.__('Undo the Agent’s Turn…'),
    isEnabled: () =>
      yours(each => !each.running && each.model.turns.some(turn => turn.undone === null)),
    execute: told(each => dialogsOf(each, trans).undo())
  });
  commands.addCommand(ChatCommands.fresh, {
    label: trans.__('New Conversation'),
    isEnabled: () => desk.notebook !== null,
    execute: () => {
      chat.reveal();
      desk.fresh();
      panel.focusInput();
    }
  });
  commands.addCommand(ChatCommands.list, {
    label: trans.__('Conversations of This Notebook'),
    execute: () => {
      chat.reveal();
      desk.listing = true;
    }
  });
  commands.addCommand(ChatCommands.rename, {
    label: trans.__('Rename Conversation…'),
    isEnabled: () => yours(each => each.info !== null),
    execute: told(async each => {
      if (each.info !== null) {
        await askTitle(agent, each.info, titled(each), trans);
      }
    })
  });
  for (const [command, as, label] of [
    [ChatCommands.exportMarkdown, 'markdown', trans.__('Export Conversation (Markdown)')],
    [ChatCommands.exportJson, 'json', trans.__('Export Conversation (JSON)')]
  ] as const) {
    commands.addCommand(command, {
      label,
      isEnabled: () => shown() !== null,
      execute: told(each => chat.save(each.info, each.id, as))
    });
  }
  commands.addCommand(ChatCommands.remove, {
    label: trans.__('Delete Conversation…'),
    isEnabled: () => yours(each => !each.running && each.info !== null),
    execute: told(async each => {
      if (each.info !== null && (await askDelete(agent, each.info, titled(each), trans))) {
        desk.forget(each.id);
      }
    })
  });

  function waitingElsewhere(): string | null {
    return agent.opened.find(each => each.model.questions.length > 0)?.id ?? null;
  }

  desk.changed.connect(() => {
    for (const command of Object.values(ChatCommands)) {
      commands.notifyCommandChanged(command);
    }
  });
}
