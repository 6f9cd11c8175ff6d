// Markdown and output bundles of strangers as React nodes, rendered by the safe rendermime.

import { IRenderMime, IRenderMimeRegistry, MimeModel } from '@jupyterlab/rendermime';
import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import * as React from 'react';

/**
 * A bundle in the best way that the registry has (untrusted, whatever it is).
 * `onRendered` gets the node after each rendering, to add buttons to code blocks and the like.
 */
export function SafeBundle(props: {
  rendermime: IRenderMimeRegistry;
  data: IRenderMime.IMimeModel['data'];
  metadata?: IRenderMime.IMimeModel['metadata'];
  className?: string;
  onRendered?: (node: HTMLElement) => void;
}): React.JSX.Element {
  const { rendermime, data, metadata, className, onRendered } = props;
  const holder = React.useRef<HTMLDivElement>(null);
  const shown = React.useRef<{ widget: IRenderMime.IRenderer; type: string } | null>(null);
  const type = rendermime.preferredMimeType({ ...data }, 'ensure');

  React.useEffect(() => {
    const node = holder.current;
    if (node === null || type === undefined) {
      return;
    }
    // One renderer stays while the text grows: it renders into the node that is there.
    if (shown.current?.type !== type) {
      detach(shown.current?.widget);
      const widget = rendermime.createRenderer(type);
      MessageLoop.sendMessage(widget, Widget.Msg.BeforeAttach);
      node.appendChild(widget.node);
      MessageLoop.sendMessage(widget, Widget.Msg.AfterAttach);
      shown.current = { widget, type };
    }
    const { widget } = shown.current;
    let current = true;
    widget
      .renderModel(new MimeModel({ data, metadata, trusted: false }))
      .then(() => {
        if (current && !widget.isDisposed) {
          onRendered?.(widget.node);
        }
      })
      .catch((error: unknown) => {
        widget.node.textContent = error instanceof Error ? error.message : String(error);
      });
    return () => {
      current = false;
    };
  }, [rendermime, type, data, metadata, onRendered]);

  React.useEffect(
    () => () => {
      detach(shown.current?.widget);
      shown.current = null;
    },
    []
  );

  return <div className={`jp-Reprise-rendered ${className ?? ''}`} ref={holder} />;
}

/** Markdown with tables, math and code. */
export function SafeMarkdown(props: {
  rendermime: IRenderMimeRegistry;
  text: string;
  className?: string;
  onRendered?: (node: HTMLElement) => void;
}): React.JSX.Element {
  const data = React.useMemo(() => ({ 'text/markdown': props.text }), [props.text]);
  return (
    <SafeBundle
      rendermime={props.rendermime}
      data={data}
      className={props.className}
      onRendered={props.onRendered}
    />
  );
}

function detach(widget: IRenderMime.IRenderer | undefined): void {
  if (widget === undefined || widget.isDisposed) {
    return;
  }
  if (widget.isAttached) {
    MessageLoop.sendMessage(widget, Widget.Msg.BeforeDetach);
    widget.node.remove();
    MessageLoop.sendMessage(widget, Widget.Msg.AfterDetach);
  }
  widget.dispose();
}
