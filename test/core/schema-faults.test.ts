import { expect, test } from "vitest";
import { z } from "zod";
import { type Fault, readAs } from "#core/schema-faults.ts";
import * as attestations from "#core/wire/attestations.ts";
import * as calls from "#core/wire/calls.ts";
import * as channel from "#core/wire/channel.ts";
import * as executors from "#core/wire/executors.ts";
import * as keys from "#core/wire/keys.ts";
import * as leases from "#core/wire/leases.ts";
import * as memory from "#core/wire/memory.ts";
import * as messages from "#core/wire/messages.ts";
import * as observations from "#core/wire/observations.ts";
import * as policy from "#core/wire/policy.ts";
import * as secrets from "#core/wire/secrets.ts";
import * as tasks from "#core/wire/tasks.ts";
import * as tools from "#core/wire/tools.ts";
import * as trace from "#core/wire/trace.ts";

const SECRET = "hunter2-hunter2";

function faults(schema: z.ZodType, value: unknown): Fault[] {
  const read = readAs(schema, value);
  if (read.ok) throw new Error("it was taken");
  return read.faults;
}

const whole = (message: string): Fault[] => [{ path: "", message }];
const spec = { command: ["true"] };

/** Every code that zod has an issue for, the compiler sees to it: what was given, and the sentences for it. */
const CODES = {
  invalid_type: [
    [z.string(), 5, whole("must be a string, not 5")],
    [z.string(), null, whole("must be a string, not null")],
    [z.number(), SECRET, whole("must be a number, not a string")],
    [z.coerce.number(), SECRET, whole("must be a number")],
    [z.number().int(), 1.5, whole("must be a whole number, not 1.5")],
    [z.boolean(), "true", whole("must be true or false, not a string")],
    [z.array(z.string()), {}, whole("must be an array, not an object")],
    [z.object({}), [], whole("must be an object, not an array")],
    [z.record(z.string(), z.string()), true, whole("must be an object, not true")],
    [z.string(), undefined, whole("is missing; it must be a string")],
    [tasks.TaskSpecSchema, {}, [{ path: "command", message: "is missing; it must be an array" }]],
    [
      tasks.TaskSpecSchema,
      { command: ["a", 1] },
      [{ path: "command[1]", message: "must be a string, not 1" }],
    ],
  ],
  too_small: [
    [
      tasks.TaskSpecSchema,
      { ...spec, nonce: "short" },
      [{ path: "nonce", message: "must have at least 8 characters, not 5" }],
    ],
    [
      tasks.TaskSpecSchema,
      { command: [] },
      [{ path: "command", message: "must have at least 1 item, not 0" }],
    ],
    [z.number().min(1), -3, whole("must be at least 1, not -3")],
    [z.number().gt(0), 0, whole("must be more than 0, not 0")],
    [z.string().length(3), "ab", whole("must have exactly 3 characters, not 2")],
  ],
  too_big: [
    [
      tasks.TaskSpecSchema,
      { ...spec, resources: { pids: 1e9 } },
      [{ path: "resources.pids", message: "must be at most 4194304, not 1000000000" }],
    ],
    [z.string().max(1), SECRET, whole("must have at most 1 character, not 15")],
    [z.number().lt(3), 3, whole("must be less than 3, not 3")],
    [z.array(z.number()).max(1), [1, 2], whole("must have at most 1 item, not 2")],
  ],
  invalid_value: [
    [memory.MemoryGrantSchema.shape.access, "Write", whole("must be read or write; did you mean write?")],
    [memory.MemoryGrantSchema.shape.access, 7, whole("must be read or write, not 7")],
    [memory.MemoryGrantSchema.shape.access, undefined, whole("is missing; it must be read or write")],
    [z.literal("2.0"), SECRET, whole("must be 2.0")],
    [z.enum(["a", "b", "c"]), null, whole("must be a, b or c, not null")],
  ],
  invalid_format: [
    [
      keys.KeyCreateSchema,
      { name: "k", scopes: ["tasks"], expires_at: "tomorrow" },
      [{ path: "expires_at", message: "must be a time in UTC such as 2026-01-31T12:00:00Z" }],
    ],
    [z.string().regex(/^[a-z]$/), SECRET, whole("must match /^[a-z]$/")],
    [z.string().startsWith("dsk_"), SECRET, whole("must begin with dsk_")],
    [z.string().endsWith("_"), SECRET, whole("must end with _")],
    [z.string().includes("_"), SECRET, whole("must hold _")],
    [z.uuid(), SECRET, whole("must be of the format uuid")],
  ],
  not_multiple_of: [[z.number().multipleOf(5), 7, whole("must be a multiple of 5, not 7")]],
  unrecognized_keys: [
    [
      tasks.TaskSpecSchema,
      { ...spec, timeoutMs: 1, [SECRET]: 1 },
      [
        { path: "timeoutMs", message: "unknown member; did you mean timeout_ms?" },
        { path: SECRET, message: expect.stringMatching(/^unknown member; known members: image, command, /) },
      ],
    ],
  ],
  invalid_union: [
    [
      tasks.TaskSpecSchema,
      { ...spec, tools: [{ kind: "htpp" }] },
      [{ path: "tools[0].kind", message: "must be http or exec; did you mean http?" }],
    ],
    [
      tasks.TaskSpecSchema,
      { ...spec, tools: [{}] },
      [{ path: "tools[0].kind", message: "is missing; it must be http or exec" }],
    ],
    [tasks.ImageSchema, "sha256:abc", whole("must be host, sha256:…, or a name such as python:3.11")],
    [z.union([z.string(), z.number()]), null, whole("must be a number, not null")],
    [
      z.xor([z.string(), z.literal("a")]),
      "a",
      whole("must fit one of the forms that it may have, and fits several"),
    ],
  ],
  invalid_key: [
    [
      tasks.TaskSpecSchema,
      { ...spec, env: { "A=B": "x" } },
      [{ path: "env.A=B", message: "its name must be an environment variable name" }],
    ],
  ],
  invalid_element: [
    [
      z.map(z.string(), z.number()),
      new Map([["a", SECRET]]),
      [{ path: "a", message: "must be a number, not a string" }],
    ],
  ],
  custom: [
    [z.string().refine(() => false, "must not be /run"), SECRET, whole("must not be /run")],
    [z.string().refine(() => false), SECRET, whole("is not of the form that is allowed here")],
  ],
} satisfies Record<z.core.$ZodIssue["code"], [schema: z.ZodType, given: unknown, Fault[]][]>;

test.each(Object.entries(CODES))("what zod calls %s is said in our words", (_code, cases) => {
  for (const [schema, given, said] of cases) expect(faults(schema, given)).toEqual(said);
});

test("a value that is refused for a reason unknown here is refused all the same, without its text", () => {
  const schema = z.string().check((context) => {
    context.issues.push({ code: "of_a_later_zod", input: context.value } as never);
  });
  expect(faults(schema, SECRET)).toEqual(whole("is not of the form that is allowed here"));
});

test("whatever is sent in place of any member, nothing of it but types, numbers and lengths comes back, in our words", () => {
  const rooms = [attestations, calls, channel, executors, keys, leases, memory, messages];
  const others = [observations, policy, secrets, tasks, tools, trace];
  const schemas = [...rooms, ...others].flatMap((room) =>
    Object.values(room).filter((part): part is z.ZodObject => part instanceof z.ZodObject),
  );
  let said = 0;
  for (const schema of schemas) {
    for (const name of Object.keys(schema.shape)) {
      for (const given of [SECRET, [SECRET], { a: SECRET }, 1e300, -1.5, null, true, ""]) {
        const read = readAs(schema, { [name]: given });
        for (const { message } of read.ok ? [] : read.faults) {
          if (message.startsWith("write it as /")) continue; // a path, in the form to write it in
          said += 1;
          expect(message).not.toMatch(/hunter2|Invalid|Too (big|small)|expected|received|undefined/);
        }
      }
    }
  }
  expect(said).toBeGreaterThan(1000);
});
