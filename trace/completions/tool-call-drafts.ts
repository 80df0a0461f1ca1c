import { LIMITS } from "#core/limits.ts";
import type { EventMembers } from "../events/event.ts";
import { cut, isObject, listIn, type Members } from "./members.ts";

type CompletionToolCall = EventMembers["completion"]["tool_calls"][number];

/** What all choices of an answer together may still take; what goes beyond is cut off. */
export type Room = { calls: number; chars: number };

/** The tool calls of one choice, which come whole, or in parts that name theirs by its index or its id. */
export class ToolCallDrafts {
  readonly #calls: CompletionToolCall[] = [];
  readonly #byKey = new Map<unknown, CompletionToolCall>();
  readonly #room: Room;
  #lastKey: unknown = 0;

  constructor(room: Room) {
    this.#room = room;
  }

  /** In the order in which they began. */
  all(): CompletionToolCall[] {
    // Cut between the halves of a surrogate pair, or so by the model, it would not be text.
    return this.#calls.map((call) => ({ ...call, arguments_json: call.arguments_json.toWellFormed() }));
  }

  /** A chat completion's message, or the part of one that a chunk brings. */
  takeMessage({ tool_calls, function_call }: Members, as: "part" | "whole"): void {
    for (const [place, told] of listIn(tool_calls).entries()) {
      if (!isObject(told)) continue;
      const { index, id, function: called, custom } = told;
      const isNamed = typeof id === "string" && id !== "";
      // Some servers leave out the index: then a new id begins a call, and what has none goes on with the last.
      const key = as === "whole" ? place : typeof index === "number" ? index : isNamed ? id : this.#lastKey;
      const call = this.#call(key);
      if (call === null) continue;
      if (isNamed && call.id === "") call.id = cut(id, LIMITS.completionNameChars);
      if (isObject(called)) this.#takeCalled(call, called.name, called.arguments, as);
      else if (isObject(custom)) this.#takeCalled(call, custom.name, custom.input, as);
    }
    if (!isObject(function_call)) return;
    const call = this.#call("function_call");
    if (call !== null) this.#takeCalled(call, function_call.name, function_call.arguments, as);
  }

  /** An item of a response's output. What it says of its arguments is the whole of them, where it says anything. */
  takeItem({ type, id, call_id, name, arguments: given, input }: Members, place: unknown): void {
    if (type !== "function_call" && type !== "custom_tool_call") return;
    const call = this.#call(typeof id === "string" ? id : place);
    if (call === null) return;
    if (typeof call_id === "string") call.id = cut(call_id, LIMITS.completionNameChars);
    if (typeof name === "string") call.name = cut(name, LIMITS.completionNameChars);
    const whole = given ?? input;
    if (typeof whole === "string" && whole !== "") this.#replace(call, whole);
  }

  takeArguments(key: unknown, text: unknown, as: "part" | "whole"): void {
    const call = this.#call(key);
    if (call === null || typeof text !== "string") return;
    if (as === "whole") this.#replace(call, text);
    else this.#add(call, text);
  }

  #takeCalled(call: CompletionToolCall, name: unknown, given: unknown, as: "part" | "whole"): void {
    if (typeof name === "string" && call.name === "") call.name = cut(name, LIMITS.completionNameChars);
    if (typeof given === "string" && as === "part") this.#add(call, given);
    else if (typeof given === "string") this.#replace(call, given);
    // Some servers parse them for their clients.
    else if (isObject(given)) this.#replace(call, JSON.stringify(given));
  }

  #replace(call: CompletionToolCall, text: string): void {
    this.#room.chars += call.arguments_json.length;
    call.arguments_json = "";
    this.#add(call, text);
  }

  #add(call: CompletionToolCall, text: string): void {
    const taken = text.slice(0, this.#room.chars);
    call.arguments_json += taken;
    this.#room.chars -= taken.length;
  }

  #call(key: unknown): CompletionToolCall | null {
    const known = this.#byKey.get(key);
    if (known !== undefined) return known;
    if (this.#room.calls === 0) return null;
    this.#room.calls--;
    this.#lastKey = key;
    const call = { id: "", name: "", arguments_json: "" };
    this.#byKey.set(key, call);
    this.#calls.push(call);
    return call;
  }
}
