"""A stub server with as much of W&B's protocol as wandb's own uploader needs: it stores the history of each run."""
import contextlib
import gzip
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return gzip.decompress(raw) if self.headers.get("Content-Encoding") == "gzip" else raw

    def do_GET(self):
        self.answer({})

    def do_PUT(self):  # files other than the history
        self.body()
        self.answer({})

    def do_POST(self):
        body, runs = self.body(), self.server.runs
        if self.path.endswith("/file_stream"):
            history = json.loads(body).get("files", {}).get("wandb-history.jsonl", {"offset": 0, "content": []})
            lines = runs.setdefault(self.path.split("/")[-2], [])
            lines[history["offset"]:history["offset"] + len(history["content"])] = map(json.loads, history["content"])
            self.answer({"exitcode": None, "limits": {}})
        elif self.path == "/graphql":
            asked = json.loads(body)
            self.answer({"data": self.data(asked["query"], asked.get("variables") or {}, runs)})
        else:
            self.answer({})

    def data(self, query, variables, runs):
        """Answers the queries of a run that starts, resumes and uploads files; empty for others."""
        name = variables.get("name")
        if "upsertBucket" in query:
            project = {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": "me"}}
            return {"upsertBucket": {"inserted": name not in runs, "bucket": {
                "id": name, "name": name, "displayName": name, "config": variables.get("config"), "project": project, "historyLineCount": len(runs.get(name, []))}}}
        if "RunResumeStatus" in query:
            lines = runs.get(name)
            bucket = lines and {"id": name, "name": name, "projectId": "p", "historyLineCount": len(lines), "eventsLineCount": 0, "logLineCount": 0,
                                "historyTail": json.dumps([json.dumps(line) for line in lines[-1:]]), "eventsTail": "[]", "summaryMetrics": "{}", "config": "{}",
                                "tags": [], "displayName": name, "wandbConfig": json.dumps({"t": 1})}
            return {"model": {"id": "p", "name": variables.get("project"), "entity": {"id": "e", "name": "me"}, "bucket": bucket or None}}
        if "createRunFiles" in query:
            url = f"http://127.0.0.1:{self.server.server_port}/up"
            return {"createRunFiles": {"runID": "r", "uploadHeaders": [], "files": [{"name": f, "uploadUrl": f"{url}/{f}"} for f in variables["files"]]}}
        if "viewer" in query:
            return {"viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}}
        return {}


@contextlib.contextmanager
def server():
    """Yields its URL and the history by run, rows in stored order."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as s:
        s.runs = {}
        s.handle_error = lambda *a: None  # the uploader closes connections that it no longer needs
        threading.Thread(target=s.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{s.server_port}", s.runs
        finally:
            s.shutdown()
