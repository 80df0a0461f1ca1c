/** The calls of a conversation that wait for their answers. */

export type OpenCall = { id: string | null; tool: string; call: number };

/** Calls without an answer; ids of different turns may be alike. Thousands may be open at once. */
export class OpenCalls {
  readonly #open = new Set<OpenCall>();
  /** By id, the newest last; those that were answered go once they are come by. */
  readonly #byId = new Map<string, OpenCall[]>();
  readonly #byTool = new Map<string, Set<OpenCall>>();

  add(call: OpenCall): void {
    this.#open.add(call);
    if (call.id !== null) {
      const calls = this.#byId.get(call.id);
      if (calls === undefined) this.#byId.set(call.id, [call]);
      else calls.push(call);
    }
    this.#byTool.set(call.tool, (this.#byTool.get(call.tool) ?? new Set()).add(call));
  }

  /** The newest of this id. */
  ofId(id: string): OpenCall | undefined {
    const calls = this.#byId.get(id) ?? [];
    while (calls.length > 0 && !this.#open.has(calls.at(-1)!)) calls.pop();
    return calls.at(-1);
  }

  /** The oldest of this tool, or of any. */
  oldest(tool: string | null): OpenCall | undefined {
    const calls = tool === null ? this.#open : this.#byTool.get(tool);
    return calls?.values().next().value;
  }

  delete(call: OpenCall): void {
    this.#open.delete(call);
    this.#byTool.get(call.tool)!.delete(call);
  }
}
