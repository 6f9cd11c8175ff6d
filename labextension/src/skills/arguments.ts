// A line of arguments divided as a shell divides it; nothing in it is replaced or run (pure).

/** The arguments; of a quote that is not closed, that quote. */
export function argumentsOf(line: string): readonly string[] | string {
  const found: string[] = [];
  let word: string | null = null;
  let quote: string | null = null;
  for (let at = 0; at < line.length; at++) {
    const each = line.charAt(at);
    if (quote === "'") {
      if (each === "'") {
        quote = null;
      } else {
        word = (word ?? '') + each;
      }
    } else if (each === '\\' && at + 1 < line.length) {
      const next = line.charAt(++at);
      // Within double quotes a backslash counts before few characters (POSIX shell, 2.2.3).
      word = (word ?? '') + (quote === '"' && !'"\\$`'.includes(next) ? `\\${next}` : next);
    } else if (quote === '"') {
      if (each === '"') {
        quote = null;
      } else {
        word = (word ?? '') + each;
      }
    } else if (each === "'" || each === '"') {
      quote = each;
      word ??= '';
    } else if (/\s/.test(each)) {
      if (word !== null) {
        found.push(word);
        word = null;
      }
    } else {
      word = (word ?? '') + each;
    }
  }
  if (quote !== null) {
    return quote;
  }
  if (word !== null) {
    found.push(word);
  }
  return found;
}
