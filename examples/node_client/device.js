// A connection of one app to the simulated device, and its values and errors in JavaScript.
"use strict";

const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");

const PROTOS = process.env.AICORE_SIM_PROTOS || path.join(__dirname, "..", "..", "protos");
const FILES = ["aicore", "appfunctions"].map((name) => `aicore_protos/${name}.proto`);
const OPTIONS = {
  includeDirs: [PROTOS],
  keepCase: true,
  longs: String,
  enums: String,
  defaults: true,
  oneofs: true,
};

const { v1 } = grpc.loadPackageDefinition(loader.loadSync(FILES, OPTIONS)).aicore.sim;

// The status that travels with every failed call (google/rpc/status.proto), and our detail in it.
const root = new protobuf.Root();
root.resolvePath = (origin, target) =>
  target.startsWith("google/") ? target : path.join(PROTOS, target);
root.loadSync("aicore_protos/errors.proto", { keepCase: true });
const ErrorDetail = root.lookupType("aicore.sim.v1.ErrorDetail");
const Status = protobuf.parse(`
  syntax = "proto3";
  package google.rpc;
  message Any { string type_url = 1; bytes value = 2; }
  message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
`, { keepCase: true }).root.lookupType("google.rpc.Status");

// What a phone would throw (kind gen_ai or app_function, with its code), or a fault of the set-up
// (kind simulator); "transport" when the device did not answer at all.
class DeviceError extends Error {
  constructor(kind, code, message, retryDelaySeconds = 0) {
    super(message);
    this.kind = kind;
    this.code = code;
    this.retryDelaySeconds = retryDelaySeconds;
  }

  static of(error) {
    const [packed] = error.metadata ? error.metadata.get("grpc-status-details-bin") : [];
    for (const any of packed ? Status.decode(packed).details : []) {
      if (!any.type_url.endsWith("/aicore.sim.v1.ErrorDetail")) continue;
      const detail = ErrorDetail.toObject(ErrorDetail.decode(any.value), OPTIONS);
      const found = detail[detail.error];
      const delay = found.retry_delay;
      return new DeviceError(
        detail.error,
        found.error_code ?? found.kind,
        found.message ?? found.error_message,
        delay ? Number(delay.seconds) + delay.nanos / 1e9 : 0,
      );
    }
    return new DeviceError("transport", error.code, error.details || error.message);
  }
}

class Device {
  // Reads the variables that `aicore-sim exec --as PACKAGE` and `aicore-sim env` set.
  constructor(env = process.env) {
    const names = ["AICORE_SIM_ADDRESS", "APPFUNCTIONS_ADDRESS", "AICORE_SIM_TOKEN"];
    const missing = names.filter((name) => !env[name]);
    if (missing.length) {
      throw new Error(`No simulated device: ${missing.join(", ")} not set; run this with ` +
        "`aicore-sim exec --as PACKAGE -- node ...`");
    }
    this.metadata = new grpc.Metadata();
    this.metadata.set("authorization", `Bearer ${env.AICORE_SIM_TOKEN}`);
    const plain = grpc.credentials.createInsecure();
    this.aicore = new v1.AICore(env.AICORE_SIM_ADDRESS, plain);
    this.appFunctions = new v1.AppFunctionManager(env.APPFUNCTIONS_ADDRESS, plain);
  }

  // One answer of one message. Rejects with a DeviceError.
  call(client, method, request, timeoutSeconds = 10) {
    const deadline = Date.now() + timeoutSeconds * 1000;
    return new Promise((resolve, reject) => {
      client[method](request, this.metadata, { deadline }, (error, answer) =>
        error ? reject(DeviceError.of(error)) : resolve(answer));
    });
  }

  // The messages of a stream. Leaving the loop cancels the call. Throws a DeviceError.
  async *stream(client, method, request, timeoutSeconds = 600) {
    const deadline = Date.now() + timeoutSeconds * 1000;
    const call = client[method](request, this.metadata, { deadline });
    try {
      yield* call;
    } catch (error) {
      throw error.metadata ? DeviceError.of(error) : error;
    } finally {
      call.cancel();
    }
  }

  close() {
    this.aicore.close();
    this.appFunctions.close();
  }
}

// JavaScript's values as the device's and back. Whole numbers are integers.
function toValue(value) {
  if (value === null || value === undefined) return { null_value: "NULL_VALUE" };
  if (typeof value === "boolean") return { bool_value: value };
  if (typeof value === "string") return { string_value: value };
  if (typeof value === "number") {
    return Number.isInteger(value) ? { int_value: value } : { double_value: value };
  }
  if (Buffer.isBuffer(value)) return { bytes_value: value };
  if (Array.isArray(value)) return { list_value: { values: value.map(toValue) } };
  return { object_value: toObject(value) };
}

function toObject(table) {
  const fields = Object.entries(table).map(([name, value]) => ({ name, value: toValue(value) }));
  return { fields };
}

function fromValue(value) {
  switch (value.kind) {
    case "null_value": return null;
    case "int_value": return Number(value.int_value);
    case "list_value": return value.list_value.values.map(fromValue);
    case "object_value": return fromObject(value.object_value);
    default: return value[value.kind];
  }
}

function fromObject(object) {
  const fields = object ? object.fields : [];
  return Object.fromEntries(fields.map(({ name, value }) => [name, fromValue(value)]));
}

module.exports = { Device, DeviceError, fromObject, fromValue, toObject };
