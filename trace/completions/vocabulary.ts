import { LIMITS } from "#core/limits.ts";
import type { Token } from "../events/event.ts";
import { cut, isObject, type Members } from "./members.ts";

/**
 * The numbers that tokens have in one trace. Servers that tell a token's own id are believed (llama.cpp's `id`, vLLM's
 * `token_id:…`); to all others the token is its text, and its id is the place at which that text was first seen.
 */
export class Vocabulary {
  readonly #ids = new Map<string, number>();
  #chars = 0;

  /** A token as an answer tells it; null where it tells none, or where this vocabulary is full and does not have it. */
  token(told: unknown): Token | null {
    const own = this.#candidate(told);
    if (own === null) return null;
    const listed = (told as Members).top_logprobs;
    const top = Array.isArray(listed) ? this.#best(listed) : [];
    if (top === null) return null;
    return tokenOf(own, top);
  }

  /** The tokens of a text completion, which come as parallel lists, the best candidates as an object by their text. */
  legacyTokens({ tokens, token_logprobs, top_logprobs }: Members): Token[] {
    if (!Array.isArray(tokens) || !Array.isArray(token_logprobs)) return [];
    return tokens.flatMap((token: unknown, at): Token[] => {
      const own = this.#candidate({ token, logprob: token_logprobs[at] });
      const listed: unknown = Array.isArray(top_logprobs) ? top_logprobs[at] : null;
      const told = isObject(listed) ? Object.entries(listed) : [];
      const top = this.#best(told.map(([text, logprob]) => ({ token: text, logprob })));
      return own === null || top === null ? [] : [tokenOf(own, top)];
    });
  }

  #best(told: unknown[]): Candidate[] | null {
    const sorted = told
      .slice(0, LISTED_MAX)
      .filter(isObject)
      .toSorted((a, b) => Number(b.logprob) - Number(a.logprob));
    const best: Candidate[] = [];
    for (const one of sorted) {
      if (best.length === LIMITS.logitTop) break;
      if (typeof one.logprob !== "number") continue;
      const candidate = this.#candidate(one);
      if (candidate === null) return null;
      best.push(candidate);
    }
    return best;
  }

  #candidate(told: unknown): Candidate | null {
    if (!isObject(told)) return null;
    const { token, logprob, id } = told;
    if (typeof token !== "string" || typeof logprob !== "number" || !Number.isFinite(logprob)) return null;
    const named = /^token_id:(\d{1,15})$/.exec(token)?.[1];
    if (named !== undefined) return { id: Number(named), logprob, text: null };
    const text = cut(token, LIMITS.tokenTextChars);
    if (Number.isSafeInteger(id) && (id as number) >= 0) return { id: id as number, logprob, text };
    const place = this.#placeOf(text, told.bytes);
    return place === null ? null : { id: place, logprob, text };
  }

  #placeOf(text: string, bytes: unknown): number | null {
    // A token may be a part of a character: then only its bytes tell it from others.
    const key = text.includes("\uFFFD") && Array.isArray(bytes) ? `\uFFFD${bytes.slice(0, 64).join()}` : text;
    const known = this.#ids.get(key);
    if (known !== undefined) return known;
    if (this.#ids.size >= LIMITS.vocabularyTexts || this.#chars + key.length > LIMITS.vocabularyChars)
      return null;
    const place = this.#ids.size;
    this.#ids.set(key, place);
    this.#chars += key.length;
    return place;
  }
}

type Candidate = { id: number; logprob: number; text: string | null };

/** More than any server tells of one token. */
const LISTED_MAX = 128;

function tokenOf({ id, logprob, text }: Candidate, top: Candidate[]): Token {
  const texts = top.map((candidate) => candidate.text);
  return {
    ...{ id, logprob, text },
    top_ids: top.map((candidate) => candidate.id),
    top_logprobs: top.map((candidate) => candidate.logprob),
    top_texts: texts.every((one) => one !== null) ? texts : [],
    log_sum_exp: null, // no answer tells it
  };
}
