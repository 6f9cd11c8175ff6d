// An editor of JupyterLab's for one text, with findings as lint at their lines.

import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorView } from '@codemirror/view';
import { CodeEditor, IEditorServices } from '@jupyterlab/codeeditor';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import * as React from 'react';

import { IPlaced } from './lint';

export function TextBox(props: {
  editors: IEditorServices;
  className: string;
  mimeType: string;
  /** What it begins with. */
  text: string;
  /** Another `begun` begins anew, with another text. */
  begun: string;
  label: string;
  placed: readonly IPlaced[];
  /** A line to go to; a new object goes there again. */
  goTo?: { readonly line: number } | null;
  /** Whether the last line can be scrolled up to the top. */
  scrollPastEnd?: boolean;
  typed: (text: string) => void;
}): React.JSX.Element {
  const { editors, className, mimeType, text, begun, label, placed, typed } = props;
  const { goTo = null, scrollPastEnd = true } = props;
  const host = React.useRef<HTMLDivElement>(null);
  const editor = React.useRef<CodeEditor.IEditor | null>(null);
  const latest = React.useRef({ text, typed });
  React.useEffect(() => {
    latest.current = { text, typed };
  });

  React.useEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const model = new CodeEditor.Model({ mimeType });
    model.sharedModel.setSource(latest.current.text);
    const made = editors.factoryService.newDocumentEditor({
      host: host.current,
      model,
      config: { lineNumbers: true, lineWrap: true, ...(scrollPastEnd ? {} : { scrollPastEnd }) },
      extensions: [lintGutter(), EditorView.contentAttributes.of({ 'aria-label': label })]
    });
    const changed = (): void => latest.current.typed(model.sharedModel.getSource());
    model.sharedModel.changed.connect(changed);
    editor.current = made;
    return () => {
      model.sharedModel.changed.disconnect(changed);
      editor.current = null;
      made.dispose();
      model.dispose();
    };
  }, [editors, mimeType, begun, label, scrollPastEnd]);

  React.useEffect(() => {
    const view = editor.current instanceof CodeMirrorEditor ? editor.current.editor : null;
    if (view !== null) {
      const end = view.state.doc.length;
      view.dispatch(
        setDiagnostics(
          view.state,
          placed.map(each => ({
            ...each,
            from: Math.min(each.from, end),
            to: Math.min(each.to, end),
            // As text: a message quotes what somebody else wrote.
            renderMessage: () => document.createTextNode(each.message)
          }))
        )
      );
    }
  }, [placed, begun]);

  React.useEffect(() => {
    if (goTo !== null && editor.current !== null) {
      const line = Math.max(0, Math.min(goTo.line, editor.current.lineCount) - 1);
      editor.current.setCursorPosition({ line, column: 0 });
      editor.current.revealPosition({ line, column: 0 });
      editor.current.focus();
    }
  }, [goTo, begun]);

  return <div ref={host} className={className} />;
}
