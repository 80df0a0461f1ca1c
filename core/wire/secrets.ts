import { z } from "zod";
import { DsecError } from "../errors.ts";
import { LIMITS } from "../limits.ts";
import { formatRuleHost, parseRuleHost } from "../policy/rule-host.ts";
import { strict, TimeSchema, text } from "./common.ts";

/** The same names that a policy may use. */
export const SecretNameSchema = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,127}$/, "must be a letter or _, then letters, digits, _ . -");

const host = text(300).transform((raw, context) => {
  try {
    return formatRuleHost(parseRuleHost(raw));
  } catch (error) {
    if (!(error instanceof DsecError)) throw error;
    context.addIssue({ code: "custom", message: error.message });
    return z.NEVER;
  }
});

export const SecretCreateSchema = strict({
  name: SecretNameSchema,
  /** The whole value of the header that it is sent in, such as `Bearer …`. Never shown again. */
  value: z
    .string()
    .min(8, "must have at least 8 characters: a shorter one could not be told from other text in an answer")
    .max(LIMITS.secretChars)
    .regex(/^[\x20-\x7e]*$/, "must be printable ASCII, as a header value is"),
  /** Where it may go, whatever a task's policy says: hosts as in a policy's rules. */
  hosts: z.array(host).min(1).max(LIMITS.policyRuleEntries),
});

export const SecretSchema = z.object({
  name: SecretNameSchema,
  hosts: z.array(z.string()),
  created_at: TimeSchema,
  updated_at: TimeSchema,
});
export type Secret = z.infer<typeof SecretSchema>;
/** All secrets of the key, by name: there are at most `secretsPerKey`. */
export const SecretListSchema = z.object({ items: z.array(SecretSchema) });
