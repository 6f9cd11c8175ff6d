// Requests to a Reprise kernel on its control channel, which it answers whatever runs.

import type { Kernel } from '@jupyterlab/services';
import type { JSONObject } from '@lumino/coreutils';

import { KernelMessage } from '@jupyterlab/services';

/** Milliseconds until a kernel that is connected counts as not answering. */
const PATIENCE = 10_000;

/** The kernel did not answer, or its answer was a refusal. */
export class NotAnswered extends Error {
  constructor(
    message: string,
    /** The class of the kernel's error; null: no answer came. */
    readonly ename: string | null = null
  ) {
    super(message);
    this.name = 'NotAnswered';
  }
}

/**
 * Send a request of Reprise's own and wait for the content of its reply.
 *
 * The reply alone counts: these requests show nothing, so no `idle` follows.
 *
 * @throws NotAnswered - when the kernel is gone, refuses, or says nothing for a while
 */
export function askKernel(
  kernel: Kernel.IKernelConnection,
  kind: 'status_request' | 'resume_request',
  content: JSONObject,
  patience = PATIENCE
): Promise<Readonly<Record<string, unknown>>> {
  return new Promise((resolve, reject) => {
    if (kernel.isDisposed || kernel.connectionStatus !== 'connected') {
      // Jupyter would queue it, and the answer to an old question is of no use.
      reject(new NotAnswered('The kernel is not connected.'));
      return;
    }
    // Jupyter's types know the protocol's own messages only; what is sent is shaped the same.
    const message = KernelMessage.createMessage({
      msgType: kind as 'debug_request',
      channel: 'control',
      username: kernel.username,
      session: kernel.clientId,
      content: content as unknown as KernelMessage.IDebugRequestMsg['content']
    });
    let future: Kernel.IControlFuture<KernelMessage.IDebugRequestMsg, KernelMessage.IDebugReplyMsg>;
    try {
      future = kernel.sendControlMessage(message, true, false) as typeof future;
    } catch (error) {
      reject(new NotAnswered(String(error)));
      return;
    }
    future.done.catch(() => undefined); // rejects when it is disposed, which is how it always ends
    const timer = setTimeout(() => end(new NotAnswered('The kernel does not answer.')), patience);
    const end = (error: NotAnswered): void => {
      clearTimeout(timer);
      kernel.disposed.disconnect(gone);
      future.dispose();
      reject(error);
    };
    const gone = (): void => end(new NotAnswered('The kernel is gone.'));
    kernel.disposed.connect(gone);
    future.onReply = reply => {
      clearTimeout(timer);
      kernel.disposed.disconnect(gone);
      const said = reply.content as unknown as Readonly<Record<string, unknown>>;
      if (said.status === 'ok') {
        resolve(said);
      } else {
        reject(new NotAnswered(words(said.evalue) ?? 'The kernel refused.', words(said.ename)));
      }
      // Jupyter still looks at it when this returns.
      queueMicrotask(() => future.dispose());
    };
  });
}

function words(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}
