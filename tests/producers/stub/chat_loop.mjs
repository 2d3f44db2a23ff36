// An agent's loop of an application's own around OpenAI's client, for SDKs that trace the client and functions.

/** Ask the model and run its calls by `run(name, arguments, id)` until it answers with text. */
export async function converse(client, scenario, messages, run) {
  const tools = scenario.tools.map((tool) => ({ type: "function", function: tool }));
  for (;;) {
    const answer = await client.chat.completions.create({ model: "gpt-4o", messages, tools });
    const { message } = answer.choices[0];
    messages.push(message);
    if (!message.tool_calls?.length) return message.content;
    for (const { id, function: made } of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: id, content: await called(scenario, made, id, run) });
  }
}

async function called(scenario, { name, arguments: given }, id, run) {
  if (!scenario.tools.some((tool) => tool.name === name)) return `Error: no tool called ${name}`;
  try {
    const result = await run(name, JSON.parse(given), id);
    return typeof result === "string" ? result : JSON.stringify(result);
  } catch (error) {
    return `Error: ${error.name}: ${error.message}`;
  }
}
