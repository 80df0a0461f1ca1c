/*eslint-disable block-scoped-var, id-length, no-control-regex, no-magic-numbers, no-mixed-operators, no-prototype-builtins, no-redeclare, no-shadow, no-var, sort-vars, default-case, jsdoc/require-param*/
import $protobuf from "protobufjs/minimal.js";

const $Reader = $protobuf.Reader, $Writer = $protobuf.Writer, $util = $protobuf.util;
const $Object = $util.global.Object, $undefined = $util.global.undefined, $Error = $util.global.Error, $RangeError = $util.global.RangeError;

const $root = $protobuf.roots["default"] || ($protobuf.roots["default"] = {});

export const dsec = $root.dsec = (() => {

    const dsec = {};

    dsec.trace = (function() {

        const trace = {};

        trace.v1 = (function() {

            const v1 = {};

            v1.Trace = (function() {

                const Trace = function (properties) {
                    this.blocks = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Trace.prototype.blocks = $util.emptyArray;

                Trace.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.blocks != null && message.blocks.length)
                        for (let i = 0; i < message.blocks.length; ++i)
                            $root.dsec.trace.v1.Block.encode(message.blocks[i], writer.uint32(10).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Trace.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Trace();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.blocks && message.blocks.length))
                                    message.blocks = [];
                                message.blocks.push($root.dsec.trace.v1.Block.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Trace;
            })();

            v1.Section = (function() {
                const valuesById = $Object.create(null), values = $Object.create(valuesById);
                values[valuesById[0] = "SECTION_UNSPECIFIED"] = 0;
                values[valuesById[1] = "SECTION_PLAN_EXECUTION"] = 1;
                values[valuesById[2] = "SECTION_MEMORY_STATE"] = 2;
                values[valuesById[3] = "SECTION_TOKEN_LOGIT"] = 3;
                values[valuesById[4] = "SECTION_REWARD_SIGNAL"] = 4;
                values[valuesById[5] = "SECTION_ERROR_CONTEXT"] = 5;
                return values;
            })();

            v1.Block = (function() {

                const Block = function (properties) {
                    this.events = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Block.prototype.section = 0;
                Block.prototype.events = $util.emptyArray;

                Block.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.section != null && $Object.hasOwnProperty.call(message, "section") && message.section !== 0)
                        writer.uint32(8).int32(message.section);
                    if (message.events != null && message.events.length)
                        for (let i = 0; i < message.events.length; ++i)
                            writer.uint32(18).bytes(message.events[i]);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Block.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Block();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.int32())
                                    message.section = value;
                                else
                                    delete message.section;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.events && message.events.length))
                                    message.events = [];
                                message.events.push(reader.bytes());
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Block;
            })();

            v1.FileHeader = (function() {

                const FileHeader = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                FileHeader.prototype.version = 0;
                FileHeader.prototype.trace_id = "";
                FileHeader.prototype.source = "";
                FileHeader.prototype.started_wall_us = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
                FileHeader.prototype.genesis_digest = $util.newBuffer([]);
                FileHeader.prototype.task_id = null;
                FileHeader.prototype.lease_id = null;
                FileHeader.prototype.fence = null;
                FileHeader.prototype.attempt = null;
                FileHeader.prototype.spec_digest = null;
                FileHeader.prototype.image = null;
                FileHeader.prototype.level = null;
                FileHeader.prototype.redacted_from_digest = null;
                FileHeader.prototype.labels_json = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_task_id", {
                    get: $util.oneOfGetter($oneOfFields = ["task_id"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_lease_id", {
                    get: $util.oneOfGetter($oneOfFields = ["lease_id"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_fence", {
                    get: $util.oneOfGetter($oneOfFields = ["fence"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_attempt", {
                    get: $util.oneOfGetter($oneOfFields = ["attempt"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_spec_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["spec_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_image", {
                    get: $util.oneOfGetter($oneOfFields = ["image"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_level", {
                    get: $util.oneOfGetter($oneOfFields = ["level"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_redacted_from_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["redacted_from_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(FileHeader.prototype, "_labels_json", {
                    get: $util.oneOfGetter($oneOfFields = ["labels_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                FileHeader.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && message.version !== 0)
                        writer.uint32(8).uint32(message.version);
                    if (message.trace_id != null && $Object.hasOwnProperty.call(message, "trace_id") && message.trace_id !== "")
                        writer.uint32(18).string(message.trace_id);
                    if (message.source != null && $Object.hasOwnProperty.call(message, "source") && message.source !== "")
                        writer.uint32(26).string(message.source);
                    if (message.started_wall_us != null && $Object.hasOwnProperty.call(message, "started_wall_us") && (typeof message.started_wall_us === "object" ? message.started_wall_us.low || message.started_wall_us.high : message.started_wall_us !== 0))
                        writer.uint32(32).int64(message.started_wall_us);
                    if (message.genesis_digest != null && $Object.hasOwnProperty.call(message, "genesis_digest") && message.genesis_digest.length)
                        writer.uint32(42).bytes(message.genesis_digest);
                    if (message.task_id != null && $Object.hasOwnProperty.call(message, "task_id"))
                        writer.uint32(50).string(message.task_id);
                    if (message.lease_id != null && $Object.hasOwnProperty.call(message, "lease_id"))
                        writer.uint32(58).string(message.lease_id);
                    if (message.fence != null && $Object.hasOwnProperty.call(message, "fence"))
                        writer.uint32(64).uint64(message.fence);
                    if (message.attempt != null && $Object.hasOwnProperty.call(message, "attempt"))
                        writer.uint32(72).uint32(message.attempt);
                    if (message.spec_digest != null && $Object.hasOwnProperty.call(message, "spec_digest"))
                        writer.uint32(82).bytes(message.spec_digest);
                    if (message.image != null && $Object.hasOwnProperty.call(message, "image"))
                        writer.uint32(90).string(message.image);
                    if (message.level != null && $Object.hasOwnProperty.call(message, "level"))
                        writer.uint32(98).string(message.level);
                    if (message.redacted_from_digest != null && $Object.hasOwnProperty.call(message, "redacted_from_digest"))
                        writer.uint32(106).bytes(message.redacted_from_digest);
                    if (message.labels_json != null && $Object.hasOwnProperty.call(message, "labels_json"))
                        writer.uint32(114).string(message.labels_json);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                FileHeader.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.FileHeader();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.trace_id = value;
                                else
                                    delete message.trace_id;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.source = value;
                                else
                                    delete message.source;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.int64()) === "object" ? value.low || value.high : value !== 0)
                                    message.started_wall_us = value;
                                else
                                    delete message.started_wall_us;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.genesis_digest = value;
                                else
                                    delete message.genesis_digest;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.task_id = reader.stringVerify();
                                message._task_id = "task_id";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.lease_id = reader.stringVerify();
                                message._lease_id = "lease_id";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.fence = reader.uint64();
                                message._fence = "fence";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                message.attempt = reader.uint32();
                                message._attempt = "attempt";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.spec_digest = reader.bytes();
                                message._spec_digest = "spec_digest";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.image = reader.stringVerify();
                                message._image = "image";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.level = reader.stringVerify();
                                message._level = "level";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 2)
                                    break;
                                message.redacted_from_digest = reader.bytes();
                                message._redacted_from_digest = "redacted_from_digest";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.labels_json = reader.stringVerify();
                                message._labels_json = "labels_json";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return FileHeader;
            })();

            v1.BlockHeader = (function() {

                const BlockHeader = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                BlockHeader.prototype.section = 0;
                BlockHeader.prototype.first_seq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                BlockHeader.prototype.last_seq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                BlockHeader.prototype.events = 0;
                BlockHeader.prototype.first_t_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                BlockHeader.prototype.last_t_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                BlockHeader.prototype.compressed_bytes = 0;
                BlockHeader.prototype.uncompressed_bytes = 0;
                BlockHeader.prototype.frame_digest = $util.newBuffer([]);
                BlockHeader.prototype.previous_digest = $util.newBuffer([]);
                BlockHeader.prototype.chain_digest = null;
                BlockHeader.prototype.chain_seq = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(BlockHeader.prototype, "_chain_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["chain_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(BlockHeader.prototype, "_chain_seq", {
                    get: $util.oneOfGetter($oneOfFields = ["chain_seq"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                BlockHeader.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.section != null && $Object.hasOwnProperty.call(message, "section") && message.section !== 0)
                        writer.uint32(8).int32(message.section);
                    if (message.first_seq != null && $Object.hasOwnProperty.call(message, "first_seq") && (typeof message.first_seq === "object" ? message.first_seq.low || message.first_seq.high : message.first_seq !== 0))
                        writer.uint32(16).uint64(message.first_seq);
                    if (message.last_seq != null && $Object.hasOwnProperty.call(message, "last_seq") && (typeof message.last_seq === "object" ? message.last_seq.low || message.last_seq.high : message.last_seq !== 0))
                        writer.uint32(24).uint64(message.last_seq);
                    if (message.events != null && $Object.hasOwnProperty.call(message, "events") && message.events !== 0)
                        writer.uint32(32).uint32(message.events);
                    if (message.first_t_us != null && $Object.hasOwnProperty.call(message, "first_t_us") && (typeof message.first_t_us === "object" ? message.first_t_us.low || message.first_t_us.high : message.first_t_us !== 0))
                        writer.uint32(40).uint64(message.first_t_us);
                    if (message.last_t_us != null && $Object.hasOwnProperty.call(message, "last_t_us") && (typeof message.last_t_us === "object" ? message.last_t_us.low || message.last_t_us.high : message.last_t_us !== 0))
                        writer.uint32(48).uint64(message.last_t_us);
                    if (message.compressed_bytes != null && $Object.hasOwnProperty.call(message, "compressed_bytes") && message.compressed_bytes !== 0)
                        writer.uint32(56).uint32(message.compressed_bytes);
                    if (message.uncompressed_bytes != null && $Object.hasOwnProperty.call(message, "uncompressed_bytes") && message.uncompressed_bytes !== 0)
                        writer.uint32(64).uint32(message.uncompressed_bytes);
                    if (message.frame_digest != null && $Object.hasOwnProperty.call(message, "frame_digest") && message.frame_digest.length)
                        writer.uint32(74).bytes(message.frame_digest);
                    if (message.previous_digest != null && $Object.hasOwnProperty.call(message, "previous_digest") && message.previous_digest.length)
                        writer.uint32(82).bytes(message.previous_digest);
                    if (message.chain_digest != null && $Object.hasOwnProperty.call(message, "chain_digest"))
                        writer.uint32(90).bytes(message.chain_digest);
                    if (message.chain_seq != null && $Object.hasOwnProperty.call(message, "chain_seq"))
                        writer.uint32(96).uint64(message.chain_seq);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                BlockHeader.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.BlockHeader();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.int32())
                                    message.section = value;
                                else
                                    delete message.section;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.first_seq = value;
                                else
                                    delete message.first_seq;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.last_seq = value;
                                else
                                    delete message.last_seq;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.events = value;
                                else
                                    delete message.events;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.first_t_us = value;
                                else
                                    delete message.first_t_us;
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.last_t_us = value;
                                else
                                    delete message.last_t_us;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.compressed_bytes = value;
                                else
                                    delete message.compressed_bytes;
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.uncompressed_bytes = value;
                                else
                                    delete message.uncompressed_bytes;
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.frame_digest = value;
                                else
                                    delete message.frame_digest;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.previous_digest = value;
                                else
                                    delete message.previous_digest;
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.chain_digest = reader.bytes();
                                message._chain_digest = "chain_digest";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 0)
                                    break;
                                message.chain_seq = reader.uint64();
                                message._chain_seq = "chain_seq";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return BlockHeader;
            })();

            v1.Footer = (function() {

                const Footer = function (properties) {
                    this.sections = [];
                    this.offset_deltas = [];
                    this.first_seqs = [];
                    this.last_seqs = [];
                    this.first_t_us = [];
                    this.last_t_us = [];
                    this.event_counts = [];
                    this.step_seqs = [];
                    this.call_seqs = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Footer.prototype.segment_bytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Footer.prototype.events = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Footer.prototype.chain_digest = $util.newBuffer([]);
                Footer.prototype.sections = $util.emptyArray;
                Footer.prototype.offset_deltas = $util.emptyArray;
                Footer.prototype.first_seqs = $util.emptyArray;
                Footer.prototype.last_seqs = $util.emptyArray;
                Footer.prototype.first_t_us = $util.emptyArray;
                Footer.prototype.last_t_us = $util.emptyArray;
                Footer.prototype.event_counts = $util.emptyArray;
                Footer.prototype.step_seqs = $util.emptyArray;
                Footer.prototype.call_seqs = $util.emptyArray;
                Footer.prototype.ended_t_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Footer.prototype.header_digest = $util.newBuffer([]);
                Footer.prototype.previous_digest = $util.newBuffer([]);

                Footer.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.segment_bytes != null && $Object.hasOwnProperty.call(message, "segment_bytes") && (typeof message.segment_bytes === "object" ? message.segment_bytes.low || message.segment_bytes.high : message.segment_bytes !== 0))
                        writer.uint32(8).uint64(message.segment_bytes);
                    if (message.events != null && $Object.hasOwnProperty.call(message, "events") && (typeof message.events === "object" ? message.events.low || message.events.high : message.events !== 0))
                        writer.uint32(16).uint64(message.events);
                    if (message.chain_digest != null && $Object.hasOwnProperty.call(message, "chain_digest") && message.chain_digest.length)
                        writer.uint32(26).bytes(message.chain_digest);
                    if (message.sections != null && message.sections.length)
                        writer.uint32(34).uint32s(message.sections);
                    if (message.offset_deltas != null && message.offset_deltas.length)
                        writer.uint32(42).uint64s(message.offset_deltas);
                    if (message.first_seqs != null && message.first_seqs.length)
                        writer.uint32(50).uint64s(message.first_seqs);
                    if (message.last_seqs != null && message.last_seqs.length)
                        writer.uint32(58).uint64s(message.last_seqs);
                    if (message.first_t_us != null && message.first_t_us.length)
                        writer.uint32(66).uint64s(message.first_t_us);
                    if (message.last_t_us != null && message.last_t_us.length)
                        writer.uint32(74).uint64s(message.last_t_us);
                    if (message.event_counts != null && message.event_counts.length)
                        writer.uint32(82).uint32s(message.event_counts);
                    if (message.step_seqs != null && message.step_seqs.length)
                        writer.uint32(90).uint64s(message.step_seqs);
                    if (message.call_seqs != null && message.call_seqs.length)
                        writer.uint32(98).uint64s(message.call_seqs);
                    if (message.ended_t_us != null && $Object.hasOwnProperty.call(message, "ended_t_us") && (typeof message.ended_t_us === "object" ? message.ended_t_us.low || message.ended_t_us.high : message.ended_t_us !== 0))
                        writer.uint32(104).uint64(message.ended_t_us);
                    if (message.header_digest != null && $Object.hasOwnProperty.call(message, "header_digest") && message.header_digest.length)
                        writer.uint32(114).bytes(message.header_digest);
                    if (message.previous_digest != null && $Object.hasOwnProperty.call(message, "previous_digest") && message.previous_digest.length)
                        writer.uint32(122).bytes(message.previous_digest);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Footer.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Footer();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.segment_bytes = value;
                                else
                                    delete message.segment_bytes;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.events = value;
                                else
                                    delete message.events;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.chain_digest = value;
                                else
                                    delete message.chain_digest;
                                continue;
                            }
                        case 4: {
                                if (wireType === 2) {
                                    if (!(message.sections && message.sections.length))
                                        message.sections = [];
                                    reader.uint32s(message.sections);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.sections && message.sections.length))
                                    message.sections = [];
                                message.sections.push(reader.uint32());
                                continue;
                            }
                        case 5: {
                                if (wireType === 2) {
                                    if (!(message.offset_deltas && message.offset_deltas.length))
                                        message.offset_deltas = [];
                                    reader.uint64s(message.offset_deltas);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.offset_deltas && message.offset_deltas.length))
                                    message.offset_deltas = [];
                                message.offset_deltas.push(reader.uint64());
                                continue;
                            }
                        case 6: {
                                if (wireType === 2) {
                                    if (!(message.first_seqs && message.first_seqs.length))
                                        message.first_seqs = [];
                                    reader.uint64s(message.first_seqs);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.first_seqs && message.first_seqs.length))
                                    message.first_seqs = [];
                                message.first_seqs.push(reader.uint64());
                                continue;
                            }
                        case 7: {
                                if (wireType === 2) {
                                    if (!(message.last_seqs && message.last_seqs.length))
                                        message.last_seqs = [];
                                    reader.uint64s(message.last_seqs);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.last_seqs && message.last_seqs.length))
                                    message.last_seqs = [];
                                message.last_seqs.push(reader.uint64());
                                continue;
                            }
                        case 8: {
                                if (wireType === 2) {
                                    if (!(message.first_t_us && message.first_t_us.length))
                                        message.first_t_us = [];
                                    reader.uint64s(message.first_t_us);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.first_t_us && message.first_t_us.length))
                                    message.first_t_us = [];
                                message.first_t_us.push(reader.uint64());
                                continue;
                            }
                        case 9: {
                                if (wireType === 2) {
                                    if (!(message.last_t_us && message.last_t_us.length))
                                        message.last_t_us = [];
                                    reader.uint64s(message.last_t_us);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.last_t_us && message.last_t_us.length))
                                    message.last_t_us = [];
                                message.last_t_us.push(reader.uint64());
                                continue;
                            }
                        case 10: {
                                if (wireType === 2) {
                                    if (!(message.event_counts && message.event_counts.length))
                                        message.event_counts = [];
                                    reader.uint32s(message.event_counts);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.event_counts && message.event_counts.length))
                                    message.event_counts = [];
                                message.event_counts.push(reader.uint32());
                                continue;
                            }
                        case 11: {
                                if (wireType === 2) {
                                    if (!(message.step_seqs && message.step_seqs.length))
                                        message.step_seqs = [];
                                    reader.uint64s(message.step_seqs);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.step_seqs && message.step_seqs.length))
                                    message.step_seqs = [];
                                message.step_seqs.push(reader.uint64());
                                continue;
                            }
                        case 12: {
                                if (wireType === 2) {
                                    if (!(message.call_seqs && message.call_seqs.length))
                                        message.call_seqs = [];
                                    reader.uint64s(message.call_seqs);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.call_seqs && message.call_seqs.length))
                                    message.call_seqs = [];
                                message.call_seqs.push(reader.uint64());
                                continue;
                            }
                        case 13: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.ended_t_us = value;
                                else
                                    delete message.ended_t_us;
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.header_digest = value;
                                else
                                    delete message.header_digest;
                                continue;
                            }
                        case 15: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.previous_digest = value;
                                else
                                    delete message.previous_digest;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Footer;
            })();

            v1.Event = (function() {

                const Event = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Event.prototype.seq = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Event.prototype.t_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Event.prototype.wall_skew_us = $util.Long ? $util.Long.fromBits(0,0,false) : 0;
                Event.prototype.tool_call_start = null;
                Event.prototype.tool_call_end = null;
                Event.prototype.tool_call_late = null;
                Event.prototype.plan_step = null;
                Event.prototype.context = null;
                Event.prototype.observation = null;
                Event.prototype.message = null;
                Event.prototype.process = null;
                Event.prototype.output = null;
                Event.prototype.snapshot = null;
                Event.prototype.rollback = null;
                Event.prototype.memory_read = null;
                Event.prototype.memory_write = null;
                Event.prototype.memory_snapshot = null;
                Event.prototype.token_logit = null;
                Event.prototype.completion = null;
                Event.prototype.reward = null;
                Event.prototype.error = null;

                let $oneOfFields;

                $Object.defineProperty(Event.prototype, "kind", {
                    get: $util.oneOfGetter($oneOfFields = ["tool_call_start", "tool_call_end", "tool_call_late", "plan_step", "context", "observation", "message", "process", "output", "snapshot", "rollback", "memory_read", "memory_write", "memory_snapshot", "token_logit", "completion", "reward", "error"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Event.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.seq != null && $Object.hasOwnProperty.call(message, "seq") && (typeof message.seq === "object" ? message.seq.low || message.seq.high : message.seq !== 0))
                        writer.uint32(8).uint64(message.seq);
                    if (message.t_us != null && $Object.hasOwnProperty.call(message, "t_us") && (typeof message.t_us === "object" ? message.t_us.low || message.t_us.high : message.t_us !== 0))
                        writer.uint32(16).uint64(message.t_us);
                    if (message.wall_skew_us != null && $Object.hasOwnProperty.call(message, "wall_skew_us") && (typeof message.wall_skew_us === "object" ? message.wall_skew_us.low || message.wall_skew_us.high : message.wall_skew_us !== 0))
                        writer.uint32(24).sint64(message.wall_skew_us);
                    if (message.tool_call_start != null && $Object.hasOwnProperty.call(message, "tool_call_start"))
                        $root.dsec.trace.v1.ToolCallStart.encode(message.tool_call_start, writer.uint32(82).fork(), _depth + 1).ldelim();
                    if (message.tool_call_end != null && $Object.hasOwnProperty.call(message, "tool_call_end"))
                        $root.dsec.trace.v1.ToolCallEnd.encode(message.tool_call_end, writer.uint32(90).fork(), _depth + 1).ldelim();
                    if (message.tool_call_late != null && $Object.hasOwnProperty.call(message, "tool_call_late"))
                        $root.dsec.trace.v1.ToolCallLate.encode(message.tool_call_late, writer.uint32(98).fork(), _depth + 1).ldelim();
                    if (message.plan_step != null && $Object.hasOwnProperty.call(message, "plan_step"))
                        $root.dsec.trace.v1.PlanStep.encode(message.plan_step, writer.uint32(106).fork(), _depth + 1).ldelim();
                    if (message.context != null && $Object.hasOwnProperty.call(message, "context"))
                        $root.dsec.trace.v1.Context.encode(message.context, writer.uint32(114).fork(), _depth + 1).ldelim();
                    if (message.observation != null && $Object.hasOwnProperty.call(message, "observation"))
                        $root.dsec.trace.v1.Observation.encode(message.observation, writer.uint32(122).fork(), _depth + 1).ldelim();
                    if (message.message != null && $Object.hasOwnProperty.call(message, "message"))
                        $root.dsec.trace.v1.Message.encode(message.message, writer.uint32(130).fork(), _depth + 1).ldelim();
                    if (message.process != null && $Object.hasOwnProperty.call(message, "process"))
                        $root.dsec.trace.v1.Process.encode(message.process, writer.uint32(138).fork(), _depth + 1).ldelim();
                    if (message.output != null && $Object.hasOwnProperty.call(message, "output"))
                        $root.dsec.trace.v1.Output.encode(message.output, writer.uint32(146).fork(), _depth + 1).ldelim();
                    if (message.snapshot != null && $Object.hasOwnProperty.call(message, "snapshot"))
                        $root.dsec.trace.v1.Snapshot.encode(message.snapshot, writer.uint32(154).fork(), _depth + 1).ldelim();
                    if (message.rollback != null && $Object.hasOwnProperty.call(message, "rollback"))
                        $root.dsec.trace.v1.Rollback.encode(message.rollback, writer.uint32(162).fork(), _depth + 1).ldelim();
                    if (message.memory_read != null && $Object.hasOwnProperty.call(message, "memory_read"))
                        $root.dsec.trace.v1.MemoryAccess.encode(message.memory_read, writer.uint32(242).fork(), _depth + 1).ldelim();
                    if (message.memory_write != null && $Object.hasOwnProperty.call(message, "memory_write"))
                        $root.dsec.trace.v1.MemoryAccess.encode(message.memory_write, writer.uint32(250).fork(), _depth + 1).ldelim();
                    if (message.memory_snapshot != null && $Object.hasOwnProperty.call(message, "memory_snapshot"))
                        $root.dsec.trace.v1.MemorySnapshot.encode(message.memory_snapshot, writer.uint32(258).fork(), _depth + 1).ldelim();
                    if (message.token_logit != null && $Object.hasOwnProperty.call(message, "token_logit"))
                        $root.dsec.trace.v1.TokenLogit.encode(message.token_logit, writer.uint32(322).fork(), _depth + 1).ldelim();
                    if (message.completion != null && $Object.hasOwnProperty.call(message, "completion"))
                        $root.dsec.trace.v1.Completion.encode(message.completion, writer.uint32(330).fork(), _depth + 1).ldelim();
                    if (message.reward != null && $Object.hasOwnProperty.call(message, "reward"))
                        $root.dsec.trace.v1.Reward.encode(message.reward, writer.uint32(402).fork(), _depth + 1).ldelim();
                    if (message.error != null && $Object.hasOwnProperty.call(message, "error"))
                        $root.dsec.trace.v1.Error.encode(message.error, writer.uint32(482).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Event.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Event();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.seq = value;
                                else
                                    delete message.seq;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.t_us = value;
                                else
                                    delete message.t_us;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.sint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.wall_skew_us = value;
                                else
                                    delete message.wall_skew_us;
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.tool_call_start = $root.dsec.trace.v1.ToolCallStart.decode(reader, reader.size(), $undefined, _depth + 1, message.tool_call_start);
                                message.kind = "tool_call_start";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.tool_call_end = $root.dsec.trace.v1.ToolCallEnd.decode(reader, reader.size(), $undefined, _depth + 1, message.tool_call_end);
                                message.kind = "tool_call_end";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.tool_call_late = $root.dsec.trace.v1.ToolCallLate.decode(reader, reader.size(), $undefined, _depth + 1, message.tool_call_late);
                                message.kind = "tool_call_late";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 2)
                                    break;
                                message.plan_step = $root.dsec.trace.v1.PlanStep.decode(reader, reader.size(), $undefined, _depth + 1, message.plan_step);
                                message.kind = "plan_step";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.context = $root.dsec.trace.v1.Context.decode(reader, reader.size(), $undefined, _depth + 1, message.context);
                                message.kind = "context";
                                continue;
                            }
                        case 15: {
                                if (wireType !== 2)
                                    break;
                                message.observation = $root.dsec.trace.v1.Observation.decode(reader, reader.size(), $undefined, _depth + 1, message.observation);
                                message.kind = "observation";
                                continue;
                            }
                        case 16: {
                                if (wireType !== 2)
                                    break;
                                message.message = $root.dsec.trace.v1.Message.decode(reader, reader.size(), $undefined, _depth + 1, message.message);
                                message.kind = "message";
                                continue;
                            }
                        case 17: {
                                if (wireType !== 2)
                                    break;
                                message.process = $root.dsec.trace.v1.Process.decode(reader, reader.size(), $undefined, _depth + 1, message.process);
                                message.kind = "process";
                                continue;
                            }
                        case 18: {
                                if (wireType !== 2)
                                    break;
                                message.output = $root.dsec.trace.v1.Output.decode(reader, reader.size(), $undefined, _depth + 1, message.output);
                                message.kind = "output";
                                continue;
                            }
                        case 19: {
                                if (wireType !== 2)
                                    break;
                                message.snapshot = $root.dsec.trace.v1.Snapshot.decode(reader, reader.size(), $undefined, _depth + 1, message.snapshot);
                                message.kind = "snapshot";
                                continue;
                            }
                        case 20: {
                                if (wireType !== 2)
                                    break;
                                message.rollback = $root.dsec.trace.v1.Rollback.decode(reader, reader.size(), $undefined, _depth + 1, message.rollback);
                                message.kind = "rollback";
                                continue;
                            }
                        case 30: {
                                if (wireType !== 2)
                                    break;
                                message.memory_read = $root.dsec.trace.v1.MemoryAccess.decode(reader, reader.size(), $undefined, _depth + 1, message.memory_read);
                                message.kind = "memory_read";
                                continue;
                            }
                        case 31: {
                                if (wireType !== 2)
                                    break;
                                message.memory_write = $root.dsec.trace.v1.MemoryAccess.decode(reader, reader.size(), $undefined, _depth + 1, message.memory_write);
                                message.kind = "memory_write";
                                continue;
                            }
                        case 32: {
                                if (wireType !== 2)
                                    break;
                                message.memory_snapshot = $root.dsec.trace.v1.MemorySnapshot.decode(reader, reader.size(), $undefined, _depth + 1, message.memory_snapshot);
                                message.kind = "memory_snapshot";
                                continue;
                            }
                        case 40: {
                                if (wireType !== 2)
                                    break;
                                message.token_logit = $root.dsec.trace.v1.TokenLogit.decode(reader, reader.size(), $undefined, _depth + 1, message.token_logit);
                                message.kind = "token_logit";
                                continue;
                            }
                        case 41: {
                                if (wireType !== 2)
                                    break;
                                message.completion = $root.dsec.trace.v1.Completion.decode(reader, reader.size(), $undefined, _depth + 1, message.completion);
                                message.kind = "completion";
                                continue;
                            }
                        case 50: {
                                if (wireType !== 2)
                                    break;
                                message.reward = $root.dsec.trace.v1.Reward.decode(reader, reader.size(), $undefined, _depth + 1, message.reward);
                                message.kind = "reward";
                                continue;
                            }
                        case 60: {
                                if (wireType !== 2)
                                    break;
                                message.error = $root.dsec.trace.v1.Error.decode(reader, reader.size(), $undefined, _depth + 1, message.error);
                                message.kind = "error";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Event;
            })();

            v1.ToolCallStart = (function() {

                const ToolCallStart = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                ToolCallStart.prototype.call = 0;
                ToolCallStart.prototype.tool = null;
                ToolCallStart.prototype.kind = "";
                ToolCallStart.prototype.via = "";
                ToolCallStart.prototype.read_only = null;
                ToolCallStart.prototype.where = null;
                ToolCallStart.prototype.passage = null;
                ToolCallStart.prototype.method = null;
                ToolCallStart.prototype.url = null;
                ToolCallStart.prototype.arguments_digest = null;
                ToolCallStart.prototype.arguments_json = null;
                ToolCallStart.prototype.body = null;
                ToolCallStart.prototype.step = null;
                ToolCallStart.prototype.memory_digest = null;
                ToolCallStart.prototype.context_digest = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_tool", {
                    get: $util.oneOfGetter($oneOfFields = ["tool"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_read_only", {
                    get: $util.oneOfGetter($oneOfFields = ["read_only"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_where", {
                    get: $util.oneOfGetter($oneOfFields = ["where"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_passage", {
                    get: $util.oneOfGetter($oneOfFields = ["passage"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_method", {
                    get: $util.oneOfGetter($oneOfFields = ["method"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_url", {
                    get: $util.oneOfGetter($oneOfFields = ["url"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_arguments_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["arguments_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_arguments_json", {
                    get: $util.oneOfGetter($oneOfFields = ["arguments_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_body", {
                    get: $util.oneOfGetter($oneOfFields = ["body"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_step", {
                    get: $util.oneOfGetter($oneOfFields = ["step"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_memory_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallStart.prototype, "_context_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["context_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                ToolCallStart.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call") && message.call !== 0)
                        writer.uint32(8).uint32(message.call);
                    if (message.tool != null && $Object.hasOwnProperty.call(message, "tool"))
                        writer.uint32(18).string(message.tool);
                    if (message.kind != null && $Object.hasOwnProperty.call(message, "kind") && message.kind !== "")
                        writer.uint32(26).string(message.kind);
                    if (message.via != null && $Object.hasOwnProperty.call(message, "via") && message.via !== "")
                        writer.uint32(34).string(message.via);
                    if (message.read_only != null && $Object.hasOwnProperty.call(message, "read_only"))
                        writer.uint32(40).bool(message.read_only);
                    if (message.where != null && $Object.hasOwnProperty.call(message, "where"))
                        writer.uint32(50).string(message.where);
                    if (message.passage != null && $Object.hasOwnProperty.call(message, "passage"))
                        writer.uint32(58).string(message.passage);
                    if (message.method != null && $Object.hasOwnProperty.call(message, "method"))
                        writer.uint32(66).string(message.method);
                    if (message.url != null && $Object.hasOwnProperty.call(message, "url"))
                        writer.uint32(74).string(message.url);
                    if (message.arguments_digest != null && $Object.hasOwnProperty.call(message, "arguments_digest"))
                        writer.uint32(82).bytes(message.arguments_digest);
                    if (message.arguments_json != null && $Object.hasOwnProperty.call(message, "arguments_json"))
                        writer.uint32(90).string(message.arguments_json);
                    if (message.body != null && $Object.hasOwnProperty.call(message, "body"))
                        writer.uint32(98).bytes(message.body);
                    if (message.step != null && $Object.hasOwnProperty.call(message, "step"))
                        writer.uint32(104).uint32(message.step);
                    if (message.memory_digest != null && $Object.hasOwnProperty.call(message, "memory_digest"))
                        writer.uint32(114).bytes(message.memory_digest);
                    if (message.context_digest != null && $Object.hasOwnProperty.call(message, "context_digest"))
                        writer.uint32(122).bytes(message.context_digest);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                ToolCallStart.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.ToolCallStart();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.call = value;
                                else
                                    delete message.call;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.tool = reader.stringVerify();
                                message._tool = "tool";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.kind = value;
                                else
                                    delete message.kind;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.via = value;
                                else
                                    delete message.via;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.read_only = reader.bool();
                                message._read_only = "read_only";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.where = reader.stringVerify();
                                message._where = "where";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.passage = reader.stringVerify();
                                message._passage = "passage";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                message.method = reader.stringVerify();
                                message._method = "method";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                message.url = reader.stringVerify();
                                message._url = "url";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.arguments_digest = reader.bytes();
                                message._arguments_digest = "arguments_digest";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.arguments_json = reader.stringVerify();
                                message._arguments_json = "arguments_json";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.body = reader.bytes();
                                message._body = "body";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 0)
                                    break;
                                message.step = reader.uint32();
                                message._step = "step";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.memory_digest = reader.bytes();
                                message._memory_digest = "memory_digest";
                                continue;
                            }
                        case 15: {
                                if (wireType !== 2)
                                    break;
                                message.context_digest = reader.bytes();
                                message._context_digest = "context_digest";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ToolCallStart;
            })();

            v1.ToolCallEnd = (function() {

                const ToolCallEnd = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                ToolCallEnd.prototype.call = 0;
                ToolCallEnd.prototype.state = "";
                ToolCallEnd.prototype.tries = 0;
                ToolCallEnd.prototype.duration_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                ToolCallEnd.prototype.code = null;
                ToolCallEnd.prototype.text = null;
                ToolCallEnd.prototype.call_seq = null;
                ToolCallEnd.prototype.status = null;
                ToolCallEnd.prototype.is_error = null;
                ToolCallEnd.prototype.body_digest = null;
                ToolCallEnd.prototype.json_digest = null;
                ToolCallEnd.prototype.output_digest = null;
                ToolCallEnd.prototype.output_bytes = null;
                ToolCallEnd.prototype.answer = null;
                ToolCallEnd.prototype.exit_code = null;
                ToolCallEnd.prototype.signal = null;
                ToolCallEnd.prototype.reason = null;
                ToolCallEnd.prototype.memory_digest = null;
                ToolCallEnd.prototype.memory_changed = null;
                ToolCallEnd.prototype.bytes_up = null;
                ToolCallEnd.prototype.bytes_down = null;
                ToolCallEnd.prototype.timing = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_code", {
                    get: $util.oneOfGetter($oneOfFields = ["code"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_text", {
                    get: $util.oneOfGetter($oneOfFields = ["text"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_call_seq", {
                    get: $util.oneOfGetter($oneOfFields = ["call_seq"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_status", {
                    get: $util.oneOfGetter($oneOfFields = ["status"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_is_error", {
                    get: $util.oneOfGetter($oneOfFields = ["is_error"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_body_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["body_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_json_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["json_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_output_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["output_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_output_bytes", {
                    get: $util.oneOfGetter($oneOfFields = ["output_bytes"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_answer", {
                    get: $util.oneOfGetter($oneOfFields = ["answer"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_exit_code", {
                    get: $util.oneOfGetter($oneOfFields = ["exit_code"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_signal", {
                    get: $util.oneOfGetter($oneOfFields = ["signal"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_reason", {
                    get: $util.oneOfGetter($oneOfFields = ["reason"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_memory_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_memory_changed", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_changed"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_bytes_up", {
                    get: $util.oneOfGetter($oneOfFields = ["bytes_up"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_bytes_down", {
                    get: $util.oneOfGetter($oneOfFields = ["bytes_down"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallEnd.prototype, "_timing", {
                    get: $util.oneOfGetter($oneOfFields = ["timing"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                ToolCallEnd.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call") && message.call !== 0)
                        writer.uint32(8).uint32(message.call);
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(18).string(message.state);
                    if (message.tries != null && $Object.hasOwnProperty.call(message, "tries") && message.tries !== 0)
                        writer.uint32(24).uint32(message.tries);
                    if (message.duration_us != null && $Object.hasOwnProperty.call(message, "duration_us") && (typeof message.duration_us === "object" ? message.duration_us.low || message.duration_us.high : message.duration_us !== 0))
                        writer.uint32(32).uint64(message.duration_us);
                    if (message.code != null && $Object.hasOwnProperty.call(message, "code"))
                        writer.uint32(42).string(message.code);
                    if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                        writer.uint32(50).string(message.text);
                    if (message.call_seq != null && $Object.hasOwnProperty.call(message, "call_seq"))
                        writer.uint32(56).uint32(message.call_seq);
                    if (message.status != null && $Object.hasOwnProperty.call(message, "status"))
                        writer.uint32(64).uint32(message.status);
                    if (message.is_error != null && $Object.hasOwnProperty.call(message, "is_error"))
                        writer.uint32(72).bool(message.is_error);
                    if (message.body_digest != null && $Object.hasOwnProperty.call(message, "body_digest"))
                        writer.uint32(82).bytes(message.body_digest);
                    if (message.json_digest != null && $Object.hasOwnProperty.call(message, "json_digest"))
                        writer.uint32(90).bytes(message.json_digest);
                    if (message.output_digest != null && $Object.hasOwnProperty.call(message, "output_digest"))
                        writer.uint32(98).bytes(message.output_digest);
                    if (message.output_bytes != null && $Object.hasOwnProperty.call(message, "output_bytes"))
                        writer.uint32(104).uint64(message.output_bytes);
                    if (message.answer != null && $Object.hasOwnProperty.call(message, "answer"))
                        $root.dsec.trace.v1.Answer.encode(message.answer, writer.uint32(114).fork(), _depth + 1).ldelim();
                    if (message.exit_code != null && $Object.hasOwnProperty.call(message, "exit_code"))
                        writer.uint32(120).uint32(message.exit_code);
                    if (message.signal != null && $Object.hasOwnProperty.call(message, "signal"))
                        writer.uint32(128).uint32(message.signal);
                    if (message.reason != null && $Object.hasOwnProperty.call(message, "reason"))
                        writer.uint32(138).string(message.reason);
                    if (message.memory_digest != null && $Object.hasOwnProperty.call(message, "memory_digest"))
                        writer.uint32(146).bytes(message.memory_digest);
                    if (message.memory_changed != null && $Object.hasOwnProperty.call(message, "memory_changed"))
                        writer.uint32(152).bool(message.memory_changed);
                    if (message.bytes_up != null && $Object.hasOwnProperty.call(message, "bytes_up"))
                        writer.uint32(160).uint64(message.bytes_up);
                    if (message.bytes_down != null && $Object.hasOwnProperty.call(message, "bytes_down"))
                        writer.uint32(168).uint64(message.bytes_down);
                    if (message.timing != null && $Object.hasOwnProperty.call(message, "timing"))
                        $root.dsec.trace.v1.Timing.encode(message.timing, writer.uint32(178).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                ToolCallEnd.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.ToolCallEnd();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.call = value;
                                else
                                    delete message.call;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.tries = value;
                                else
                                    delete message.tries;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.duration_us = value;
                                else
                                    delete message.duration_us;
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.code = reader.stringVerify();
                                message._code = "code";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.text = reader.stringVerify();
                                message._text = "text";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                message.call_seq = reader.uint32();
                                message._call_seq = "call_seq";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.status = reader.uint32();
                                message._status = "status";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                message.is_error = reader.bool();
                                message._is_error = "is_error";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.body_digest = reader.bytes();
                                message._body_digest = "body_digest";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.json_digest = reader.bytes();
                                message._json_digest = "json_digest";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.output_digest = reader.bytes();
                                message._output_digest = "output_digest";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 0)
                                    break;
                                message.output_bytes = reader.uint64();
                                message._output_bytes = "output_bytes";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.answer = $root.dsec.trace.v1.Answer.decode(reader, reader.size(), $undefined, _depth + 1, message.answer);
                                message._answer = "answer";
                                continue;
                            }
                        case 15: {
                                if (wireType !== 0)
                                    break;
                                message.exit_code = reader.uint32();
                                message._exit_code = "exit_code";
                                continue;
                            }
                        case 16: {
                                if (wireType !== 0)
                                    break;
                                message.signal = reader.uint32();
                                message._signal = "signal";
                                continue;
                            }
                        case 17: {
                                if (wireType !== 2)
                                    break;
                                message.reason = reader.stringVerify();
                                message._reason = "reason";
                                continue;
                            }
                        case 18: {
                                if (wireType !== 2)
                                    break;
                                message.memory_digest = reader.bytes();
                                message._memory_digest = "memory_digest";
                                continue;
                            }
                        case 19: {
                                if (wireType !== 0)
                                    break;
                                message.memory_changed = reader.bool();
                                message._memory_changed = "memory_changed";
                                continue;
                            }
                        case 20: {
                                if (wireType !== 0)
                                    break;
                                message.bytes_up = reader.uint64();
                                message._bytes_up = "bytes_up";
                                continue;
                            }
                        case 21: {
                                if (wireType !== 0)
                                    break;
                                message.bytes_down = reader.uint64();
                                message._bytes_down = "bytes_down";
                                continue;
                            }
                        case 22: {
                                if (wireType !== 2)
                                    break;
                                message.timing = $root.dsec.trace.v1.Timing.decode(reader, reader.size(), $undefined, _depth + 1, message.timing);
                                message._timing = "timing";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ToolCallEnd;
            })();

            v1.Answer = (function() {

                const Answer = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Answer.prototype.output_json = null;
                Answer.prototype.head_json = null;
                Answer.prototype.body = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Answer.prototype, "_output_json", {
                    get: $util.oneOfGetter($oneOfFields = ["output_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Answer.prototype, "_head_json", {
                    get: $util.oneOfGetter($oneOfFields = ["head_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Answer.prototype, "_body", {
                    get: $util.oneOfGetter($oneOfFields = ["body"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Answer.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.output_json != null && $Object.hasOwnProperty.call(message, "output_json"))
                        writer.uint32(10).string(message.output_json);
                    if (message.head_json != null && $Object.hasOwnProperty.call(message, "head_json"))
                        writer.uint32(18).string(message.head_json);
                    if (message.body != null && $Object.hasOwnProperty.call(message, "body"))
                        writer.uint32(26).bytes(message.body);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Answer.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Answer();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.output_json = reader.stringVerify();
                                message._output_json = "output_json";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.head_json = reader.stringVerify();
                                message._head_json = "head_json";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.body = reader.bytes();
                                message._body = "body";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Answer;
            })();

            v1.Timing = (function() {

                const Timing = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Timing.prototype.network_us = null;
                Timing.prototype.serialization_us = null;
                Timing.prototype.gateway_us = null;
                Timing.prototype.snapshot_us = null;
                Timing.prototype.cpu_wait_us = null;
                Timing.prototype.throttled_us = null;
                Timing.prototype.gpu_us = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_network_us", {
                    get: $util.oneOfGetter($oneOfFields = ["network_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_serialization_us", {
                    get: $util.oneOfGetter($oneOfFields = ["serialization_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_gateway_us", {
                    get: $util.oneOfGetter($oneOfFields = ["gateway_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_snapshot_us", {
                    get: $util.oneOfGetter($oneOfFields = ["snapshot_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_cpu_wait_us", {
                    get: $util.oneOfGetter($oneOfFields = ["cpu_wait_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_throttled_us", {
                    get: $util.oneOfGetter($oneOfFields = ["throttled_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Timing.prototype, "_gpu_us", {
                    get: $util.oneOfGetter($oneOfFields = ["gpu_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Timing.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.network_us != null && $Object.hasOwnProperty.call(message, "network_us"))
                        writer.uint32(8).uint64(message.network_us);
                    if (message.serialization_us != null && $Object.hasOwnProperty.call(message, "serialization_us"))
                        writer.uint32(16).uint64(message.serialization_us);
                    if (message.gateway_us != null && $Object.hasOwnProperty.call(message, "gateway_us"))
                        writer.uint32(24).uint64(message.gateway_us);
                    if (message.snapshot_us != null && $Object.hasOwnProperty.call(message, "snapshot_us"))
                        writer.uint32(32).uint64(message.snapshot_us);
                    if (message.cpu_wait_us != null && $Object.hasOwnProperty.call(message, "cpu_wait_us"))
                        writer.uint32(40).uint64(message.cpu_wait_us);
                    if (message.throttled_us != null && $Object.hasOwnProperty.call(message, "throttled_us"))
                        writer.uint32(48).uint64(message.throttled_us);
                    if (message.gpu_us != null && $Object.hasOwnProperty.call(message, "gpu_us"))
                        writer.uint32(56).uint64(message.gpu_us);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Timing.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Timing();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                message.network_us = reader.uint64();
                                message._network_us = "network_us";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.serialization_us = reader.uint64();
                                message._serialization_us = "serialization_us";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.gateway_us = reader.uint64();
                                message._gateway_us = "gateway_us";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.snapshot_us = reader.uint64();
                                message._snapshot_us = "snapshot_us";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.cpu_wait_us = reader.uint64();
                                message._cpu_wait_us = "cpu_wait_us";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                message.throttled_us = reader.uint64();
                                message._throttled_us = "throttled_us";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                message.gpu_us = reader.uint64();
                                message._gpu_us = "gpu_us";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Timing;
            })();

            v1.ToolCallLate = (function() {

                const ToolCallLate = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                ToolCallLate.prototype.call = 0;
                ToolCallLate.prototype.late_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                ToolCallLate.prototype.state = "";
                ToolCallLate.prototype.code = null;
                ToolCallLate.prototype.text = null;
                ToolCallLate.prototype.call_seq = null;
                ToolCallLate.prototype.status = null;
                ToolCallLate.prototype.output_digest = null;
                ToolCallLate.prototype.output_bytes = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_code", {
                    get: $util.oneOfGetter($oneOfFields = ["code"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_text", {
                    get: $util.oneOfGetter($oneOfFields = ["text"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_call_seq", {
                    get: $util.oneOfGetter($oneOfFields = ["call_seq"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_status", {
                    get: $util.oneOfGetter($oneOfFields = ["status"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_output_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["output_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(ToolCallLate.prototype, "_output_bytes", {
                    get: $util.oneOfGetter($oneOfFields = ["output_bytes"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                ToolCallLate.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call") && message.call !== 0)
                        writer.uint32(8).uint32(message.call);
                    if (message.late_us != null && $Object.hasOwnProperty.call(message, "late_us") && (typeof message.late_us === "object" ? message.late_us.low || message.late_us.high : message.late_us !== 0))
                        writer.uint32(16).uint64(message.late_us);
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(26).string(message.state);
                    if (message.code != null && $Object.hasOwnProperty.call(message, "code"))
                        writer.uint32(34).string(message.code);
                    if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                        writer.uint32(42).string(message.text);
                    if (message.call_seq != null && $Object.hasOwnProperty.call(message, "call_seq"))
                        writer.uint32(48).uint32(message.call_seq);
                    if (message.status != null && $Object.hasOwnProperty.call(message, "status"))
                        writer.uint32(56).uint32(message.status);
                    if (message.output_digest != null && $Object.hasOwnProperty.call(message, "output_digest"))
                        writer.uint32(66).bytes(message.output_digest);
                    if (message.output_bytes != null && $Object.hasOwnProperty.call(message, "output_bytes"))
                        writer.uint32(72).uint64(message.output_bytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                ToolCallLate.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.ToolCallLate();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.call = value;
                                else
                                    delete message.call;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.late_us = value;
                                else
                                    delete message.late_us;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.code = reader.stringVerify();
                                message._code = "code";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.text = reader.stringVerify();
                                message._text = "text";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                message.call_seq = reader.uint32();
                                message._call_seq = "call_seq";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                message.status = reader.uint32();
                                message._status = "status";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                message.output_digest = reader.bytes();
                                message._output_digest = "output_digest";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 0)
                                    break;
                                message.output_bytes = reader.uint64();
                                message._output_bytes = "output_bytes";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return ToolCallLate;
            })();

            v1.PlanStep = (function() {

                const PlanStep = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                PlanStep.prototype.state = "";
                PlanStep.prototype.step = 0;
                PlanStep.prototype.name = "";
                PlanStep.prototype.parent = null;
                PlanStep.prototype.given_json = null;
                PlanStep.prototype.status = null;
                PlanStep.prototype.calls = null;
                PlanStep.prototype.duration_us = null;
                PlanStep.prototype.detail_json = null;
                PlanStep.prototype.timeout_ms = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_parent", {
                    get: $util.oneOfGetter($oneOfFields = ["parent"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_given_json", {
                    get: $util.oneOfGetter($oneOfFields = ["given_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_status", {
                    get: $util.oneOfGetter($oneOfFields = ["status"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_calls", {
                    get: $util.oneOfGetter($oneOfFields = ["calls"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_duration_us", {
                    get: $util.oneOfGetter($oneOfFields = ["duration_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_detail_json", {
                    get: $util.oneOfGetter($oneOfFields = ["detail_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(PlanStep.prototype, "_timeout_ms", {
                    get: $util.oneOfGetter($oneOfFields = ["timeout_ms"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                PlanStep.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(10).string(message.state);
                    if (message.step != null && $Object.hasOwnProperty.call(message, "step") && message.step !== 0)
                        writer.uint32(16).uint32(message.step);
                    if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                        writer.uint32(26).string(message.name);
                    if (message.parent != null && $Object.hasOwnProperty.call(message, "parent"))
                        writer.uint32(32).uint32(message.parent);
                    if (message.given_json != null && $Object.hasOwnProperty.call(message, "given_json"))
                        writer.uint32(42).string(message.given_json);
                    if (message.status != null && $Object.hasOwnProperty.call(message, "status"))
                        writer.uint32(50).string(message.status);
                    if (message.calls != null && $Object.hasOwnProperty.call(message, "calls"))
                        writer.uint32(56).uint32(message.calls);
                    if (message.duration_us != null && $Object.hasOwnProperty.call(message, "duration_us"))
                        writer.uint32(64).uint64(message.duration_us);
                    if (message.detail_json != null && $Object.hasOwnProperty.call(message, "detail_json"))
                        writer.uint32(74).string(message.detail_json);
                    if (message.timeout_ms != null && $Object.hasOwnProperty.call(message, "timeout_ms"))
                        writer.uint32(80).uint64(message.timeout_ms);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                PlanStep.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.PlanStep();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.step = value;
                                else
                                    delete message.step;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.name = value;
                                else
                                    delete message.name;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.parent = reader.uint32();
                                message._parent = "parent";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.given_json = reader.stringVerify();
                                message._given_json = "given_json";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.status = reader.stringVerify();
                                message._status = "status";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                message.calls = reader.uint32();
                                message._calls = "calls";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.duration_us = reader.uint64();
                                message._duration_us = "duration_us";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                message.detail_json = reader.stringVerify();
                                message._detail_json = "detail_json";
                                continue;
                            }
                        case 10: {
                                if (wireType !== 0)
                                    break;
                                message.timeout_ms = reader.uint64();
                                message._timeout_ms = "timeout_ms";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return PlanStep;
            })();

            v1.Context = (function() {

                const Context = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Context.prototype.context_digest = $util.newBuffer([]);
                Context.prototype.context_json = "";

                Context.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.context_digest != null && $Object.hasOwnProperty.call(message, "context_digest") && message.context_digest.length)
                        writer.uint32(10).bytes(message.context_digest);
                    if (message.context_json != null && $Object.hasOwnProperty.call(message, "context_json") && message.context_json !== "")
                        writer.uint32(18).string(message.context_json);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Context.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Context();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.context_digest = value;
                                else
                                    delete message.context_digest;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.context_json = value;
                                else
                                    delete message.context_json;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Context;
            })();

            v1.Observation = (function() {

                const Observation = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Observation.prototype.state = "";
                Observation.prototype.observation = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Observation.prototype.source = null;
                Observation.prototype.at = null;
                Observation.prototype.content_json = null;
                Observation.prototype.call = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Observation.prototype, "_source", {
                    get: $util.oneOfGetter($oneOfFields = ["source"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Observation.prototype, "_at", {
                    get: $util.oneOfGetter($oneOfFields = ["at"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Observation.prototype, "_content_json", {
                    get: $util.oneOfGetter($oneOfFields = ["content_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Observation.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Observation.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(10).string(message.state);
                    if (message.observation != null && $Object.hasOwnProperty.call(message, "observation") && (typeof message.observation === "object" ? message.observation.low || message.observation.high : message.observation !== 0))
                        writer.uint32(16).uint64(message.observation);
                    if (message.source != null && $Object.hasOwnProperty.call(message, "source"))
                        writer.uint32(26).string(message.source);
                    if (message.at != null && $Object.hasOwnProperty.call(message, "at"))
                        writer.uint32(34).string(message.at);
                    if (message.content_json != null && $Object.hasOwnProperty.call(message, "content_json"))
                        writer.uint32(42).string(message.content_json);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(48).uint32(message.call);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Observation.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Observation();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.observation = value;
                                else
                                    delete message.observation;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.source = reader.stringVerify();
                                message._source = "source";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.at = reader.stringVerify();
                                message._at = "at";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.content_json = reader.stringVerify();
                                message._content_json = "content_json";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Observation;
            })();

            v1.Message = (function() {

                const Message = function (properties) {
                    this.items = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Message.prototype.op = "";
                Message.prototype.channel = "";
                Message.prototype.items = $util.emptyArray;
                Message.prototype.through = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Message.prototype, "_through", {
                    get: $util.oneOfGetter($oneOfFields = ["through"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Message.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.op != null && $Object.hasOwnProperty.call(message, "op") && message.op !== "")
                        writer.uint32(10).string(message.op);
                    if (message.channel != null && $Object.hasOwnProperty.call(message, "channel") && message.channel !== "")
                        writer.uint32(18).string(message.channel);
                    if (message.items != null && message.items.length)
                        for (let i = 0; i < message.items.length; ++i)
                            $root.dsec.trace.v1.MessageItem.encode(message.items[i], writer.uint32(26).fork(), _depth + 1).ldelim();
                    if (message.through != null && $Object.hasOwnProperty.call(message, "through"))
                        writer.uint32(32).uint64(message.through);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Message.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Message();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.op = value;
                                else
                                    delete message.op;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.channel = value;
                                else
                                    delete message.channel;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.items && message.items.length))
                                    message.items = [];
                                message.items.push($root.dsec.trace.v1.MessageItem.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.through = reader.uint64();
                                message._through = "through";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Message;
            })();

            v1.MessageItem = (function() {

                const MessageItem = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                MessageItem.prototype.id = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                MessageItem.prototype.from = null;
                MessageItem.prototype.body_digest = $util.newBuffer([]);

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MessageItem.prototype, "_from", {
                    get: $util.oneOfGetter($oneOfFields = ["from"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                MessageItem.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && (typeof message.id === "object" ? message.id.low || message.id.high : message.id !== 0))
                        writer.uint32(8).uint64(message.id);
                    if (message.from != null && $Object.hasOwnProperty.call(message, "from"))
                        writer.uint32(18).string(message.from);
                    if (message.body_digest != null && $Object.hasOwnProperty.call(message, "body_digest") && message.body_digest.length)
                        writer.uint32(26).bytes(message.body_digest);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                MessageItem.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.MessageItem();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.from = reader.stringVerify();
                                message._from = "from";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.body_digest = value;
                                else
                                    delete message.body_digest;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return MessageItem;
            })();

            v1.Process = (function() {

                const Process = function (properties) {
                    this.argv = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Process.prototype.state = "";
                Process.prototype.pid = 0;
                Process.prototype.argv = $util.emptyArray;
                Process.prototype.exit_code = null;
                Process.prototype.signal = null;
                Process.prototype.reason = null;
                Process.prototype.cpu_us = null;
                Process.prototype.memory_peak_bytes = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Process.prototype, "_exit_code", {
                    get: $util.oneOfGetter($oneOfFields = ["exit_code"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Process.prototype, "_signal", {
                    get: $util.oneOfGetter($oneOfFields = ["signal"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Process.prototype, "_reason", {
                    get: $util.oneOfGetter($oneOfFields = ["reason"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Process.prototype, "_cpu_us", {
                    get: $util.oneOfGetter($oneOfFields = ["cpu_us"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Process.prototype, "_memory_peak_bytes", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_peak_bytes"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Process.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.state != null && $Object.hasOwnProperty.call(message, "state") && message.state !== "")
                        writer.uint32(10).string(message.state);
                    if (message.pid != null && $Object.hasOwnProperty.call(message, "pid") && message.pid !== 0)
                        writer.uint32(16).uint32(message.pid);
                    if (message.argv != null && message.argv.length)
                        for (let i = 0; i < message.argv.length; ++i)
                            writer.uint32(26).string(message.argv[i]);
                    if (message.exit_code != null && $Object.hasOwnProperty.call(message, "exit_code"))
                        writer.uint32(32).uint32(message.exit_code);
                    if (message.signal != null && $Object.hasOwnProperty.call(message, "signal"))
                        writer.uint32(40).uint32(message.signal);
                    if (message.reason != null && $Object.hasOwnProperty.call(message, "reason"))
                        writer.uint32(50).string(message.reason);
                    if (message.cpu_us != null && $Object.hasOwnProperty.call(message, "cpu_us"))
                        writer.uint32(56).uint64(message.cpu_us);
                    if (message.memory_peak_bytes != null && $Object.hasOwnProperty.call(message, "memory_peak_bytes"))
                        writer.uint32(64).uint64(message.memory_peak_bytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Process.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Process();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.state = value;
                                else
                                    delete message.state;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.pid = value;
                                else
                                    delete message.pid;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.argv && message.argv.length))
                                    message.argv = [];
                                message.argv.push(reader.stringVerify());
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.exit_code = reader.uint32();
                                message._exit_code = "exit_code";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.signal = reader.uint32();
                                message._signal = "signal";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.reason = reader.stringVerify();
                                message._reason = "reason";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                message.cpu_us = reader.uint64();
                                message._cpu_us = "cpu_us";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.memory_peak_bytes = reader.uint64();
                                message._memory_peak_bytes = "memory_peak_bytes";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Process;
            })();

            v1.Output = (function() {

                const Output = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Output.prototype.stream = "";
                Output.prototype.offset = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Output.prototype.data = $util.newBuffer([]);

                Output.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.stream != null && $Object.hasOwnProperty.call(message, "stream") && message.stream !== "")
                        writer.uint32(10).string(message.stream);
                    if (message.offset != null && $Object.hasOwnProperty.call(message, "offset") && (typeof message.offset === "object" ? message.offset.low || message.offset.high : message.offset !== 0))
                        writer.uint32(16).uint64(message.offset);
                    if (message.data != null && $Object.hasOwnProperty.call(message, "data") && message.data.length)
                        writer.uint32(26).bytes(message.data);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Output.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Output();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.stream = value;
                                else
                                    delete message.stream;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.offset = value;
                                else
                                    delete message.offset;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.data = value;
                                else
                                    delete message.data;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Output;
            })();

            v1.Snapshot = (function() {

                const Snapshot = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Snapshot.prototype.snapshot = 0;
                Snapshot.prototype.levels = "";
                Snapshot.prototype.call = null;
                Snapshot.prototype.step = null;
                Snapshot.prototype.state_digest = null;
                Snapshot.prototype.duration_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Snapshot.prototype.stored_bytes = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Snapshot.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Snapshot.prototype, "_step", {
                    get: $util.oneOfGetter($oneOfFields = ["step"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Snapshot.prototype, "_state_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["state_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Snapshot.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.snapshot != null && $Object.hasOwnProperty.call(message, "snapshot") && message.snapshot !== 0)
                        writer.uint32(8).uint32(message.snapshot);
                    if (message.levels != null && $Object.hasOwnProperty.call(message, "levels") && message.levels !== "")
                        writer.uint32(18).string(message.levels);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(24).uint32(message.call);
                    if (message.step != null && $Object.hasOwnProperty.call(message, "step"))
                        writer.uint32(32).uint32(message.step);
                    if (message.state_digest != null && $Object.hasOwnProperty.call(message, "state_digest"))
                        writer.uint32(42).bytes(message.state_digest);
                    if (message.duration_us != null && $Object.hasOwnProperty.call(message, "duration_us") && (typeof message.duration_us === "object" ? message.duration_us.low || message.duration_us.high : message.duration_us !== 0))
                        writer.uint32(48).uint64(message.duration_us);
                    if (message.stored_bytes != null && $Object.hasOwnProperty.call(message, "stored_bytes") && (typeof message.stored_bytes === "object" ? message.stored_bytes.low || message.stored_bytes.high : message.stored_bytes !== 0))
                        writer.uint32(56).uint64(message.stored_bytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Snapshot.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Snapshot();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.snapshot = value;
                                else
                                    delete message.snapshot;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.levels = value;
                                else
                                    delete message.levels;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.step = reader.uint32();
                                message._step = "step";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.state_digest = reader.bytes();
                                message._state_digest = "state_digest";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.duration_us = value;
                                else
                                    delete message.duration_us;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.stored_bytes = value;
                                else
                                    delete message.stored_bytes;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Snapshot;
            })();

            v1.Rollback = (function() {

                const Rollback = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Rollback.prototype.snapshot = 0;
                Rollback.prototype.call = null;
                Rollback.prototype.reason = "";
                Rollback.prototype.duration_us = $util.Long ? $util.Long.fromBits(0,0,true) : 0;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Rollback.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Rollback.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.snapshot != null && $Object.hasOwnProperty.call(message, "snapshot") && message.snapshot !== 0)
                        writer.uint32(8).uint32(message.snapshot);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(16).uint32(message.call);
                    if (message.reason != null && $Object.hasOwnProperty.call(message, "reason") && message.reason !== "")
                        writer.uint32(26).string(message.reason);
                    if (message.duration_us != null && $Object.hasOwnProperty.call(message, "duration_us") && (typeof message.duration_us === "object" ? message.duration_us.low || message.duration_us.high : message.duration_us !== 0))
                        writer.uint32(32).uint64(message.duration_us);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Rollback.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Rollback();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.snapshot = value;
                                else
                                    delete message.snapshot;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.reason = value;
                                else
                                    delete message.reason;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.duration_us = value;
                                else
                                    delete message.duration_us;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Rollback;
            })();

            v1.Shown = (function() {

                const Shown = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Shown.prototype.value_json = null;
                Shown.prototype.value_digest = null;
                Shown.prototype.bytes = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Shown.prototype, "_value_json", {
                    get: $util.oneOfGetter($oneOfFields = ["value_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Shown.prototype, "_value_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["value_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Shown.prototype, "_bytes", {
                    get: $util.oneOfGetter($oneOfFields = ["bytes"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Shown.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.value_json != null && $Object.hasOwnProperty.call(message, "value_json"))
                        writer.uint32(10).string(message.value_json);
                    if (message.value_digest != null && $Object.hasOwnProperty.call(message, "value_digest"))
                        writer.uint32(18).bytes(message.value_digest);
                    if (message.bytes != null && $Object.hasOwnProperty.call(message, "bytes"))
                        writer.uint32(24).uint64(message.bytes);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Shown.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Shown();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.value_json = reader.stringVerify();
                                message._value_json = "value_json";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.value_digest = reader.bytes();
                                message._value_digest = "value_digest";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.bytes = reader.uint64();
                                message._bytes = "bytes";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Shown;
            })();

            v1.MemoryAccess = (function() {

                const MemoryAccess = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                MemoryAccess.prototype.op = "";
                MemoryAccess.prototype.namespace = "";
                MemoryAccess.prototype.key = "";
                MemoryAccess.prototype.old = null;
                MemoryAccess.prototype["new"] = null;
                MemoryAccess.prototype.version = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                MemoryAccess.prototype.origin = null;
                MemoryAccess.prototype.call = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MemoryAccess.prototype, "_old", {
                    get: $util.oneOfGetter($oneOfFields = ["old"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MemoryAccess.prototype, "_new", {
                    get: $util.oneOfGetter($oneOfFields = ["new"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MemoryAccess.prototype, "_origin", {
                    get: $util.oneOfGetter($oneOfFields = ["origin"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(MemoryAccess.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                MemoryAccess.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.op != null && $Object.hasOwnProperty.call(message, "op") && message.op !== "")
                        writer.uint32(10).string(message.op);
                    if (message.namespace != null && $Object.hasOwnProperty.call(message, "namespace") && message.namespace !== "")
                        writer.uint32(18).string(message.namespace);
                    if (message.key != null && $Object.hasOwnProperty.call(message, "key") && message.key !== "")
                        writer.uint32(26).string(message.key);
                    if (message.old != null && $Object.hasOwnProperty.call(message, "old"))
                        $root.dsec.trace.v1.Shown.encode(message.old, writer.uint32(34).fork(), _depth + 1).ldelim();
                    if (message["new"] != null && $Object.hasOwnProperty.call(message, "new"))
                        $root.dsec.trace.v1.Shown.encode(message["new"], writer.uint32(42).fork(), _depth + 1).ldelim();
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && (typeof message.version === "object" ? message.version.low || message.version.high : message.version !== 0))
                        writer.uint32(48).uint64(message.version);
                    if (message.origin != null && $Object.hasOwnProperty.call(message, "origin"))
                        writer.uint32(58).string(message.origin);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(64).uint32(message.call);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                MemoryAccess.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.MemoryAccess();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.op = value;
                                else
                                    delete message.op;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.namespace = value;
                                else
                                    delete message.namespace;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.key = value;
                                else
                                    delete message.key;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.old = $root.dsec.trace.v1.Shown.decode(reader, reader.size(), $undefined, _depth + 1, message.old);
                                message._old = "old";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message["new"] = $root.dsec.trace.v1.Shown.decode(reader, reader.size(), $undefined, _depth + 1, message["new"]);
                                message._new = "new";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.origin = reader.stringVerify();
                                message._origin = "origin";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return MemoryAccess;
            })();

            v1.MemorySnapshot = (function() {

                const MemorySnapshot = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                MemorySnapshot.prototype.namespace = "";
                MemorySnapshot.prototype.version = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                MemorySnapshot.prototype.state_digest = $util.newBuffer([]);
                MemorySnapshot.prototype.entries_json = "";

                MemorySnapshot.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.namespace != null && $Object.hasOwnProperty.call(message, "namespace") && message.namespace !== "")
                        writer.uint32(10).string(message.namespace);
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version") && (typeof message.version === "object" ? message.version.low || message.version.high : message.version !== 0))
                        writer.uint32(16).uint64(message.version);
                    if (message.state_digest != null && $Object.hasOwnProperty.call(message, "state_digest") && message.state_digest.length)
                        writer.uint32(26).bytes(message.state_digest);
                    if (message.entries_json != null && $Object.hasOwnProperty.call(message, "entries_json") && message.entries_json !== "")
                        writer.uint32(34).string(message.entries_json);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                MemorySnapshot.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.MemorySnapshot();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.namespace = value;
                                else
                                    delete message.namespace;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.version = value;
                                else
                                    delete message.version;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.bytes()).length)
                                    message.state_digest = value;
                                else
                                    delete message.state_digest;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.entries_json = value;
                                else
                                    delete message.entries_json;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return MemorySnapshot;
            })();

            v1.TokenLogit = (function() {

                const TokenLogit = function (properties) {
                    this.tokens = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                TokenLogit.prototype.source = null;
                TokenLogit.prototype.call = null;
                TokenLogit.prototype.tokens = $util.emptyArray;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(TokenLogit.prototype, "_source", {
                    get: $util.oneOfGetter($oneOfFields = ["source"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(TokenLogit.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                TokenLogit.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.source != null && $Object.hasOwnProperty.call(message, "source"))
                        writer.uint32(10).string(message.source);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(16).uint32(message.call);
                    if (message.tokens != null && message.tokens.length)
                        for (let i = 0; i < message.tokens.length; ++i)
                            $root.dsec.trace.v1.Token.encode(message.tokens[i], writer.uint32(26).fork(), _depth + 1).ldelim();
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                TokenLogit.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.TokenLogit();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                message.source = reader.stringVerify();
                                message._source = "source";
                                continue;
                            }
                        case 2: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.tokens && message.tokens.length))
                                    message.tokens = [];
                                message.tokens.push($root.dsec.trace.v1.Token.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return TokenLogit;
            })();

            v1.Token = (function() {

                const Token = function (properties) {
                    this.top_ids = [];
                    this.top_logprobs = [];
                    this.top_texts = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Token.prototype.id = $util.Long ? $util.Long.fromBits(0,0,true) : 0;
                Token.prototype.logprob = 0;
                Token.prototype.text = null;
                Token.prototype.top_ids = $util.emptyArray;
                Token.prototype.top_logprobs = $util.emptyArray;
                Token.prototype.top_texts = $util.emptyArray;
                Token.prototype.log_sum_exp = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Token.prototype, "_text", {
                    get: $util.oneOfGetter($oneOfFields = ["text"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Token.prototype, "_log_sum_exp", {
                    get: $util.oneOfGetter($oneOfFields = ["log_sum_exp"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Token.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && (typeof message.id === "object" ? message.id.low || message.id.high : message.id !== 0))
                        writer.uint32(8).uint64(message.id);
                    if (message.logprob != null && $Object.hasOwnProperty.call(message, "logprob") && !$Object.is(message.logprob, 0))
                        writer.uint32(17).double(message.logprob);
                    if (message.text != null && $Object.hasOwnProperty.call(message, "text"))
                        writer.uint32(26).string(message.text);
                    if (message.top_ids != null && message.top_ids.length)
                        writer.uint32(34).uint64s(message.top_ids);
                    if (message.top_logprobs != null && message.top_logprobs.length)
                        writer.uint32(42).doubles(message.top_logprobs);
                    if (message.top_texts != null && message.top_texts.length)
                        for (let i = 0; i < message.top_texts.length; ++i)
                            writer.uint32(50).string(message.top_texts[i]);
                    if (message.log_sum_exp != null && $Object.hasOwnProperty.call(message, "log_sum_exp"))
                        writer.uint32(57).double(message.log_sum_exp);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Token.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Token();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (typeof (value = reader.uint64()) === "object" ? value.low || value.high : value !== 0)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 1)
                                    break;
                                if (!$Object.is(value = reader.double(), 0))
                                    message.logprob = value;
                                else
                                    delete message.logprob;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.text = reader.stringVerify();
                                message._text = "text";
                                continue;
                            }
                        case 4: {
                                if (wireType === 2) {
                                    if (!(message.top_ids && message.top_ids.length))
                                        message.top_ids = [];
                                    reader.uint64s(message.top_ids);
                                    continue;
                                }
                                if (wireType !== 0)
                                    break;
                                if (!(message.top_ids && message.top_ids.length))
                                    message.top_ids = [];
                                message.top_ids.push(reader.uint64());
                                continue;
                            }
                        case 5: {
                                if (wireType === 2) {
                                    if (!(message.top_logprobs && message.top_logprobs.length))
                                        message.top_logprobs = [];
                                    reader.doubles(message.top_logprobs);
                                    continue;
                                }
                                if (wireType !== 1)
                                    break;
                                if (!(message.top_logprobs && message.top_logprobs.length))
                                    message.top_logprobs = [];
                                message.top_logprobs.push(reader.double());
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.top_texts && message.top_texts.length))
                                    message.top_texts = [];
                                message.top_texts.push(reader.stringVerify());
                                continue;
                            }
                        case 7: {
                                if (wireType !== 1)
                                    break;
                                message.log_sum_exp = reader.double();
                                message._log_sum_exp = "log_sum_exp";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Token;
            })();

            v1.Completion = (function() {

                const Completion = function (properties) {
                    this.tool_calls = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Completion.prototype.call = 0;
                Completion.prototype.model = null;
                Completion.prototype.prompt_tokens = null;
                Completion.prototype.completion_tokens = null;
                Completion.prototype.cached_tokens = null;
                Completion.prototype.finish_reason = null;
                Completion.prototype.tool_calls = $util.emptyArray;
                Completion.prototype.streamed = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_model", {
                    get: $util.oneOfGetter($oneOfFields = ["model"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_prompt_tokens", {
                    get: $util.oneOfGetter($oneOfFields = ["prompt_tokens"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_completion_tokens", {
                    get: $util.oneOfGetter($oneOfFields = ["completion_tokens"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_cached_tokens", {
                    get: $util.oneOfGetter($oneOfFields = ["cached_tokens"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_finish_reason", {
                    get: $util.oneOfGetter($oneOfFields = ["finish_reason"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Completion.prototype, "_streamed", {
                    get: $util.oneOfGetter($oneOfFields = ["streamed"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Completion.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call") && message.call !== 0)
                        writer.uint32(8).uint32(message.call);
                    if (message.model != null && $Object.hasOwnProperty.call(message, "model"))
                        writer.uint32(18).string(message.model);
                    if (message.prompt_tokens != null && $Object.hasOwnProperty.call(message, "prompt_tokens"))
                        writer.uint32(24).uint64(message.prompt_tokens);
                    if (message.completion_tokens != null && $Object.hasOwnProperty.call(message, "completion_tokens"))
                        writer.uint32(32).uint64(message.completion_tokens);
                    if (message.cached_tokens != null && $Object.hasOwnProperty.call(message, "cached_tokens"))
                        writer.uint32(40).uint64(message.cached_tokens);
                    if (message.finish_reason != null && $Object.hasOwnProperty.call(message, "finish_reason"))
                        writer.uint32(50).string(message.finish_reason);
                    if (message.tool_calls != null && message.tool_calls.length)
                        for (let i = 0; i < message.tool_calls.length; ++i)
                            $root.dsec.trace.v1.CompletionToolCall.encode(message.tool_calls[i], writer.uint32(58).fork(), _depth + 1).ldelim();
                    if (message.streamed != null && $Object.hasOwnProperty.call(message, "streamed"))
                        writer.uint32(64).bool(message.streamed);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Completion.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Completion();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.call = value;
                                else
                                    delete message.call;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.model = reader.stringVerify();
                                message._model = "model";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 0)
                                    break;
                                message.prompt_tokens = reader.uint64();
                                message._prompt_tokens = "prompt_tokens";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.completion_tokens = reader.uint64();
                                message._completion_tokens = "completion_tokens";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.cached_tokens = reader.uint64();
                                message._cached_tokens = "cached_tokens";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.finish_reason = reader.stringVerify();
                                message._finish_reason = "finish_reason";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.tool_calls && message.tool_calls.length))
                                    message.tool_calls = [];
                                message.tool_calls.push($root.dsec.trace.v1.CompletionToolCall.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        case 8: {
                                if (wireType !== 0)
                                    break;
                                message.streamed = reader.bool();
                                message._streamed = "streamed";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Completion;
            })();

            v1.CompletionToolCall = (function() {

                const CompletionToolCall = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                CompletionToolCall.prototype.id = "";
                CompletionToolCall.prototype.name = "";
                CompletionToolCall.prototype.arguments_json = "";

                CompletionToolCall.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.id != null && $Object.hasOwnProperty.call(message, "id") && message.id !== "")
                        writer.uint32(10).string(message.id);
                    if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                        writer.uint32(18).string(message.name);
                    if (message.arguments_json != null && $Object.hasOwnProperty.call(message, "arguments_json") && message.arguments_json !== "")
                        writer.uint32(26).string(message.arguments_json);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                CompletionToolCall.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.CompletionToolCall();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.id = value;
                                else
                                    delete message.id;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.name = value;
                                else
                                    delete message.name;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.arguments_json = value;
                                else
                                    delete message.arguments_json;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return CompletionToolCall;
            })();

            v1.Reward = (function() {

                const Reward = function (properties) {
                    this.components = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Reward.prototype.components = $util.emptyArray;
                Reward.prototype.sum = 0;
                Reward.prototype.source = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Reward.prototype, "_source", {
                    get: $util.oneOfGetter($oneOfFields = ["source"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Reward.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.components != null && message.components.length)
                        for (let i = 0; i < message.components.length; ++i)
                            $root.dsec.trace.v1.RewardComponent.encode(message.components[i], writer.uint32(10).fork(), _depth + 1).ldelim();
                    if (message.sum != null && $Object.hasOwnProperty.call(message, "sum") && !$Object.is(message.sum, 0))
                        writer.uint32(17).double(message.sum);
                    if (message.source != null && $Object.hasOwnProperty.call(message, "source"))
                        writer.uint32(26).string(message.source);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Reward.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Reward();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.components && message.components.length))
                                    message.components = [];
                                message.components.push($root.dsec.trace.v1.RewardComponent.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        case 2: {
                                if (wireType !== 1)
                                    break;
                                if (!$Object.is(value = reader.double(), 0))
                                    message.sum = value;
                                else
                                    delete message.sum;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.source = reader.stringVerify();
                                message._source = "source";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Reward;
            })();

            v1.RewardComponent = (function() {

                const RewardComponent = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                RewardComponent.prototype.name = "";
                RewardComponent.prototype.value = 0;
                RewardComponent.prototype.weight = 0;
                RewardComponent.prototype.weight_change = null;
                RewardComponent.prototype.product = 0;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(RewardComponent.prototype, "_weight_change", {
                    get: $util.oneOfGetter($oneOfFields = ["weight_change"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                RewardComponent.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.name != null && $Object.hasOwnProperty.call(message, "name") && message.name !== "")
                        writer.uint32(10).string(message.name);
                    if (message.value != null && $Object.hasOwnProperty.call(message, "value") && !$Object.is(message.value, 0))
                        writer.uint32(17).double(message.value);
                    if (message.weight != null && $Object.hasOwnProperty.call(message, "weight") && !$Object.is(message.weight, 0))
                        writer.uint32(25).double(message.weight);
                    if (message.weight_change != null && $Object.hasOwnProperty.call(message, "weight_change"))
                        writer.uint32(33).double(message.weight_change);
                    if (message.product != null && $Object.hasOwnProperty.call(message, "product") && !$Object.is(message.product, 0))
                        writer.uint32(41).double(message.product);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                RewardComponent.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.RewardComponent();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.name = value;
                                else
                                    delete message.name;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 1)
                                    break;
                                if (!$Object.is(value = reader.double(), 0))
                                    message.value = value;
                                else
                                    delete message.value;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 1)
                                    break;
                                if (!$Object.is(value = reader.double(), 0))
                                    message.weight = value;
                                else
                                    delete message.weight;
                                continue;
                            }
                        case 4: {
                                if (wireType !== 1)
                                    break;
                                message.weight_change = reader.double();
                                message._weight_change = "weight_change";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 1)
                                    break;
                                if (!$Object.is(value = reader.double(), 0))
                                    message.product = value;
                                else
                                    delete message.product;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return RewardComponent;
            })();

            v1.Error = (function() {

                const Error = function (properties) {
                    this.payloads = [];
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Error.prototype.code = "";
                Error.prototype.text = "";
                Error.prototype.via = null;
                Error.prototype.call = null;
                Error.prototype.step = null;
                Error.prototype.stack = null;
                Error.prototype.memory_digest = null;
                Error.prototype.memory_json = null;
                Error.prototype.payloads = $util.emptyArray;
                Error.prototype.namespace = null;
                Error.prototype.expected_digest = null;
                Error.prototype.actual_digest = null;
                Error.prototype.version = null;
                Error.prototype.method = null;
                Error.prototype.url = null;
                Error.prototype.detail_json = null;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_via", {
                    get: $util.oneOfGetter($oneOfFields = ["via"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_call", {
                    get: $util.oneOfGetter($oneOfFields = ["call"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_step", {
                    get: $util.oneOfGetter($oneOfFields = ["step"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_stack", {
                    get: $util.oneOfGetter($oneOfFields = ["stack"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_memory_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_memory_json", {
                    get: $util.oneOfGetter($oneOfFields = ["memory_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_namespace", {
                    get: $util.oneOfGetter($oneOfFields = ["namespace"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_expected_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["expected_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_actual_digest", {
                    get: $util.oneOfGetter($oneOfFields = ["actual_digest"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_version", {
                    get: $util.oneOfGetter($oneOfFields = ["version"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_method", {
                    get: $util.oneOfGetter($oneOfFields = ["method"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_url", {
                    get: $util.oneOfGetter($oneOfFields = ["url"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Error.prototype, "_detail_json", {
                    get: $util.oneOfGetter($oneOfFields = ["detail_json"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Error.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.code != null && $Object.hasOwnProperty.call(message, "code") && message.code !== "")
                        writer.uint32(10).string(message.code);
                    if (message.text != null && $Object.hasOwnProperty.call(message, "text") && message.text !== "")
                        writer.uint32(18).string(message.text);
                    if (message.via != null && $Object.hasOwnProperty.call(message, "via"))
                        writer.uint32(26).string(message.via);
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call"))
                        writer.uint32(32).uint32(message.call);
                    if (message.step != null && $Object.hasOwnProperty.call(message, "step"))
                        writer.uint32(40).uint32(message.step);
                    if (message.stack != null && $Object.hasOwnProperty.call(message, "stack"))
                        writer.uint32(50).string(message.stack);
                    if (message.memory_digest != null && $Object.hasOwnProperty.call(message, "memory_digest"))
                        writer.uint32(58).bytes(message.memory_digest);
                    if (message.memory_json != null && $Object.hasOwnProperty.call(message, "memory_json"))
                        writer.uint32(66).string(message.memory_json);
                    if (message.payloads != null && message.payloads.length)
                        for (let i = 0; i < message.payloads.length; ++i)
                            $root.dsec.trace.v1.Payload.encode(message.payloads[i], writer.uint32(74).fork(), _depth + 1).ldelim();
                    if (message.namespace != null && $Object.hasOwnProperty.call(message, "namespace"))
                        writer.uint32(82).string(message.namespace);
                    if (message.expected_digest != null && $Object.hasOwnProperty.call(message, "expected_digest"))
                        writer.uint32(90).bytes(message.expected_digest);
                    if (message.actual_digest != null && $Object.hasOwnProperty.call(message, "actual_digest"))
                        writer.uint32(98).bytes(message.actual_digest);
                    if (message.version != null && $Object.hasOwnProperty.call(message, "version"))
                        writer.uint32(104).uint64(message.version);
                    if (message.method != null && $Object.hasOwnProperty.call(message, "method"))
                        writer.uint32(114).string(message.method);
                    if (message.url != null && $Object.hasOwnProperty.call(message, "url"))
                        writer.uint32(122).string(message.url);
                    if (message.detail_json != null && $Object.hasOwnProperty.call(message, "detail_json"))
                        writer.uint32(130).string(message.detail_json);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Error.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Error();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.code = value;
                                else
                                    delete message.code;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                if ((value = reader.stringVerify()).length)
                                    message.text = value;
                                else
                                    delete message.text;
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.via = reader.stringVerify();
                                message._via = "via";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 0)
                                    break;
                                message.call = reader.uint32();
                                message._call = "call";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 0)
                                    break;
                                message.step = reader.uint32();
                                message._step = "step";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 2)
                                    break;
                                message.stack = reader.stringVerify();
                                message._stack = "stack";
                                continue;
                            }
                        case 7: {
                                if (wireType !== 2)
                                    break;
                                message.memory_digest = reader.bytes();
                                message._memory_digest = "memory_digest";
                                continue;
                            }
                        case 8: {
                                if (wireType !== 2)
                                    break;
                                message.memory_json = reader.stringVerify();
                                message._memory_json = "memory_json";
                                continue;
                            }
                        case 9: {
                                if (wireType !== 2)
                                    break;
                                if (!(message.payloads && message.payloads.length))
                                    message.payloads = [];
                                message.payloads.push($root.dsec.trace.v1.Payload.decode(reader, reader.size(), $undefined, _depth + 1));
                                continue;
                            }
                        case 10: {
                                if (wireType !== 2)
                                    break;
                                message.namespace = reader.stringVerify();
                                message._namespace = "namespace";
                                continue;
                            }
                        case 11: {
                                if (wireType !== 2)
                                    break;
                                message.expected_digest = reader.bytes();
                                message._expected_digest = "expected_digest";
                                continue;
                            }
                        case 12: {
                                if (wireType !== 2)
                                    break;
                                message.actual_digest = reader.bytes();
                                message._actual_digest = "actual_digest";
                                continue;
                            }
                        case 13: {
                                if (wireType !== 0)
                                    break;
                                message.version = reader.uint64();
                                message._version = "version";
                                continue;
                            }
                        case 14: {
                                if (wireType !== 2)
                                    break;
                                message.method = reader.stringVerify();
                                message._method = "method";
                                continue;
                            }
                        case 15: {
                                if (wireType !== 2)
                                    break;
                                message.url = reader.stringVerify();
                                message._url = "url";
                                continue;
                            }
                        case 16: {
                                if (wireType !== 2)
                                    break;
                                message.detail_json = reader.stringVerify();
                                message._detail_json = "detail_json";
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Error;
            })();

            v1.Payload = (function() {

                const Payload = function (properties) {
                    if (properties)
                        for (let keys = $Object.keys(properties), i = 0; i < keys.length; ++i)
                            if (properties[keys[i]] != null && keys[i] !== "__proto__")
                                this[keys[i]] = properties[keys[i]];
                };

                Payload.prototype.call = 0;
                Payload.prototype.tool = null;
                Payload.prototype.url = null;
                Payload.prototype.sent = null;
                Payload.prototype.received = null;
                Payload.prototype.truncated = false;

                let $oneOfFields;

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Payload.prototype, "_tool", {
                    get: $util.oneOfGetter($oneOfFields = ["tool"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Payload.prototype, "_url", {
                    get: $util.oneOfGetter($oneOfFields = ["url"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Payload.prototype, "_sent", {
                    get: $util.oneOfGetter($oneOfFields = ["sent"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                // Virtual OneOf for proto3 optional field
                $Object.defineProperty(Payload.prototype, "_received", {
                    get: $util.oneOfGetter($oneOfFields = ["received"]),
                    set: $util.oneOfSetter($oneOfFields)
                });

                Payload.encode = function (message, writer, _depth) {
                    if (!writer)
                        writer = $Writer.create();
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $util.recursionLimit)
                        throw $Error("max depth exceeded");
                    if (message.call != null && $Object.hasOwnProperty.call(message, "call") && message.call !== 0)
                        writer.uint32(8).uint32(message.call);
                    if (message.tool != null && $Object.hasOwnProperty.call(message, "tool"))
                        writer.uint32(18).string(message.tool);
                    if (message.url != null && $Object.hasOwnProperty.call(message, "url"))
                        writer.uint32(26).string(message.url);
                    if (message.sent != null && $Object.hasOwnProperty.call(message, "sent"))
                        writer.uint32(34).string(message.sent);
                    if (message.received != null && $Object.hasOwnProperty.call(message, "received"))
                        writer.uint32(42).string(message.received);
                    if (message.truncated != null && $Object.hasOwnProperty.call(message, "truncated") && message.truncated !== false)
                        writer.uint32(48).bool(message.truncated);
                    if (message.$unknowns != null && $Object.hasOwnProperty.call(message, "$unknowns"))
                        for (let i = 0; i < message.$unknowns.length; ++i)
                            writer.raw(message.$unknowns[i]);
                    return writer;
                };

                Payload.decode = function (reader, length, _end, _depth, _target) {
                    if (!(reader instanceof $Reader))
                        reader = $Reader.create(reader);
                    if (_depth === $undefined)
                        _depth = 0;
                    if (_depth > $Reader.recursionLimit)
                        throw $Error("max depth exceeded");
                    let end, message, value;
                    if (length === $undefined)
                        end = reader.len;
                    else {
                        end = reader.pos + length;
                        if (end > reader.len)
                            throw $RangeError("index out of range");
                        length = reader.len;
                        reader.len = end;
                    }
                    message = _target || new $root.dsec.trace.v1.Payload();
                    while (reader.pos < end) {
                        let start = reader.pos;
                        let tag = reader.tag();
                        if (tag === _end) {
                            _end = $undefined;
                            break;
                        }
                        let wireType = tag & 7;
                        switch (tag >>>= 3) {
                        case 1: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.uint32())
                                    message.call = value;
                                else
                                    delete message.call;
                                continue;
                            }
                        case 2: {
                                if (wireType !== 2)
                                    break;
                                message.tool = reader.stringVerify();
                                message._tool = "tool";
                                continue;
                            }
                        case 3: {
                                if (wireType !== 2)
                                    break;
                                message.url = reader.stringVerify();
                                message._url = "url";
                                continue;
                            }
                        case 4: {
                                if (wireType !== 2)
                                    break;
                                message.sent = reader.stringVerify();
                                message._sent = "sent";
                                continue;
                            }
                        case 5: {
                                if (wireType !== 2)
                                    break;
                                message.received = reader.stringVerify();
                                message._received = "received";
                                continue;
                            }
                        case 6: {
                                if (wireType !== 0)
                                    break;
                                if (value = reader.bool())
                                    message.truncated = value;
                                else
                                    delete message.truncated;
                                continue;
                            }
                        }
                        reader.skipType(wireType, _depth, tag);
                        if (!reader.discardUnknown) {
                            $util.makeProp(message, "$unknowns", false);
                            (message.$unknowns || (message.$unknowns = [])).push(reader.raw(start, reader.pos));
                        }
                    }
                    if (length !== $undefined) {
                        if (reader.pos !== end)
                            throw $RangeError("index out of range");
                        reader.len = length;
                    }
                    if (_end !== $undefined)
                        throw $Error("missing end group");
                    return message;
                };

                return Payload;
            })();

            return v1;
        })();

        return trace;
    })();

    return dsec;
})();

export {
  $root as default
};
