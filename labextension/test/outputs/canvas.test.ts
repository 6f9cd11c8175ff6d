// Messages of the log lead to the same outputs as those of a live kernel, in JupyterLab's own model.

import { OutputAreaModel } from '@jupyterlab/outputarea';
import fc from 'fast-check';
import { expect, test } from 'vitest';

import { Canvas, IMessage } from '../../src/outputs/canvas';

function text(said: string, name = 'stdout'): IMessage {
  return ['stream', { name, text: said }];
}

function display(said: string, id?: string, type = 'display_data'): IMessage {
  const transient = id === undefined ? {} : { display_id: id };
  return [type, { data: { 'text/plain': said }, metadata: {}, transient }];
}

function clear(wait: boolean): IMessage {
  return ['clear_output', { wait }];
}

function shown(messages: readonly IMessage[], count: number | null = null): string[] {
  const model = new OutputAreaModel({ trusted: false });
  new Canvas(model).paint(messages, count);
  return model
    .toJSON()
    .map((each: any) => each.text ?? each.data?.['text/plain'] ?? `${each.ename}: ${each.evalue}`);
}

test('texts join, carriage returns go back, errors stand between', () => {
  const error: IMessage = ['error', { ename: 'E', evalue: 'v', traceback: ['E: v'] }];
  expect(
    shown([text('10 %'), text('\r20 %'), text('\r30 %\n'), error, text('a'), text('b', 'stderr')])
  ).toEqual(['30 %\n', 'E: v', 'a', 'b']);
});

test('clearing waits for what comes next', () => {
  expect(shown([text('a'), clear(true)])).toEqual(['a']);
  expect(shown([text('a'), clear(true), text('b')])).toEqual(['b']);
  expect(shown([text('a'), clear(false)])).toEqual([]);
});

test('a display is updated wherever it stands, and not after it was cleared', () => {
  expect(
    shown([
      display('1', 'd'),
      text('-'),
      display('2', 'd'),
      display('3', 'd', 'update_display_data')
    ])
  ).toEqual(['3', '-', '3']);
  expect(
    shown([display('1', 'd'), clear(true), text('x'), display('2', 'd', 'update_display_data')])
  ).toEqual(['x']);
  expect(
    shown([display('1', 'd'), clear(false), text('x'), display('2', 'd', 'update_display_data')])
  ).toEqual(['x']);
  expect(shown([display('2', 'other', 'update_display_data')])).toEqual([]);
});

test('a result has the number of its prompt, and nothing is kept of ids', () => {
  const model = new OutputAreaModel({ trusted: false });
  new Canvas(model).paint([display('7', 'd', 'execute_result')], 12);
  expect(model.toJSON()).toEqual([
    {
      output_type: 'execute_result',
      data: { 'text/plain': '7' },
      metadata: {},
      execution_count: 12
    }
  ]);
});

test('painted in parts or at once, the outputs are the same', () => {
  const message = fc.oneof(
    fc
      .tuple(fc.constantFrom('a', '\r', 'b\n', '\b'), fc.constantFrom('stdout', 'stderr'))
      .map(([said, name]) => text(said, name)),
    fc.constantFrom('d', 'e').map(id => display(id, id)),
    fc.constantFrom('d', 'e').map(id => display(`new ${id}`, id, 'update_display_data')),
    fc.boolean().map(clear)
  );
  fc.assert(
    fc.property(fc.array(message), fc.nat(), (messages, at) => {
      const cut = at % (messages.length + 1);
      const model = new OutputAreaModel({ trusted: false });
      const canvas = new Canvas(model);
      canvas.paint(messages.slice(0, cut));
      canvas.paint(messages.slice(cut));
      const whole = new OutputAreaModel({ trusted: false });
      new Canvas(whole).paint(messages);
      expect(model.toJSON()).toEqual(whole.toJSON());
    })
  );
});
