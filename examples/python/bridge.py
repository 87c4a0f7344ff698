#!/usr/bin/env python3
"""A model's API and a Sandpiper server, joined with Python's standard library alone.

    bridge.py VENDOR MODEL QUESTION

VENDOR is openai-chat, openai-responses, anthropic or gemini. The key comes from OPENAI_API_KEY,
ANTHROPIC_API_KEY or GEMINI_API_KEY. BASE_URL names another server that speaks the same form, such as one of your
own on this machine; SANDPIPER names the program.

One server runs for the whole conversation, so variables and files stay from call to call. For one call without
state `sandpiper call TOOL JSON --format VENDOR` does the same in a line.
"""
import itertools
import json
import os
import subprocess
import sys
import urllib.request

PROGRAM = os.environ.get("SANDPIPER", "sandpiper")
TURNS = 20  # most turns of the model


class Sandbox:
    """A running server. Each line of its input and output is one JSON-RPC message."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([PROGRAM, *flags], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.ids = itertools.count(1)
        hello = self.request("initialize", {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "bridge", "version": "1"}})
        self.instructions = hello["result"].get("instructions", "")
        self.send({"method": "notifications/initialized"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Closes the server's input, which ends it and everything in the sandbox."""
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def send(self, message):
        line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()

    def request(self, method, params):
        """Returns the response; there is one call at a time, so any other message meanwhile is a notification."""
        number = next(self.ids)
        self.send({"id": number, "method": method, "params": params})
        for line in self.process.stdout:
            message = json.loads(line)
            if message.get("id") == number:
                return message
        raise RuntimeError("the sandbox has exited")

    def call(self, tool, arguments):
        """Returns (text, images, failed). The model gets the error of a wrong call too, and corrects it."""
        response = self.request("tools/call", {"name": tool, "arguments": arguments})
        if "error" in response:
            return response["error"]["message"], [], True
        content = response["result"]["content"]
        text = "\n".join(block["text"] for block in content if block["type"] == "text")
        images = [(block["mimeType"], block["data"]) for block in content
                  if block["type"] == "image"]
        return text, images, response["result"].get("isError", False)


def declarations(vendor, *flags):
    """The tools in the form of this vendor's requests, with the limits of these flags in their descriptions."""
    return json.loads(subprocess.run([PROGRAM, "schema", "--format", vendor, *flags], check=True,
                                     stdout=subprocess.PIPE).stdout)


def data_url(image):
    return f"data:{image[0]};base64,{image[1]}"


# Each class is the history of a conversation in one vendor's form: request() makes the next request, read() adds the
# response and returns (text, [(id, tool, arguments)]), add() adds the result of a call.


class OpenAIChat:
    url = "https://api.openai.com/v1"
    key = "OPENAI_API_KEY"

    def __init__(self, model, instructions, question):
        self.body = {"model": model, "tools": declarations("openai-chat"), "messages": [
            {"role": "system", "content": instructions}, {"role": "user", "content": question}]}
        self.images = []

    def request(self, key):
        if self.images:  # a tool's message has text only, and all of them come before the user's
            self.body["messages"].append({"role": "user", "content": [
                {"type": "text", "text": "The images that the tools returned:"}, *self.images]})
            self.images = []
        return "/chat/completions", {"Authorization": f"Bearer {key}"}, self.body

    def read(self, answer):
        message = answer["choices"][0]["message"]
        self.body["messages"].append(message)
        return message.get("content"), [
            (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls") or []]

    def add(self, number, tool, text, images, failed):
        self.body["messages"].append({"role": "tool", "tool_call_id": number, "content": text})
        self.images += [{"type": "image_url", "image_url": {"url": data_url(image)}}
                        for image in images]


class OpenAIResponses:
    url = "https://api.openai.com/v1"
    key = "OPENAI_API_KEY"

    def __init__(self, model, instructions, question):
        self.body = {"model": model, "tools": declarations("openai-responses"),
                     "instructions": instructions, "input": [{"role": "user", "content": question}]}

    def request(self, key):
        return "/responses", {"Authorization": f"Bearer {key}"}, self.body

    def read(self, answer):
        self.body["input"] += answer["output"]
        text = "".join(part["text"] for item in answer["output"] if item["type"] == "message"
                       for part in item["content"] if part["type"] == "output_text")
        return text, [(item["call_id"], item["name"], json.loads(item["arguments"]))
                      for item in answer["output"] if item["type"] == "function_call"]

    def add(self, number, tool, text, images, failed):
        parts = [{"type": "input_text", "text": text}]
        parts += [{"type": "input_image", "detail": "auto", "image_url": data_url(image)}
                  for image in images]
        self.body["input"].append({"type": "function_call_output", "call_id": number,
                                   "output": parts if images else text})


class Anthropic:
    url = "https://api.anthropic.com/v1"
    key = "ANTHROPIC_API_KEY"

    def __init__(self, model, instructions, question):
        self.body = {"model": model, "max_tokens": 8192, "tools": declarations("anthropic"),
                     "system": instructions, "messages": [{"role": "user", "content": question}]}

    def request(self, key):
        return "/messages", {"x-api-key": key, "anthropic-version": "2023-06-01"}, self.body

    def read(self, answer):
        self.body["messages"].append({"role": "assistant", "content": answer["content"]})
        text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        calls = [(block["id"], block["name"], block["input"]) for block in answer["content"]
                 if block["type"] == "tool_use"]
        if calls:  # all results go into one message
            self.body["messages"].append({"role": "user", "content": []})
        return text, calls

    def add(self, number, tool, text, images, failed):
        content = [{"type": "text", "text": text}]
        content += [{"type": "image", "source": {"type": "base64", "media_type": kind, "data": data}}
                    for kind, data in images]
        self.body["messages"][-1]["content"].append({
            "type": "tool_result", "tool_use_id": number, "content": content, "is_error": failed})


class Gemini:
    url = "https://generativelanguage.googleapis.com/v1beta"
    key = "GEMINI_API_KEY"

    def __init__(self, model, instructions, question):
        self.model = model
        self.body = {"tools": [declarations("gemini")],
                     "systemInstruction": {"parts": [{"text": instructions}]},
                     "contents": [{"role": "user", "parts": [{"text": question}]}]}

    def request(self, key):
        return f"/models/{self.model}:generateContent", {"x-goog-api-key": key}, self.body

    def read(self, answer):
        content = answer["candidates"][0]["content"]
        self.body["contents"].append(content)
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if calls:
            self.body["contents"].append({"role": "user", "parts": []})
        return "".join(part.get("text", "") for part in content["parts"]), [
            (call.get("id"), call["name"], call.get("args", {})) for call in calls]

    def add(self, number, tool, text, images, failed):
        response = {"name": tool, "response": {"error" if failed else "output": text}}
        if number is not None:
            response["id"] = number
        if images:
            response["parts"] = [{"inlineData": {"mimeType": kind, "data": data}}
                                 for kind, data in images]
        self.body["contents"][-1]["parts"].append({"functionResponse": response})


VENDORS = {"openai-chat": OpenAIChat, "openai-responses": OpenAIResponses,
           "anthropic": Anthropic, "gemini": Gemini}


def post(url, headers, body):
    request = urllib.request.Request(url, json.dumps(body).encode(),
                                     {"Content-Type": "application/json", **headers})
    with urllib.request.urlopen(request) as response:
        return json.load(response)


def run(history, sandbox, base_url, key):
    """Asks the model and carries out its calls until it makes none. Returns its last text."""
    for _ in range(TURNS):
        path, headers, body = history.request(key)
        text, calls = history.read(post(base_url + path, headers, body))
        if not calls:
            return text
        for number, tool, arguments in calls:
            print(f"[{tool}]", file=sys.stderr)
            history.add(number, tool, *sandbox.call(tool, arguments))
    raise RuntimeError(f"no result after {TURNS} turns")


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in VENDORS:
        sys.exit(__doc__)
    _, vendor, model, question = sys.argv
    form = VENDORS[vendor]
    with Sandbox() as sandbox:
        history = form(model, sandbox.instructions, question)
        print(run(history, sandbox, os.environ.get("BASE_URL", form.url),
                  os.environ.get(form.key, "")))


if __name__ == "__main__":
    main()
