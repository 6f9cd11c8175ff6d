// Files as a tar archive, which carries what a skill is: paths, bytes, and which may be executed (pure).

/** A file to be packed; `content` is text, bytes, or a file of the browser's. */
export interface IPacked {
  readonly path: string;
  readonly executable: boolean;
  readonly content: string | Uint8Array | Blob;
}

const BLOCK = 512;
/** As a header of the old form takes it, in bytes. */
const MAX_NAME = 100;

/** An archive of these files, in their order (POSIX.1-2001, "pax Interchange Format"). */
export function tarOf(files: readonly IPacked[]): Blob {
  const encoder = new TextEncoder();
  const parts: BlobPart[] = [];
  for (const { path, executable, content } of files) {
    const data =
      typeof content === 'string'
        ? encoder.encode(content)
        : (content as Uint8Array<ArrayBuffer> | Blob);
    const size = data instanceof Blob ? data.size : data.byteLength;
    const name = encoder.encode(path);
    if (name.length > MAX_NAME || name.length !== path.length) {
      const record = pax('path', path, encoder);
      parts.push(header(encoder.encode('pax-header'), record.length, 0o644, 'x'), record);
      parts.push(padding(record.length));
    }
    parts.push(header(name.subarray(0, MAX_NAME), size, executable ? 0o755 : 0o644, '0'));
    parts.push(data, padding(size));
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Blob(parts, { type: 'application/x-tar' });
}

/** `LENGTH KEY=VALUE\n`, where LENGTH counts itself. */
function pax(key: string, value: string, encoder: TextEncoder): Uint8Array<ArrayBuffer> {
  const rest = encoder.encode(` ${key}=${value}\n`);
  let length = rest.length + 1;
  while (String(length).length + rest.length !== length) {
    length = String(length).length + rest.length;
  }
  const record = new Uint8Array(length);
  record.set(encoder.encode(String(length)));
  record.set(rest, length - rest.length);
  return record;
}

function header(
  name: Uint8Array,
  size: number,
  mode: number,
  type: '0' | 'x'
): Uint8Array<ArrayBuffer> {
  const block = new Uint8Array(BLOCK);
  const put = (at: number, text: string): void => {
    for (let index = 0; index < text.length; index++) {
      block[at + index] = text.charCodeAt(index);
    }
  };
  const octal = (value: number, digits: number): string => value.toString(8).padStart(digits, '0');
  block.set(name, 0);
  put(100, `${octal(mode, 7)}\0`);
  put(108, `${octal(0, 7)}\0${octal(0, 7)}\0`);
  put(124, `${octal(size, 11)}\0${octal(0, 11)}\0`);
  put(148, ' '.repeat(8));
  put(156, type);
  put(257, 'ustar\u000000');
  const sum = block.reduce((total, byte) => total + byte, 0);
  put(148, `${octal(sum, 6)}\0 `);
  return block;
}

function padding(size: number): Uint8Array<ArrayBuffer> {
  return new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK);
}
