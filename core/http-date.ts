let last = { second: Number.NaN, text: "" };

/** The Date field of an answer (RFC 9110 section 5.6.7); its text is made once a second. @param ms since the epoch */
export function httpDate(ms: number): string {
  const second = Math.floor(ms / 1000);
  if (second !== last.second) last = { second, text: new Date(second * 1000).toUTCString() };
  return last.text;
}
