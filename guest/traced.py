"""The variables TRACEPARENT, TRACESTATE and BAGGAGE: what the request of a call says of its trace (MCP SEP-414). Code and what
it starts have them for that call only."""
environ = load("zygote").environ  # which child processes get
NAMES = "traceparent", "tracestate", "baggage"


def begin(session, fields):
    if session.traced:  # the call before has failed to end
        end(session)
    for name in NAMES:
        if name in fields:
            variable, value = name.upper(), fields[name].decode()
            session.traced.append((variable, value, environ.get(variable)))
            environ[variable] = value


def end(session):
    """Whatever the code has set instead is its own, and stays."""
    while session.traced:
        variable, value, before = session.traced.pop()
        if environ.get(variable) == value:
            if before is None:
                del environ[variable]
            else:
                environ[variable] = before
