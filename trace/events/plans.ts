/** The messages of proto/trace.proto as the codec goes by them, from the description that `npm run proto` makes of it. */
import description from "#proto/trace.json" with { type: "json" };

/** How a field is written; a digest is 32 bytes here and `sha256:…` in code. */
type Scalar = "uint32" | "uint64" | "int64" | "sint64" | "bool" | "double" | "string" | "bytes" | "digest";
export type Kind = Scalar | "message";

export type Field = {
  name: string;
  kind: Kind;
  /** Field number and wire type, as they stand before its value; of a packed list the list's. */
  tag: number;
  /** Of one value. */
  wireType: number;
  repeated: boolean;
  packed: boolean;
  /** Where null means that it is absent; a field without it is absent where it has its type's zero. */
  optional: boolean;
  message: Plan | null;
};

export type Plan = {
  /** Of the message. */
  name: string;
  /** In the order of their numbers, which is the order they are written in. */
  fields: Field[];
  byNumber: (Field | undefined)[];
  /** A message of which nothing is known yet: its lists have to be made anew. */
  blank: Readonly<Record<string, unknown>>;
  lists: string[];
  /** Fields that have no zero. */
  required: string[];
};

const WIRE_TYPES: Record<Kind, number> = {
  uint32: 0,
  uint64: 0,
  int64: 0,
  sint64: 0,
  bool: 0,
  double: 1,
  string: 2,
  bytes: 2,
  digest: 2,
  message: 2,
};

const ZEROS: Record<Kind, unknown> = {
  uint32: 0,
  uint64: 0,
  int64: 0,
  sint64: 0,
  bool: false,
  double: 0,
  string: "",
  bytes: new Uint8Array(0),
  digest: null,
  message: null,
};

type MessageName = "FileHeader" | "BlockHeader" | "Footer" | "Event";

export const PLANS: Readonly<Record<MessageName, Plan>> = {
  FileHeader: planOf("FileHeader"),
  BlockHeader: planOf("BlockHeader"),
  Footer: planOf("Footer"),
  Event: planOf("Event"),
};

/** Names of the members of events that are doubles, also where their value is whole. */
export const DOUBLES: ReadonlySet<string> = new Set(doublesOf(PLANS.Event));

function doublesOf({ fields }: Plan): string[] {
  return fields.flatMap(({ name, kind, message }) =>
    message !== null ? doublesOf(message) : kind === "double" ? [name] : [],
  );
}

type Described = {
  fields: Record<
    string,
    { type: string; id: number; rule?: string; options?: { proto3_optional?: boolean } }
  >;
  oneofs?: Record<string, { oneof: string[] }>;
};

function planOf(name: string): Plan {
  const { fields: described, oneofs = {} } = describedAs(name) as Described;
  const alternatives = new Set(Object.values(oneofs).flatMap(({ oneof }) => oneof));
  const fields = Object.entries(described).map(([name, { type, id, rule, options }]): Field => {
    const kind = kindOf(name, type);
    const repeated = rule === "repeated";
    const wireType = WIRE_TYPES[kind];
    const packed = repeated && wireType !== 2;
    return {
      ...{ name, kind, wireType, repeated, packed },
      tag: (id << 3) | (packed ? 2 : wireType),
      optional:
        options?.proto3_optional === true || alternatives.has(name) || (kind === "message" && !repeated),
      message: kind === "message" ? planOf(type) : null,
    };
  });
  fields.sort((one, other) => one.tag - other.tag);
  const byNumber: Plan["byNumber"] = [];
  const blank: Record<string, unknown> = {};
  for (const field of fields) {
    byNumber[field.tag >>> 3] = field;
    blank[field.name] = field.optional || field.repeated ? null : ZEROS[field.kind];
  }
  return {
    ...{ name, fields, byNumber, blank },
    lists: fields.filter(({ repeated }) => repeated).map(({ name }) => name),
    required: fields
      .filter(({ kind, optional, repeated }) => kind === "digest" && !optional && !repeated)
      .map(({ name }) => name),
  };
}

function describedAs(name: string): object {
  const messages: Record<string, object> = description.nested.dsec.nested.trace.nested.v1.nested;
  const found = messages[name];
  if (found === undefined)
    throw new Error(`proto/trace.json describes no ${name}; make it anew: npm run proto`);
  return found;
}

function kindOf(name: string, type: string): Kind {
  if (type === "bytes") return name.endsWith("_digest") ? "digest" : "bytes";
  if (type in WIRE_TYPES) return type as Kind;
  return "values" in describedAs(type) ? "uint32" : "message";
}
