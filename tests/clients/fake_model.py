"""A model on the loopback that speaks the four vendors' forms and follows one script: two calls at once, one that
uses the state of the first and makes an image, one that fails, then a closing message.

It checks requests as the vendor would: the ids of the results, the place of images, and the mark of errors where the
form has one. `complaints` lists the mistakes.
"""
import http.server
import json
import threading

PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
DRAW = f"""import base64
with open("dot.png", "wb") as file:
    file.write(base64.b64decode("{PIXEL}"))
print(open("note.txt").read(), total + 1)"""
LAST_WORDS = "The total is 42."
# Each turn: the model's calls, and what their results must have: (text, image, failed).
SCRIPT = [
    ([("run_python", {"code": "total = 41"}),
      ("write_file", {"path": "note.txt", "content": "noted"})],
     [("+total int", False, False), ("note.txt", False, False)]),
    ([("run_python", {"code": DRAW, "stdin": None})], [("noted 42", True, False)]),
    ([("run_python", {"code": "1 / 0"})], [("ZeroDivisionError", False, True)]),
    ([("no_such_tool", {})], [("no_such_tool", False, True)]),
]


class Chat:
    path = "/chat/completions"
    has_error_mark = False

    def answer(self, calls, text):
        message = {"role": "assistant", "content": text}
        if calls:
            message["tool_calls"] = [
                {"id": number, "type": "function",
                 "function": {"name": name, "arguments": json.dumps(arguments)}}
                for number, name, arguments in calls]
        return {"choices": [{"index": 0, "message": message}]}

    def tools(self, body):
        return [tool["function"]["name"] for tool in body["tools"]]

    def results(self, body):
        """{id: [text, images, failed]} of the results after the model's last message."""
        results, last = {}, None
        at = max(i for i, message in enumerate(body["messages"]) if message["role"] == "assistant")
        for message in body["messages"][at + 1:]:
            if message["role"] == "tool":
                last = results[message["tool_call_id"]] = [message["content"], 0, None]
            else:
                urls = [part["image_url"]["url"] for part in message["content"]
                        if part["type"] == "image_url"]
                last[1] += urls.count("data:image/png;base64," + PIXEL)
        return results


class Responses(Chat):
    path = "/responses"

    def answer(self, calls, text):
        output = [{"type": "function_call", "id": "fc_" + number, "call_id": number, "name": name,
                   "arguments": json.dumps(arguments)} for number, name, arguments in calls]
        if text:
            output.append({"type": "message", "role": "assistant",
                           "content": [{"type": "output_text", "text": text, "annotations": []}]})
        return {"output": output}

    def tools(self, body):
        return [tool["name"] for tool in body["tools"]]

    def results(self, body):
        results = {}
        for item in body["input"]:
            if item.get("type") == "function_call_output":
                output = item["output"]
                parts = [{"type": "input_text", "text": output}] if isinstance(output, str) else output
                images = [part["image_url"] for part in parts if part["type"] == "input_image"]
                results[item["call_id"]] = [
                    "".join(part.get("text", "") for part in parts),
                    images.count("data:image/png;base64," + PIXEL), None]
        return results


class Anthropic(Chat):
    path = "/messages"
    has_error_mark = True

    def answer(self, calls, text):
        content = [{"type": "tool_use", "id": number, "name": name, "input": arguments}
                   for number, name, arguments in calls]
        if text:
            content.append({"type": "text", "text": text})
        return {"id": "msg_1", "type": "message", "role": "assistant", "content": content,
                "model": "fake", "stop_reason": "tool_use" if calls else "end_turn",
                "usage": {"input_tokens": 1, "output_tokens": 1}}

    tools = Responses.tools

    def results(self, body):
        results = {}
        for block in body["messages"][-1]["content"]:
            content = block["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            images = [part["source"]["data"] for part in parts if part["type"] == "image"]
            results[block["tool_use_id"]] = ["".join(part.get("text", "") for part in parts),
                                             images.count(PIXEL), block["is_error"]]
        return results


class Gemini(Chat):
    path = "/models/fake:generateContent"
    has_error_mark = True

    def answer(self, calls, text):
        parts = [{"functionCall": {"id": number, "name": name, "args": arguments}}
                 for number, name, arguments in calls]
        return {"candidates": [{"content": {"role": "model",
                                            "parts": parts + ([{"text": text}] if text else [])}}]}

    def tools(self, body):
        return [tool["name"] for tool in body["tools"][0]["functionDeclarations"]]

    def results(self, body):
        results = {}
        for part in body["contents"][-1]["parts"]:
            response = part["functionResponse"]
            said = response["response"]
            images = [one["inlineData"]["data"] for one in response.get("parts", [])]
            results[response["id"]] = [said.get("output", said.get("error")),
                                       images.count(PIXEL), "error" in said]
        return results


FORMS = {"openai-chat": Chat, "openai-responses": Responses, "anthropic": Anthropic,
         "gemini": Gemini}


class FakeModel:
    """Serves one conversation in one form; used with `with`."""

    def __init__(self, vendor):
        self.form = FORMS[vendor]()
        self.turn = 0
        self.complaints = []
        model = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(model.reply(self.path, body)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    def reply(self, path, body):
        try:
            if not path.endswith(self.form.path):
                self.complaints.append(f"asked for {path}")
            self.check(body)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            self.complaints.append(f"turn {self.turn}: {error!r} in {json.dumps(body)[-2000:]}")
        self.turn += 1
        if self.turn > len(SCRIPT):
            return self.form.answer([], LAST_WORDS)
        return self.form.answer([(f"call_{self.turn}_{i}", *call)
                                 for i, call in enumerate(SCRIPT[self.turn - 1][0])], None)

    def check(self, body):
        if not {"run_python", "write_file", "read_file"} <= set(self.form.tools(body)):
            self.complaints.append("tools are missing")
        if self.turn == 0:
            return
        results = self.form.results(body)
        for i, (text, image, failed) in enumerate(SCRIPT[self.turn - 1][1]):
            said, images, marked = results[f"call_{self.turn}_{i}"]
            if text not in said or images != image or \
                    (self.form.has_error_mark and marked != failed):
                self.complaints.append(f"turn {self.turn}: {said!r}, {images} images, {marked}")
