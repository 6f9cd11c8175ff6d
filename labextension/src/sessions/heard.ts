// What a message of a kernel's iopub channel says of its session (pure).

import type { KernelMessage } from '@jupyterlab/services';

type Content = Readonly<Record<string, unknown>>;

/** One message, as far as sessions are concerned. */
export type Heard =
  | { readonly what: 'status'; readonly content: Content }
  | { readonly what: 'progress'; readonly content: Content }
  | { readonly what: 'notice'; readonly content: Content }
  | { readonly what: 'attached'; readonly content: Content }
  /** A step began; `cell`: in which something runs for long, unlike a widget's message. */
  | { readonly what: 'began'; readonly cell: boolean }
  | { readonly what: 'ended'; readonly cell: boolean };

const OWN: Readonly<Record<string, 'status' | 'progress' | 'notice' | 'attached'>> = {
  reprise_status: 'status',
  reprise_progress: 'progress',
  reprise_notice: 'notice',
  reprise_attached: 'attached'
};

/** Requests whose end is the end of a step. */
const STEPS = new Set(['execute_request', 'step_request']);
const COMMS = new Set(['comm_open', 'comm_msg', 'comm_close']);

/** Null: it says nothing of the session. */
export function heard(message: KernelMessage.IMessage): Heard | null {
  const kind: string = message.header.msg_type;
  const own = OWN[kind];
  if (own !== undefined) {
    return { what: own, content: message.content as unknown as Content };
  }
  if (kind !== 'status') {
    return null;
  }
  const parent = parentOf(message);
  const cell = STEPS.has(parent);
  if (!cell && !COMMS.has(parent)) {
    return null;
  }
  const state = (message as KernelMessage.IStatusMsg).content.execution_state;
  if (state === 'busy') {
    return { what: 'began', cell };
  }
  return state === 'idle' ? { what: 'ended', cell } : null;
}

function parentOf(message: KernelMessage.IMessage): string {
  const header = message.parent_header;
  return 'msg_type' in header ? header.msg_type : '';
}
