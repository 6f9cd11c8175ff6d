// Bytes as base64 and back, of any size (pure).

/** As many as a call takes arguments everywhere. */
const AT_ONCE = 8_192;

export function base64(bytes: Uint8Array): string {
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += AT_ONCE) {
    parts.push(String.fromCharCode(...bytes.subarray(at, at + AT_ONCE)));
  }
  return btoa(parts.join(''));
}

/** Of lines, too, as Jupyter writes it. */
export function bytesOfBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replace(/\s/g, '')), each => each.charCodeAt(0));
}
