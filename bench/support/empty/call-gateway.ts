/** `call-gateway.ts DATABASE UPSTREAM`: the gateway of an empty chain, which notes each call and asks the upstream. */
import { Pool } from "undici";
import { exchange, insertion, serve } from "./http.ts";

const [database, upstream] = process.argv.slice(2) as [string, string];
const note = await insertion(database, "calls");
const pool = new Pool(upstream);
serve(0, async (_, call) => {
  await note(call.toString());
  return exchange(pool, "GET", "/tracking", null);
});
