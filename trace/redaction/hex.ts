/** An even number of hexadecimal digits. */
export function hexBytes(digits: string): Uint8Array {
  const bytes = new Uint8Array(digits.length / 2);
  for (let at = 0; at < bytes.length; at++) bytes[at] = Number.parseInt(digits.slice(2 * at, 2 * at + 2), 16);
  return bytes;
}
