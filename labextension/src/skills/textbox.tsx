// An editor of JupyterLab's for one file, with findings as lint at their lines.

import { CodeEditor } from '@jupyterlab/codeeditor';
import { CodeMirrorEditor } from '@jupyterlab/codemirror';
import { lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorView } from '@codemirror/view';
import * as React from 'react';

import { mimeOf } from './content';
import { useSkills } from './context';
import { IPlaced } from './lint';

export function TextBox(props: {
  /** Another path makes another editor. */
  path: string;
  /** What it begins with; counts when `version` changes, too. */
  text: string;
  version: number;
  label: string;
  placed: readonly IPlaced[];
  /** A line to go to; a new object goes there again. */
  goTo: { readonly line: number } | null;
  typed: (text: string) => void;
}): React.JSX.Element {
  const { path, text, version, label, placed, goTo, typed } = props;
  const { editors } = useSkills();
  const host = React.useRef<HTMLDivElement>(null);
  const editor = React.useRef<CodeEditor.IEditor | null>(null);
  const begins = React.useRef(text);
  const tell = React.useRef(typed);
  React.useEffect(() => {
    begins.current = text;
    tell.current = typed;
  });

  React.useEffect(() => {
    if (host.current === null) {
      return undefined;
    }
    const model = new CodeEditor.Model({ mimeType: mimeOf(path) });
    model.sharedModel.setSource(begins.current);
    const made = editors.factoryService.newDocumentEditor({
      host: host.current,
      model,
      config: { lineNumbers: true, lineWrap: true },
      extensions: [lintGutter(), EditorView.contentAttributes.of({ 'aria-label': label })]
    });
    const changed = (): void => tell.current(model.sharedModel.getSource());
    model.sharedModel.changed.connect(changed);
    editor.current = made;
    return () => {
      model.sharedModel.changed.disconnect(changed);
      editor.current = null;
      made.dispose();
      model.dispose();
    };
    // `version` begins anew with another text, such as one that was thrown away.
  }, [editors, path, version, label]);

  React.useEffect(() => {
    const view = viewOf(editor.current);
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
  }, [placed, path, version]);

  React.useEffect(() => {
    if (goTo !== null && editor.current !== null) {
      const line = Math.max(0, Math.min(goTo.line, editor.current.lineCount) - 1);
      editor.current.setCursorPosition({ line, column: 0 });
      editor.current.revealPosition({ line, column: 0 });
      editor.current.focus();
    }
  }, [goTo, path, version]);

  return <div ref={host} className="jp-Reprise-skill-textbox" />;
}

function viewOf(editor: CodeEditor.IEditor | null): EditorView | null {
  return editor instanceof CodeMirrorEditor ? editor.editor : null;
}
