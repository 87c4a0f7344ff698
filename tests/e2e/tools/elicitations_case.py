"""What the tests of questions to the user share: a client that answers when a test says so."""
import sys

from client import ROOT
from later import clock
from tools_case import BEGIN, ToolsCase

sys.path.append(str(ROOT / "tests" / "e2e" / "protocol"))

from test_elicitation import ACCEPT, AskingServer  # noqa: E402

ASK = {"add": {"ask": True}}


class Elicitations(ToolsCase):
    def asking(self, *arguments, kind=AskingServer, grants=ASK, **more):
        return self.server(*arguments, kind=kind, grants=grants, **more)

    def python(self, server, code, **more):
        return server.python(BEGIN + code, **more)

    def wait_for(self, server, count=1):
        """Until the client has been asked so often; reads what comes."""
        while len(server.questions) < count:
            message = server.receive()
            if "method" not in message:
                server.stash[message["id"]] = message

    def answer(self, server, number, answer):
        server.send({"id": server.questions[number]["id"], "result": answer})

    def accept_late(self, code, in_time, too_late, *arguments):
        """What the cell says when the user accepts just before ten minutes are over, and after them."""
        with clock() as later, self.asking(*arguments, options={"env": later.env}) as server:
            for number, seconds, said in (0, 599, in_time), (1, 599 + 601, too_late):
                call = server.start_call("run_python", code=BEGIN + code)
                self.wait_for(server, number + 1)
                later.advance(server, seconds)
                self.answer(server, number, ACCEPT)
                self.assertIn(said, server.finish_call(call).text)
