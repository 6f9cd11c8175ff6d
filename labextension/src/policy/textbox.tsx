// An editor of JupyterLab's for a policy, with what is wrong marked at its line.

import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorView } from '@codemirror/view';
import { CodeEditor } from '@jupyterlab/codeeditor';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import * as React from 'react';

import { usePolicies } from './context';
import { IPlaced } from './placed';

export function TextBox(props: {
  /** What it begins with; another `begun` begins anew. */
  text: string;
  begun: string;
  label: string;
  readOnly: boolean;
  placed: readonly IPlaced[];
  typed: (text: string) => void;
}): React.JSX.Element {
  const { text, begun, label, readOnly, placed, typed } = props;
  const { editors } = usePolicies();
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
    const model = new CodeEditor.Model({ mimeType: 'text/x-yaml' });
    model.sharedModel.setSource(latest.current.text);
    const made = editors.factoryService.newDocumentEditor({
      host: host.current,
      model,
      config: { lineNumbers: true, lineWrap: true, readOnly, scrollPastEnd: false },
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
  }, [editors, begun, label, readOnly]);

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
            // As text: a message quotes what was written.
            renderMessage: () => document.createTextNode(each.message)
          }))
        )
      );
    }
  }, [placed, begun]);

  return <div ref={host} className="jp-Reprise-policy-textbox" />;
}
