/** What keys do in the list of steps. Pure. */

export type KeyAct =
  | { readonly do: 'move' | 'page'; readonly by: 1 | -1 }
  | { readonly do: 'first' | 'last' | 'toggle' | 'open' | 'menu' | 'leave' };

/** What a key asks for, null for one that is not the list's. */
export function keyAct(
  event: Pick<KeyboardEvent, 'key' | 'ctrlKey' | 'metaKey' | 'altKey' | 'shiftKey'>
): KeyAct | null {
  if (event.altKey || event.metaKey) {
    return null;
  }
  if (event.ctrlKey) {
    return event.key === ' ' ? { do: 'toggle' } : null;
  }
  switch (event.key) {
    case 'ArrowDown':
      return { do: 'move', by: 1 };
    case 'ArrowUp':
      return { do: 'move', by: -1 };
    case 'PageDown':
      return { do: 'page', by: 1 };
    case 'PageUp':
      return { do: 'page', by: -1 };
    case 'Home':
      return { do: 'first' };
    case 'End':
      return { do: 'last' };
    case ' ':
      return { do: 'toggle' };
    case 'Enter':
      return { do: 'open' };
    case 'ContextMenu':
      return { do: 'menu' };
    case 'F10':
      return event.shiftKey ? { do: 'menu' } : null;
    case 'Escape':
      return { do: 'leave' };
    default:
      return null;
  }
}
