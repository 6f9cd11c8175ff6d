// The frontmatter of a SKILL.md as far as an editor needs it: where it ends, which name it says (pure).

import { NAME } from './names';

/** The text below the frontmatter; all of it where there is none. */
export function bodyOf(text: string): string {
  const found = /^\ufeff?---[ \t]*\r?\n[\s\S]*?\n---[ \t]*(?:\r?\n|$)/.exec(text);
  return found === null ? text : text.slice(found[0].length).replace(/^(?:[ \t]*\r?\n)+/, '');
}

/** The name that it says, where it is one that a skill can have. */
export function nameIn(text: string): string | null {
  const front = /^\ufeff?---[ \t]*\r?\n([\s\S]*?)\n---/.exec(text)?.[1] ?? '';
  const said = /^name:[ \t]*(["']?)([^"'\r\n#]*?)\1[ \t]*(?:#.*)?$/m.exec(front)?.[2]?.trim();
  return said !== undefined && NAME.test(said) && said.length <= 64 ? said : null;
}

/** What a new skill begins with: it passes the check, and says what to write where. */
export function startText(name: string): string {
  const title = name.charAt(0).toUpperCase() + name.slice(1).replaceAll('-', ' ');
  return `---
name: ${name}
description: What it does, in a sentence. Use it when somebody asks for these words, or has such data.
---

# ${title}

1. Say what to look at first.
2. Say what to do, and what comes out: \`input\` gives \`output\`.
3. Say what to do when a step fails.
`;
}
