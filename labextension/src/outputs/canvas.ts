// Paints recorded messages into a cell's outputs, as JupyterLab does with those of a live kernel.

import type { IOutput } from '@jupyterlab/nbformat';
import { PartialJSONObject } from '@lumino/coreutils';

/** A message as the server tells it: its type on iopub, and its content. */
export type IMessage = readonly [type: string, content: Readonly<Record<string, unknown>>];

/** What is painted on: `IOutputAreaModel` is one. It joins texts, and obeys `\r` and `\b`. */
export interface IPaintable {
  readonly length: number;
  add(output: IOutput): number;
  set(index: number, output: IOutput): void;
  clear(wait?: boolean): void;
}

/** One cell's outputs while they are painted; it knows which of them are which displays. */
export class Canvas {
  constructor(private readonly _outputs: IPaintable) {}

  /** Begin anew. */
  clear(): void {
    this._displays.clear();
    this._clears = false;
    this._outputs.clear();
  }

  /** @param count the cell's prompt number, for its result; null: as the message says */
  paint(messages: readonly IMessage[], count: number | null = null): void {
    for (const [type, content] of messages) {
      this._paint(type, content, count);
    }
  }

  private _paint(type: string, content: IMessage[1], count: number | null): void {
    switch (type) {
      case 'clear_output':
        this._clears = content.wait === true;
        if (!this._clears) {
          this._displays.clear();
        }
        this._outputs.clear(this._clears);
        break;
      case 'stream':
        this._add({ output_type: 'stream', name: content.name, text: content.text });
        break;
      case 'error':
        this._add({
          output_type: 'error',
          ename: content.ename,
          evalue: content.evalue,
          traceback: content.traceback
        });
        break;
      case 'display_data':
      case 'execute_result': {
        const number = count ?? content.execution_count ?? null;
        this._add({
          output_type: type,
          data: content.data,
          metadata: content.metadata ?? {},
          ...(type === 'execute_result' ? { execution_count: number } : {})
        });
        const display = displayOf(content);
        if (display !== null) {
          const at = this._displays.get(display) ?? [];
          this._displays.set(display, [...at, this._outputs.length - 1]);
        }
        break;
      }
      case 'update_display_data':
        for (const index of this._displays.get(displayOf(content) ?? '') ?? []) {
          this._outputs.set(index, {
            output_type: 'display_data',
            data: content.data as PartialJSONObject,
            metadata: (content.metadata ?? {}) as PartialJSONObject
          });
        }
        break;
    }
  }

  private _add(output: { output_type: string; [key: string]: unknown }): void {
    if (this._clears) {
      // The model clears itself before it adds.
      this._displays.clear();
      this._clears = false;
    }
    this._outputs.add(output as IOutput);
  }

  private readonly _displays = new Map<string, readonly number[]>();
  private _clears = false;
}

function displayOf(content: IMessage[1]): string | null {
  const { transient } = content;
  if (typeof transient !== 'object' || transient === null) {
    return null;
  }
  const { display_id } = transient as Record<string, unknown>;
  return typeof display_id === 'string' ? display_id : null;
}
