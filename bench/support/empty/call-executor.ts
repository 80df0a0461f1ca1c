/** `call-executor.ts SOCKET GATEWAY`: the executor of an empty chain, which passes each call on and its answer back. */
import { Pool } from "undici";
import { exchange, serve } from "./http.ts";

const [socket, gateway] = process.argv.slice(2) as [string, string];
const pool = new Pool(gateway);
serve(socket, (_, call) => exchange(pool, "POST", "/call", call));
