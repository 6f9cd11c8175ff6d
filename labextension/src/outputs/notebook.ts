// The notebook of a panel as the service fills it: its cells, what this page runs, what it remembers.

import { CodeCell } from '@jupyterlab/cells';
import { NotebookPanel } from '@jupyterlab/notebook';
import { OutputArea } from '@jupyterlab/outputarea';
import { Kernel, KernelMessage } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';
import { Signal } from '@lumino/signaling';

import { PanelCell } from './cell';
import { ICell, INotebookCells, IRequest } from './contract';
import { IMemory, readMemory, withMemory } from './memory';

/** Requests of this page that are remembered after their end, for what their threads print. */
const REMEMBERED = 500;

interface ISent {
  cell: string;
  broken: boolean;
  ended: boolean;
  /** Its reply has come, and its idle: they travel on channels of their own. */
  reply: IMemory | null;
  replied: boolean;
  idle: boolean;
}

/** What of the kernel's messages the service has to hear of. */
export interface IHearing {
  heard(request: string): void;
  ran(cell: string): void;
  ended(step: { session: string; step: number; outputs: number }): void;
  /** The connection stands, for the first time or again. */
  connected(): void;
}

export class PanelCells implements INotebookCells, IDisposable {
  constructor(
    private readonly _panel: NotebookPanel,
    private readonly _translator: ITranslator | null
  ) {}

  /** Begin to listen; what is to be told goes to `hearing`. */
  listen(hearing: IHearing): void {
    this._hearing = hearing;
    this._panel.sessionContext.kernelChanged.connect(this._onKernel, this);
    this._onKernel();
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  get shared(): boolean {
    return this._panel.model?.collaborative ?? false;
  }

  get client(): string | null {
    return this._kernel?.clientId ?? null;
  }

  get requests(): ReadonlyMap<string, IRequest> {
    return this._requests;
  }

  get memory(): IMemory | null {
    return readMemory(this._panel.model?.sharedModel.getMetadata('reprise'));
  }

  set memory(memory: IMemory | null) {
    const shared = this._panel.model?.sharedModel;
    if (shared === undefined || memory === null || memory.step === null) {
      return;
    }
    const { session, step, outputs } = memory;
    const before = shared.getMetadata('reprise');
    const after = withMemory(before, { session, step, outputs: outputs ?? 0 });
    if (JSON.stringify(before) !== JSON.stringify(after)) {
      shared.setMetadata('reprise', after);
    }
  }

  cell(id: string): ICell | null {
    const widget = this._widget(id);
    if (widget === null) {
      return null;
    }
    let cell = this._cells.get(id);
    if (cell === undefined || cell.widget !== widget) {
      cell?.dispose();
      cell = new PanelCell(widget, this._translator);
      this._cells.set(id, cell);
      widget.disposed.connect(() => {
        if (this._cells.get(id)?.widget === widget) {
          this._cells.delete(id);
        }
      });
    }
    return cell;
  }

  forget(request: string): void {
    const sent = this._requests.get(request);
    if (sent === undefined) {
      return;
    }
    this._requests.delete(request);
    // Whoever waits for it in the page waits no longer.
    this._futures.get(request)?.dispose();
    this._futures.delete(request);
  }

  change(counts: boolean, work: () => void): void {
    const model = this._panel.model;
    if (model === null) {
      return;
    }
    const dirty = model.dirty;
    work();
    if (!counts && !dirty) {
      model.dirty = false;
    }
  }

  dispose(): void {
    if (this._isDisposed) {
      return;
    }
    this._isDisposed = true;
    this._leaveKernel();
    this._cells.forEach(cell => {
      cell.dispose();
    });
    this._cells.clear();
    Signal.clearData(this);
  }

  private _widget(id: string): CodeCell | null {
    const found = this._panel.isDisposed
      ? undefined
      : this._panel.content.widgets.find(widget => widget.model.id === id);
    return found instanceof CodeCell ? found : null;
  }

  // The kernel ---------------------------------------------------------------------------------------

  private _onKernel(): void {
    const kernel = this._panel.sessionContext.session?.kernel ?? null;
    if (kernel === this._kernel) {
      return;
    }
    this._leaveKernel();
    this._kernel = kernel;
    if (kernel === null) {
      return;
    }
    kernel.anyMessage.connect(this._onMessage, this);
    kernel.iopubMessage.connect(this._onIOPub, this);
    kernel.connectionStatusChanged.connect(this._onConnection, this);
    this._stood = kernel.connectionStatus === 'connected';
    if (this._stood) {
      this._hearing?.connected();
    }
  }

  private _leaveKernel(): void {
    const kernel = this._kernel;
    this._kernel = null;
    if (kernel !== null) {
      kernel.anyMessage.disconnect(this._onMessage, this);
      kernel.iopubMessage.disconnect(this._onIOPub, this);
      kernel.connectionStatusChanged.disconnect(this._onConnection, this);
      this._interrupted();
    }
  }

  private _onConnection(_: Kernel.IKernelConnection, status: Kernel.ConnectionStatus): void {
    if (status === 'connected') {
      this._stood = true;
      this._hearing?.connected();
    } else if (this._stood) {
      this._stood = false;
      this._interrupted();
    }
  }

  /**
   * What comes from here on for requests that run may not be all of it: messages in the dead
   * connection are lost, and Jupyter keeps later ones only where no other page is connected. So the
   * cells leave their requests, and are filled from the log.
   */
  private _interrupted(): void {
    for (const [request, sent] of this._requests) {
      if (sent.ended || sent.broken) {
        continue;
      }
      sent.broken = true;
      const area = this._widget(sent.cell)?.outputArea;
      if (area !== undefined && requestOf(area) === request) {
        const future = area.detachFuture();
        if (future !== null) {
          this._futures.set(request, future);
        }
      }
    }
  }

  private _onMessage(
    _: Kernel.IKernelConnection,
    { msg, direction }: Kernel.IAnyMessageArgs
  ): void {
    if (direction === 'send') {
      if (msg.header.msg_type === 'execute_request') {
        this._sent(msg);
      }
      return;
    }
    const parent = msg.parent_header as Partial<KernelMessage.IHeader>;
    const request = parent.msg_id;
    if (request === undefined || !RUNS.has(parent.msg_type ?? '')) {
      return;
    }
    const sent = this._requests.get(request);
    if (sent === undefined || sent.broken) {
      if (msg.channel === 'iopub') {
        this._hearing?.heard(request);
      }
    } else if (msg.channel === 'shell') {
      sent.replied = true;
      sent.reply = readMemory((msg.metadata as Record<string, unknown>).reprise);
      this._endIfOver(sent);
    } else if (sent.ended && msg.channel === 'iopub' && msg.header.msg_type !== 'status') {
      this._hearing?.heard(request);
    }
  }

  /** After it was painted. */
  private _onIOPub(_: Kernel.IKernelConnection, msg: KernelMessage.IIOPubMessage): void {
    if (KernelMessage.isStatusMsg(msg) && msg.content.execution_state === 'idle') {
      const sent = this._requests.get(
        (msg.parent_header as Partial<KernelMessage.IHeader>).msg_id ?? ''
      );
      if (sent !== undefined && !sent.broken) {
        sent.idle = true;
        this._endIfOver(sent);
      }
    }
  }

  private _endIfOver(sent: ISent): void {
    if (!sent.replied || !sent.idle || sent.ended) {
      return;
    }
    sent.ended = true;
    const { reply } = sent;
    if (reply !== null && reply.step !== null) {
      this._hearing?.ended({
        session: reply.session,
        step: reply.step,
        outputs: reply.outputs ?? 0
      });
    }
  }

  private _sent(msg: KernelMessage.IMessage): void {
    const cell = (msg.metadata as Record<string, unknown>).cellId;
    if (typeof cell !== 'string') {
      return;
    }
    this._requests.set(msg.header.msg_id, {
      cell,
      broken: false,
      ended: false,
      reply: null,
      replied: false,
      idle: false
    });
    this._hearing?.ran(cell);
    for (const [request, { ended }] of this._requests) {
      if (this._requests.size <= REMEMBERED) {
        break;
      }
      if (ended) {
        this._requests.delete(request);
      }
    }
  }

  private _kernel: Kernel.IKernelConnection | null = null;
  private _stood = false;
  private _hearing: IHearing | null = null;
  private readonly _requests = new Map<string, ISent>();
  private readonly _futures = new Map<string, IDisposable>();
  private readonly _cells = new Map<string, PanelCell>();
  private _isDisposed = false;
}

/** The request whose output an area shows as it comes; null: none. */
function requestOf(area: OutputArea): string | null {
  // JupyterLab's type forgets that there may be no future.
  const future = area.future as { msg: { header: { msg_id: string } } } | null | undefined;
  return future?.msg.header.msg_id ?? null;
}

/** Requests that run cells. */
const RUNS = new Set(['execute_request', 'step_request']);
