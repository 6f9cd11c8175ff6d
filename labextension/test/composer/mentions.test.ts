// What is named at the caret, and the commands of a message.

import { describe, expect, it } from 'vitest';

import { commandOf, fitting, queryAt, replaced, skillWords } from '../../src/composer/mentions';

function at(marked: string): ReturnType<typeof queryAt> {
  const caret = marked.indexOf('|');
  return queryAt(marked.replace('|', ''), caret);
}

describe('a query', () => {
  it.each([
    ['@|', '@', '', 0, 1],
    ['look at @df|', '@', 'df', 8, 11],
    ['look at @d|f.x now', '@', 'd', 8, 13],
    ['(@c|', '@', 'c', 1, 3],
    ['line\n@c|', '@', 'c', 5, 7],
    ['/|', '/', '', 0, 1],
    ['  /un|', '/', 'un', 2, 5],
    ['/skill pro|', '/', 'skill pro', 0, 10]
  ])('is found in %j', (marked, mark, words, from, to) => {
    expect(at(marked)).toEqual({ mark, words, from, to });
  });

  it.each([
    'me@example|',
    'a @b c|',
    'word /un|',
    '/skill profile-data and|',
    `@${'x'.repeat(90)}|`
  ])('is none in %j', marked => {
    expect(at(marked)).toBeNull();
  });

  it('is replaced, and the caret stands behind one space', () => {
    const query = at('look at @d| now');
    expect(query && replaced('look at @d now', query, 'df')).toEqual({
      text: 'look at df now',
      caret: 11
    });
    const last = at('@d|');
    expect(last && replaced('@d', last, 'df')).toEqual({ text: 'df ', caret: 3 });
  });
});

describe('what fits', () => {
  const all = ['beta', 'data/alpha.csv', 'alphabet', 'gamma'].map(label => ({
    label,
    detail: label === 'gamma' ? 'an alpha thing' : ''
  }));

  it('has names that begin with the words first', () => {
    expect(fitting(all, 'ALPHA').map(each => each.label)).toEqual([
      'data/alpha.csv',
      'alphabet',
      'gamma'
    ]);
    expect(fitting(all, 'bet').map(each => each.label)).toEqual(['beta', 'alphabet']);
    expect(fitting(all, '').map(each => each.label)).toEqual(all.map(each => each.label));
    expect(fitting(all, '', 2)).toHaveLength(2);
    expect(fitting(all, 'zzz')).toEqual([]);
  });
});

describe('a command', () => {
  it.each([
    ['/undo', { command: 'undo' }],
    [' /continue ', { command: 'continue' }],
    [
      '/skill profile-data on rentals.csv',
      {
        command: 'skill',
        skill: 'profile-data',
        words: 'on rentals.csv'
      }
    ],
    ['/skill', { command: 'skill', skill: '', words: '' }],
    ['/undo that please', null],
    ['/etc/passwd', null],
    ['say /undo', null]
  ])('of %j', (text, expected) => {
    expect(commandOf(text)).toEqual(expected);
  });

  it('of a skill becomes words of a person', () => {
    expect(skillWords('profile-data', '')).toBe('Use the skill profile-data.');
    expect(skillWords('profile-data', ' on a.csv ')).toBe('Use the skill profile-data: on a.csv');
  });
});
