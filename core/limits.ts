/** Every bound of the system in one place. Units are last in the name. */
export const LIMITS = {
  // bodies and text that come from outside
  requestBodyBytes: 1024 * 1024,
  /** One batch of live output: `eventsPerBatch` events of `eventDataBytes` in base64. */
  eventsBodyBytes: 48 * 1024 * 1024,
  /** A file of JSON, whose indentation and escapes the request that is made of it has not. */
  givenJsonBytes: 8 * 1024 * 1024,
  artifactBytes: 512 * 1024 * 1024,
  /** An upload of which nothing came for so long was left by a gateway that died. */
  uploadIdleMs: 3_600_000,
  jsonDepth: 64,
  errorTextChars: 4096,
  idempotencyKeyChars: 200,
  labelCount: 32,
  labelChars: 256,
  nonceChars: 256,

  // the task
  commandArguments: 4096,
  /** MAX_ARG_STRLEN of the kernel less its terminating NUL: execve(2) refuses more with E2BIG. */
  argumentBytes: 131_071,
  commandBytes: 512 * 1024,
  environmentEntries: 512,
  stdinBytes: 512 * 1024,
  inputCount: 256,
  outputGlobs: 64,
  /** What the braces of all output patterns of one task may multiply to. */
  outputAlternatives: 1_024,
  retriesMax: 10,
  retriesDefault: 2,
  priorityMin: -100,
  priorityMax: 100,
  timeoutMsDefault: 10 * 60_000,
  timeoutMsMax: 7 * 24 * 3_600_000,

  // policy and tool calls
  policyRules: 1000,
  policyRuleEntries: 64,
  urlChars: 16 * 1024,
  redirectsDefault: 5,
  redirectsMax: 20,
  responseBytesDefault: 64 * 1024 * 1024,
  responseBytesMax: 4 * 1024 * 1024 * 1024,
  callTimeoutMsDefault: 60_000,
  callTimeoutMsMax: 3_600_000,
  callsPerSMax: 100_000,
  callsPerAttempt: 100_000,
  callHeaders: 256,
  callHeaderBytes: 64 * 1024,
  /** JSON of a call's head: its URL, its headers and its signature. */
  callHeadBytes: 512 * 1024,
  callBodyBytes: 512 * 1024 * 1024,
  /** A body up to here is checked before anything is sent, and can be sent again after a redirect. */
  callBodyKeptBytes: 256 * 1024,
  callSignatureTtlS: 30,
  callSignatureChars: 64 * 1024,
  /** How long after its time a call may still be writing its receipt. */
  callGraceMs: 10_000,
  /** JSON answers up to here have a fingerprint of their canonical form; pinned ones are held back whole. */
  jsonFingerprintBytes: 8 * 1024 * 1024,
  secretChars: 8 * 1024,
  secretsPerKey: 1_000,

  // tools and the sandbox's channel
  toolsPerTask: 256,
  toolNameChars: 64,
  toolDescriptionChars: 4096,
  toolTries: 10,
  toolBackoffMsMax: 60_000,
  /** Of one sandbox that it runs within itself and has not told the end of. */
  toolRunsOpen: 64,
  /** JSON text of what a tool answers, and of an answer to `POST /v1/call`. */
  toolOutputBytes: 8 * 1024 * 1024,
  /** The end of what an exec tool writes to its standard error, told where it fails. */
  toolErrorBytes: 16 * 1024,
  /** How long an answer that missed its deadline is still waited for, so that it can be recorded. */
  lateAnswerMs: 5_000,
  channelConnections: 64,
  channelHeaderBytes: 16 * 1024,
  channelBodyBytes: 12 * 1024 * 1024,
  /** Requests of one sandbox that are worked on at once, through all its connections. */
  channelRequests: 256,
  /** What one sandbox may have in requests that are being read and answers that it has not read. */
  channelBufferedBytes: 64 * 1024 * 1024,
  channelHeaderTimeoutMs: 10_000,
  channelRequestTimeoutMs: 60_000,
  /** A connection on which nothing moves while its client has something to read or to send. */
  channelIdleTimeoutMs: 60_000,
  contextBytes: 256 * 1024,
  eventLogBytes: 192 * 1024 * 1024,
  /** Through which events go to their trajectories; no event is larger than a quarter of it. */
  recorderRingBytes: 16 * 1024 * 1024,
  /** Sent at once of a running attempt's trajectory. */
  trajectoryPartBytes: 1024 * 1024,
  /** A part up to here is kept in the database, where that costs one statement; a file of its own costs more. */
  trajectoryRowBytes: 16 * 1024,
  /** Kept in an event of what a call was given, and of what it answered. */
  recordedArgumentsBytes: 64 * 1024,
  recordedAnswerBytes: 1024 * 1024,
  recordedSpecBytes: 768 * 1024,
  /** Kept in all of what one attempt's proxied calls answered: downloads are not to fill its log. */
  recordedProxyBytes: 64 * 1024 * 1024,
  /** How long a replayed call waits for those that were answered before it began. */
  replayOrderMs: 5_000,
  /** A namespace up to here stands whole in snapshots and beside errors. */
  recordedMemoryBytes: 256 * 1024,
  /** Characters kept beside an error of each of its last three calls, sent and received, and of its stack. */
  payloadChars: 16 * 1024,
  stackChars: 16 * 1024,
  logitTokens: 4096,
  logitTop: 5,
  rewardComponents: 64,
  openSteps: 64,
  observationBytes: 64 * 1024,
  observationsQueued: 256,

  // traces
  /** One encoded event. */
  traceEventBytes: 16 * 1024 * 1024,
  /** An event's time in microseconds, 142 years: the difference of any two is an exact sint64 in a double. */
  traceTimeUs: 2 ** 52 - 1,
  /** What a block of events may unpack to; checked before it is unpacked. */
  traceBlockBytes: 19 * 1024 * 1024,
  traceBlockEvents: 65_536,
  /** A writer ends a block here, or where it has this many bytes compressed: a seek reads and hashes those of one block. */
  traceBlockGoalBytes: 1536 * 1024,
  traceFrameGoalBytes: 256 * 1024,
  /** Blocks of a flush that are together no larger share a frame. */
  traceSharedFrameBytes: 128 * 1024,
  /** Messages or texts in one list of an event: each takes far more memory than bytes in a file. */
  traceListItems: 65_536,
  /** Events that a writer holds before it writes them by itself. */
  traceHeldBytes: 4 * 1024 * 1024,
  /** The file header with its labels. */
  traceHeaderBytes: 1024 * 1024,
  traceBlockHeaderBytes: 1024,
  /** Blocks of one segment: each takes memory while its file is open. */
  traceBlocks: 1_000_000,
  /** Segments of one file: recordings that were written one after another. */
  traceSegments: 10_000,
  /** The index of a sealed trace. */
  traceFooterBytes: 64 * 1024 * 1024,
  /** Numbers of calls and of plan steps that the index goes to. */
  traceIndexNumber: 4_000_000,

  // answers that are completions of a model
  /** A whole answer, and one event of a streamed one; larger ones pass, and are not read along. */
  completionBytes: 8 * 1024 * 1024,
  /** Of an answer in content codings, what is decoded for that; what follows is not read along. */
  completionDecodedBytes: 64 * 1024 * 1024,
  completionEventBytes: 1024 * 1024,
  /** What the answers of one sandbox that are being read along hold together. */
  completionsHeldBytes: 32 * 1024 * 1024,
  completionChoices: 128,
  completionToolCalls: 256,
  /** Of all tool calls of one answer together; what goes beyond is cut off. */
  completionArgumentsChars: 1024 * 1024,
  completionNameChars: 256,
  /** Of one answer that are recorded with their log-probabilities. */
  completionTokens: 262_144,
  tokenTextChars: 512,
  /** Texts of tokens that one trace gives numbers to, and their characters together. */
  vocabularyTexts: 131_072,
  vocabularyChars: 4 * 1024 * 1024,

  // the loopback proxy of one sandbox
  egressConnections: 128,
  /** Requests of one connection that wait for those before them. */
  egressPipelined: 16,
  /** Hosts whose certificate is kept. */
  egressCertificates: 256,
  /** Bodies of one sandbox that are on their way out, together. */
  egressSpoolBytes: 1024 * 1024 * 1024,
  egressHeadMs: 15_000,
  /** From the first byte of a request to the last of its body. */
  egressRequestMs: 600_000,
  egressHandshakeMs: 10_000,
  egressKeepAliveMs: 60_000,
  /** For the ends of a sandbox's connections to be read after its own. */
  egressCloseMs: 1_000,
  /** Of tunnels and WebSockets; what they carry may well be silent for minutes. */
  egressIdleMs: 3_600_000,

  // what a sandbox may produce
  outputFiles: 1024,
  outputFileBytes: 256 * 1024 * 1024,
  outputTotalBytes: 1024 * 1024 * 1024,
  outputPathBytes: 1024,
  /** Looked at for one task's output patterns; one such as `/**` over an image meets hundreds of thousands. */
  outputNames: 1_000_000,
  /** Made for them, character by character: a few seconds of computing. */
  outputComparisons: 250_000_000,
  /** Places in the patterns that folders yet to be looked into have, together: each takes memory until then. */
  outputPlacesWaiting: 4_000_000,
  /** Kept of each of stdout and stderr, as one blob; what comes after is counted, not kept. */
  streamKeptBytes: 16 * 1024 * 1024,
  /** Sent live of each of stdout and stderr as events, and recorded; the blob goes on. */
  streamLiveBytes: 2 * 1024 * 1024,
  eventDataBytes: 64 * 1024,
  eventsPerBatch: 512,

  // leases
  leaseTtlMs: 30_000,
  leaseRenewEveryMs: 10_000,
  leaseBatch: 64,
  renewBatch: 1024,
  longPollMs: 25_000,
  /** Wake-ups may be missed: who waits for one looks again by itself after about so long. */
  wakePollMs: 1_000,
  retryBackoffBaseMs: 500,
  retryBackoffMaxMs: 60_000,
  cancelNoticeMs: 500,
  /** Queued tasks before one that are counted where its client asks why it waits. */
  waitCounted: 1_000,

  // executors
  heartbeatEveryMs: 5_000,
  executorLostAfterMs: 60_000,
  executorTokenTtlS: 60,
  /** Since an enrolment was signed, by the gateway's clock. */
  enrolmentAgeS: 60,
  /** With less in the file system of its data folder an executor takes no task; what it offers leaves twice as much. */
  hostDiskFreeBytes: 512 * 1024 * 1024,
  hostInodesFree: 4_096,
  /** What offers of memory leave at least; what a start finds leaves twice as much. */
  hostMemoryFreeBytes: 128 * 1024 * 1024,
  /** How soon an executor without room looks again. */
  hostRoomCheckEveryMs: 1_000,

  // lists and streams
  pageDefault: 50,
  pageMax: 200,
  sseHeartbeatMs: 15_000,

  // agent memory and messages
  /** UTF-8 bytes of a key. */
  memoryKeyBytes: 512,
  /** UTF-8 bytes of a value's JSON text. */
  memoryValueBytes: 256 * 1024,
  memoryKeys: 65_536,
  /** Keys and values of one namespace together. */
  memoryNamespaceBytes: 64 * 1024 * 1024,
  /** Of the Redis that memory is kept in. */
  memoryAnswerMs: 10_000,
  memoryTtlMsMax: 30 * 24 * 3_600_000,
  /** A page ends early when its values have this many bytes; it holds at least one entry. */
  memoryPageBytes: 1024 * 1024,
  /** What one search request reads before it answers with a cursor. */
  memorySearchEntries: 2_048,
  memorySearchTextBytes: 16 * 1024,
  /** A memory event shows values up to here and the digest of larger ones. */
  memoryEventValueBytes: 1024,
  memoryNameChars: 100,
  /** Who wrote, in the client's own words, such as `agent.py:42 append`. */
  memoryOriginChars: 200,
  channelsPerJob: 256,
  /** That one task declares. */
  channelsPerTask: 64,
  channelNameChars: 100,
  channelReaders: 1_024,
  channelMessages: 10_000,
  channelBytes: 16 * 1024 * 1024,
  messageBytes: 256 * 1024,
  messagesPerReceive: 100,
  /** A repeated send is recognised for so many further messages of its channel after everybody has acknowledged it. */
  messageKeysKept: 10_000,
  /** How long a sandbox's message is tried while the gateway does not answer. */
  messagePatienceMs: 15_000,
  /** Keywords and members of a channel's schema, counted through all levels. */
  channelSchemaNodes: 1_000,

  // questions about traces
  queryChars: 64 * 1024,
  /** Of brackets and `not` within each other. */
  queryDepth: 100,
  /** Names, literals and operators together. */
  queryNodes: 2_000,
  /** Items of one sequence times those of the other: an alignment takes a byte for each pair. */
  alignedPairs: 25_000_000,
  /** Calls that the report on one trace shows, and characters of each text in it. */
  reportCalls: 10_000,
  reportTextChars: 16 * 1024,
  /** Texts in one page, and traces that a page on many holds whole. */
  reportPageChars: 24 * 1024 * 1024,
  reportPageTraces: 250,
  /** Traces that a report lists; all of them count. */
  reportTraces: 10_000,
  /** Features of a trace, and failed traces that are compared pairwise. */
  traceFeatures: 256,
  clusteredTraces: 5_000,

  // exchange of traces
  /** One record of an import: a line, or a document that goes over many. */
  importRecordChars: 64 * 1024 * 1024,
  /** JSON values in one record: each takes far more memory than a character. */
  importRecordValues: 4_000_000,
  /** Of all memory that stands beside the errors of one imported trace; each is bounded by `recordedMemoryBytes`. */
  importErrorMemoryChars: 64 * 1024 * 1024,
  /** Kinds of what one record's import left out or could not read; further ones are told as one. */
  importNotes: 20,
  /** Of what was sent and received, in the context that an imported error is given. */
  importPayloadChars: 4096,
  /** Characters of a trace's id that become its file's name; longer and odd ones are named by digest. */
  traceNameChars: 100,
  /** Of one run: patterns, and values that are looked for in every encoding. */
  redactionPatterns: 1_000,
  redactionValues: 200_000,
  redactionPatternChars: 4096,
  /** Encodings within encodings that are looked into, such as base64 in percent signs. */
  redactionNesting: 4,
  /** Looks at what is left of a text; one that has something in it still goes whole. */
  redactionRounds: 8,
  archiveMembers: 1_000_000,
  archiveNameBytes: 1024,
  archiveIndexBytes: 256 * 1024 * 1024,
  /** A member that unpacks to more times its compressed size is a bomb; traces are compressed already. */
  archiveExpansion: 1024,
  /** Folders within folders that a clean-up goes into. */
  cleanUpDepth: 64,
  /** A trajectory that was written to later than this ago is not deleted: its writer may be at work. */
  cleanUpLiveMs: 3_600_000,

  // keys and tokens
  rateRequestsPerS: 2_000,
  rateBurst: 4_000,
  attestationTtlS: 400 * 24 * 3_600,
  clockLeewayS: 5,
  /** Evidence names every output, so its size follows theirs: it and the result fit one request body together. */
  evidenceBytes: 448 * 1024,
  /** What is read of a token; above evidenceBytes, so that every evidence that is taken can be attested. */
  jwtBytes: 512 * 1024,
  jwksBytes: 256 * 1024,
  jwksKeys: 100,
} as const;
