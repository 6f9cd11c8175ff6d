// What filling in stands on: the server that is asked, and the notebook that is filled (interfaces only).

import { IMessage } from './canvas';
import { ICellNow, ICellStep, IMemory } from './memory';

/** What the server tells of a step (`getShown`). */
export interface IShown extends ICellStep {
  readonly whole: boolean;
  readonly messages: readonly IMessage[];
  readonly next: string | null;
  readonly more: boolean;
  readonly touched: readonly { readonly cell: string; readonly seq: number }[];
  readonly question: IQuestion | null;
}

export interface IQuestion {
  readonly prompt: string;
  readonly password: boolean;
}

/** The server, asked. Each call rejects with ApiError. */
export interface IShownServer {
  cells(session: string, has: IMemory | null): Promise<ICellsTold>;
  shown(session: string, seq: number, after: string | null): Promise<IShown>;
  answer(session: string, request: string, value: string): Promise<void>;
  /** Say that this page writes outputs into the notebook, or does so no longer. */
  paint(session: string, paints: boolean): Promise<{ paints: boolean; seconds: number }>;
}

export interface ICellsTold {
  readonly steps: number;
  readonly outputs: number;
  readonly own: string;
  readonly after: number | null;
  readonly cells: readonly ICellStep[];
}

/** A request by which this page runs a cell. */
export interface IRequest {
  readonly cell: string;
  /** The connection was lost since it was sent, so what came for it may not be all. */
  readonly broken: boolean;
  readonly ended: boolean;
}

/** A code cell of the notebook. */
export interface ICell {
  readonly now: ICellNow;
  /** Make it show this step from its beginning; null: it runs on. */
  show(told: IShown, live: boolean): void;
  /** Add what the step has shown since. */
  add(told: IShown): void;
  /** Show the step as it is told, where the cell still shows an older part of it. */
  renew(told: IShown): void;
  /** Add what a step showed after its end, where `told` is all of it and `late` only that. */
  addLate(told: IShown, late: IShown): void;
  /** Whether it shows what is told. */
  shows(told: IShown): boolean;
  /** The step is over. count: null where there is no number. */
  end(count: number | null): void;
  /** Ask in the cell, or take the question away. answered: resolves to whether it was heard. */
  ask(question: IQuestion | null, answered: (value: string) => Promise<boolean>): void;
}

/** The notebook in this page. */
export interface INotebookCells {
  /** Whether other pages have the very same document. */
  readonly shared: boolean;
  /** The id of this page's connection to the kernel. */
  readonly client: string | null;
  /** By their msg_id, those of this page. */
  readonly requests: ReadonlyMap<string, IRequest>;
  memory: IMemory | null;
  cell(id: string): ICell | null;
  /** Give up a request of this page: its cell is filled from the log. */
  forget(request: string): void;
  /** Change the notebook. counts: whether it has to be saved for that. */
  change(counts: boolean, work: () => void): void;
}
