// A cell's question in a page that did not run the cell: JupyterLab's own input line, answered over REST.

import { CodeCell } from '@jupyterlab/cells';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';
import { Panel } from '@lumino/widgets';

import { IQuestion } from './contract';

export class QuestionLine implements IDisposable {
  /** @param answered told of the answer */
  constructor(
    private readonly _cell: CodeCell,
    question: IQuestion,
    answered: (value: string) => Promise<void>,
    translator: ITranslator | null
  ) {
    const factory = _cell.outputArea.contentFactory;
    this._panel.addClass('jp-OutputArea-child');
    this._panel.addClass('jp-OutputArea-stdin-item');
    this._panel.addClass('jp-Reprise-question');
    const prompt = factory.createOutputPrompt();
    prompt.addClass('jp-OutputArea-prompt');
    this._panel.addWidget(prompt);
    // Of a future, the line takes no more than where its answer goes.
    const future = {
      sendInputReply: (content: KernelMessage.IInputReplyMsg['content']): void => {
        void answered('value' in content ? content.value : '');
      }
    };
    const input = factory.createStdin({
      parent_header: {} as KernelMessage.IInputReplyMsg['parent_header'],
      prompt: question.prompt,
      password: question.password,
      future: future as unknown as Kernel.IShellFuture,
      ...(translator === null ? {} : { translator })
    });
    input.addClass('jp-OutputArea-output');
    this._panel.addWidget(input);
    _cell.outputArea.layout.addWidget(this._panel);
  }

  get isDisposed(): boolean {
    return this._panel.isDisposed;
  }

  dispose(): void {
    if (this.isDisposed) {
      return;
    }
    // Focus does not fall to the page, where keys would act on cells.
    const focused = this._panel.node.contains(document.activeElement);
    this._panel.dispose();
    if (focused && !this._cell.isDisposed) {
      this._cell.node.focus();
    }
  }

  private readonly _panel = new Panel();
}
