// The shop's agent in Node: its functions, one question, and each event as a line of JSON.
"use strict";

const { Device, DeviceError, fromObject, fromValue, toObject } = require("./device.js");

const INSTRUCTIONS = "You look up store orders. Use the functions to fetch order information.";
const MAX_TURNS = 10;
const TYPES = {
  TYPE_STRING: "FUNCTION_TYPE_STRING",
  TYPE_BOOLEAN: "FUNCTION_TYPE_BOOLEAN",
  TYPE_INT: "FUNCTION_TYPE_INTEGER",
  TYPE_LONG: "FUNCTION_TYPE_INTEGER",
  TYPE_FLOAT: "FUNCTION_TYPE_NUMBER",
  TYPE_DOUBLE: "FUNCTION_TYPE_NUMBER",
};

function toSchema(type, description) {
  if (type.type === "TYPE_ARRAY") {
    return { type: "FUNCTION_TYPE_ARRAY", description, items: toSchema(type.item_type, "") };
  }
  if (!TYPES[type.type]) throw new Error(`this example does not declare ${type.type} to a model`);
  return { type: TYPES[type.type], description, nullable: type.is_nullable };
}

function toDeclaration(metadata) {
  return {
    name: metadata.name.function_identifier.split("#").pop(),
    description: metadata.description,
    parameters: {
      type: "FUNCTION_TYPE_OBJECT",
      properties: metadata.parameters.map((one) => ({
        name: one.name,
        schema: toSchema(one.data_type, one.description),
      })),
      required: metadata.parameters.filter((one) => one.is_required).map((one) => one.name),
    },
  };
}

function tell(event, facts) {
  console.log(JSON.stringify({ event, ...facts }));
}

async function ownFunctions(device) {
  const own = await device.call(device.appFunctions, "GetCallingPackage", {});
  const found = await device.call(device.appFunctions, "Search", {
    package_names: [own.package_name],
    library: "CALLER_LIBRARY_JETPACK",
  });
  return new Map(found.functions.map((one) => [toDeclaration(one).name, one]));
}

async function execute(device, functions, call) {
  const metadata = functions.get(call.name);
  if (!metadata) return { error: `there is no function ${call.name}` };
  try {
    const answer = await device.call(device.appFunctions, "Execute", {
      name: metadata.name,
      parameters: call.args,
    }, 30);
    return { result: fromValue(answer.return_value) };
  } catch (error) {
    if (!(error instanceof DeviceError) || error.kind !== "app_function") throw error;
    return { error: error.message };
  }
}

async function ask(device, question) {
  const functions = await ownFunctions(device);
  const tools = [...functions.values()].map(toDeclaration);
  const contents = [{ role: "USER", parts: [{ text: question }] }];
  for (let turn = 0; turn < MAX_TURNS; turn += 1) {
    let text = "";
    const calls = [];
    const request = {
      contents,
      tools,
      system_instruction: INSTRUCTIONS,
      sampling: { temperature: 0 },
    };
    for await (const chunk of device.stream(device.aicore, "GenerateContent", request)) {
      if (chunk.chunk === "text") text += chunk.text;
      if (chunk.chunk === "function_call") calls.push(chunk.function_call);
    }
    if (!calls.length) return tell("TextMessage", { text });
    const made = calls.map((call, at) => ({ ...call, id: `call-${turn}-${at}` }));
    contents.push({
      role: "MODEL",
      parts: [...(text ? [{ text }] : []), ...made.map((one) => ({ function_call: one }))],
    });
    const results = [];
    for (const call of made) {
      tell("FunctionCall", { name: call.name, args: fromObject(call.args) });
      const response = await execute(device, functions, call);
      tell("FunctionResponse", { name: call.name, response });
      results.push({ id: call.id, name: call.name, response: toObject(response) });
    }
    contents.push({
      role: "USER",
      parts: results.map((one) => ({ function_response: one })),
    });
  }
  throw new DeviceError("gen_ai", -112, `no answer after ${MAX_TURNS} turns`);
}

async function main() {
  const device = new Device();
  try {
    await ask(device, process.argv[2] || "Where is my order ORD-8492?");
  } catch (error) {
    if (!(error instanceof DeviceError)) throw error;
    const { kind, code, message, retryDelaySeconds } = error;
    tell("Error", { kind, code, message, retryDelaySeconds });
    process.exitCode = 1;
  } finally {
    device.close();
  }
}

main();
