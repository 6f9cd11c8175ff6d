// A code cell of the page, as it is filled: its outputs, its prompt, and what it asks.

import { CodeCell, ICodeCellModel } from '@jupyterlab/cells';
import { IOutput } from '@jupyterlab/nbformat';
import { OutputAreaModel } from '@jupyterlab/outputarea';
import { ITranslator } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { Canvas } from './canvas';
import { ICell, IQuestion, IShown } from './contract';
import { beginningOf, sameKinds, sameOutputs } from './memory';
import { QuestionLine } from './question';

/**
 * A cell's outputs are changed through their model, one by one, as those of a live kernel are: it
 * tells the shared document itself, and takes what a transaction around several changes would bring
 * back for changes of somebody else.
 */
export class PanelCell implements ICell, IDisposable {
  constructor(
    readonly widget: CodeCell,
    private readonly _translator: ITranslator | null
  ) {
    this._canvas = new Canvas(widget.model.outputs);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get now(): { count: number | null } {
    return { count: this._model.executionCount ?? null };
  }

  show(told: IShown, live: boolean): void {
    const model = this._model;
    this._canvas.clear();
    // What a person ran is trusted, as it is when the person sits there; what an agent ran is not.
    model.trusted = told.actor !== 'agent';
    if (live) {
      model.executionCount = null;
      model.executionState = 'running';
    }
    this._canvas.paint(told.messages, told.execution_count);
    if (!live) {
      this.end(told.execution_count);
    }
  }

  add(told: IShown): void {
    this._canvas.paint(told.messages, told.execution_count);
  }

  renew(told: IShown): void {
    const { outputs } = this._model;
    const now = outputs.toJSON();
    const wanted = drawn(told);
    if (!sameKinds(now, wanted)) {
      return; // somebody cleared it
    }
    wanted.forEach((output, at) => {
      const before = now[at];
      if (before !== undefined && !sameOutputs([before], [output])) {
        outputs.set(at, output);
      }
    });
  }

  addLate(told: IShown, late: IShown): void {
    const now = this._model.outputs.toJSON();
    const whole = drawn(told);
    if (sameOutputs(now, whole)) {
      return;
    }
    if (beginningOf(now, whole)) {
      this.show(told, false);
    } else {
      this.add(late);
    }
  }

  shows(told: IShown): boolean {
    const { count } = this.now;
    return count === told.execution_count && sameOutputs(this._model.outputs.toJSON(), drawn(told));
  }

  end(count: number | null): void {
    const model = this._model;
    model.executionCount = count;
    model.executionState = 'idle';
  }

  ask(question: IQuestion | null, answered: (value: string) => Promise<boolean>): void {
    this._question?.dispose();
    this._question = null;
    if (question === null || this.widget.isDisposed) {
      return;
    }
    const echo = (value: string): void => {
      const said = question.password ? '········' : value;
      this._model.outputs.add({
        output_type: 'stream',
        name: 'stdin',
        text: `${question.prompt} ${said}\n`
      });
    };
    const line = new QuestionLine(
      this.widget,
      question,
      async value => {
        if (!(await answered(value))) {
          return;
        }
        if (this._question === line) {
          this._question = null;
        }
        line.dispose();
        echo(value);
      },
      this._translator
    );
    this._question = line;
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._question?.dispose();
    this._question = null;
  }

  private get _model(): ICodeCellModel {
    return this.widget.model;
  }

  private readonly _canvas: Canvas;
  private _question: QuestionLine | null = null;
  private _isDisposed = false;
}

/** What a step shows, as a notebook has it. */
function drawn(told: IShown): IOutput[] {
  const model = new OutputAreaModel({ trusted: false });
  new Canvas(model).paint(told.messages, told.execution_count);
  const outputs = model.toJSON();
  model.dispose();
  return outputs;
}
