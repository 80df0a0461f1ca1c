import { expect, test } from "vitest";
import { DsecError } from "#core/errors.ts";
import { LIMITS } from "#core/limits.ts";
import { detailsOf } from "#executor/channel/call-failures.ts";
import { givenOf, shownInput } from "#executor/channel/tool-output.ts";

test("events keep what a call was given and answered up to a number of bytes, whatever its characters", () => {
  const kept = {
    arguments: (text: string) => shownInput({ a: text }).arguments_json,
    answer: (text: string) =>
      givenOf({ text: JSON.stringify({ a: text }), isError: false }).answer?.output_json,
    details: (text: string) => detailsOf(new DsecError("INTERNAL", "failed", { details: { a: text } })),
  };
  const mostBytes = {
    arguments: LIMITS.recordedArgumentsBytes,
    answer: LIMITS.recordedAnswerBytes,
    details: LIMITS.recordedArgumentsBytes,
  };
  for (const [what, keep] of Object.entries(kept)) {
    for (const character of ["a", "é", "語", "😀"]) {
      const bytes = Buffer.byteLength(character);
      const room = mostBytes[what as keyof typeof kept] - '{"a":""}'.length;
      const text = character.repeat(Math.floor(room / bytes)) + "a".repeat(room % bytes);
      expect(JSON.parse(keep(text) ?? "null"), `${what} of ${character}`).toEqual({ a: text });
      expect((keep(`${text}a`) ?? null) === null, `${what} of ${character} and one byte more`).toBe(true);
    }
  }
});
